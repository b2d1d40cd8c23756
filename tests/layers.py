"""The flow of the house: what each part of the package may import. Read by unit/test_layering.py."""

from __future__ import annotations

__all__ = ["DATA", "HEAVY", "LEAVES", "MAY_IMPORT", "MAY_IMPORT_RAY", "STANDARD_LIBRARY_ONLY"]

LEAVES = ["_version", "command_lines", "commands", "documentation", "language", "model", "notebook", "terminal_codes"]
DATA = [
    "command_lines",
    "commands",
    "errors",
    "frames",
    "language",
    "model",
    "no_step",
    "step_numbers",
    "step_parts",
    "terminal_codes",
    "verbose",
    "words",
]
MAY_IMPORT = {
    **{leaf: [] for leaf in LEAVES},
    "step_parts": ["language"],
    "verbose": ["redact", "terminal_codes"],  # a logger of lines without secrets
    "errors": ["commands", "language"],
    "progress": ["notebook"],
    "complete_file": ["errors", "language"],
    "tasks": ["errors", "language", "verbose"],  # work beside the rest, waited for with a deadline
    "agent": [],  # travels into processes where the rest of the package does not exist
    "outside": ["agent.flight", "agent.probes.joining", "agent.rendezvous", "tasks", *DATA],
    "spoken": ["agent.saying", "language"],  # what agents say, in the reader's language
    "checkpoints": ["agent.checkpoint.seal", "agent.saying", "progress", "spoken", *DATA],  # files on disk, no job
    "step_numbers": ["language", "model"],
    "schedules": ["model"],  # pure: which ranks follow one schedule
    "no_step": ["language", "model"],
    "words": ["language", "model"],  # pure: how data are said to people
    "frames": ["language", "model"],  # pure: what the frames of a stack mean
    "diagnose": [
        "command_lines",
        "frames",
        "language",
        "model",
        "no_step",
        "ray.workers.naming",
        "step_numbers",
        "step_parts",
        "words",
    ],  # pure: evidence in, Findings out
    "attach": ["_version", "agent", "hosts", "notebook", "outside", "spoken", "tasks", *DATA],
    "evidence": ["frames", "language", "model", "outside"],
    "evidence_growth": ["frames", "model"],
    "evidence_compiling": ["frames", "model", "redact"],
    "evidence_variables": ["frames", "model", "redact"],
    "evidence_collectives": ["evidence", "frames", "model", "outside"],
    "evidence_profile": ["evidence_slow", "frames", "model", "traces"],
    "evidence_slow": ["evidence_soundness", "frames", "model", "outside"],
    "evidence_soundness": ["frames", "model", "outside"],
    "traces": [
        "complete_file",
        "errors",
        "frames",
        "language",
        "model",
    ],  # what torch's profiler wrote, and one file of it all
    "tables": [
        "redact",
        *DATA,
    ],  # pure: answers in, rows out; a result in, a pyarrow Table or a pandas DataFrame out; a query over rows
    "plotting": ["pictures", "questions.jobless.log", *DATA],  # a result or a log in, its picture out
    "preflight": [
        "attach.ray",
        "diagnose",
        "outside",
        "tasks",
        *DATA,
    ],  # this machine, the ways from it, or a Ray cluster; no job
    "redact": [],  # pure: text in, text without secrets out
    "report": [
        "_version",
        "agent.rendezvous",
        "diagnose",
        "outside",
        "progress",
        "questions",
        "redact",
        "render",
        "tasks",
        *DATA,
    ],  # asks a job by the questions that it is given
    "gather": [
        "redact",
        "attach",
        "evidence",
        "evidence_collectives",
        "evidence_compiling",
        "evidence_growth",
        "evidence_slow",
        "evidence_soundness",
        "evidence_variables",
        "outside",
        "tasks",
        *DATA,
    ],
    "actions": [
        "agent.agreed",
        "agent.boundary",
        "agent.checkpoint.files",
        "agent.saying",
        "attach",
        "checkpoints",
        "evidence",
        "outside",
        "ray.workers.naming",
        "spoken",
        *DATA,
    ],
    "questions": [
        "actions.matching",
        "attach",
        "diagnose",
        "evidence",
        "evidence_collectives",
        "evidence_growth",
        "evidence_profile",
        "gather",
        "outside",
        "progress",
        "ray.of_process",  # of a process of a Ray job all of that job is asked
        "redact",
        "schedules",
        "tables",
        "tasks",
        "traces",
        *DATA,
    ],  # ask a job by the protocol `Ranks`
    "questions.jobless": [
        "diagnose",
        "gather.by_source",  # compares what was sent
        "gather.call_sites",
        "gather.dumped",
        "outside",
        "preflight",
        "questions.diagnose",
        "redact",
        "tasks",
        *DATA,
    ],  # no running job
    "polling": ["attach", "evidence", "outside", *DATA],
    "live": ["diagnose.hang", *DATA],  # asks a job by the questions of its protocol
    "export": ["_version", "complete_file", "live", *DATA],  # what a feed keeps, written to a file
    "pictures": [
        "complete_file",
        "live",
        "render.clean",
        "render.collective_rows",
        "render.column_units",
        "render.grouping",
        "render.profile_ranks",
        "render.units",
        *DATA,
    ],  # draw a feed or a result, and ask nobody
    "widgets": [
        "checkpoints",
        "live",
        "notebook",
        "pictures",
        "render",
        *DATA,
    ],  # draw a feed, and ask the job that they are given
    "watching": ["attach", "evidence", "export", "live", "pictures", "polling", "questions", "widgets", *DATA],
    "tunable": ["actions", "questions.base", *DATA],
    "log_lines": ["diagnose.log", "outside", "redact", *DATA],  # of a job, for queries
    "job": [
        "actions",
        "attach",
        "checkpoints",
        "gather.clocks",
        "log_lines",
        "progress",
        "questions",
        "ray.job",  # what `connect` gives for a ray: target
        "ray.of_process",
        "ray.report",
        "report",
        "spread.remote",  # what it gives for an ssh: or slurm: target
        "tunable",
        "watching",
        *DATA,
    ],
    "hosts": ["outside", "tasks", *DATA],  # other machines, as places where functions of this package run
    "spread": [],
    "spread.base": [
        "attach",
        "diagnose.located",
        "gather.clocks",
        "hosts",
        "job",
        "progress",
        "questions",
        "spread.merging",
        "spread.part",
        "spread.placed",
        *DATA,
    ],
    "spread.job": [
        "actions.checkpoint",
        "actions.tuning",
        "gather.by_source",
        "gather.clocks",
        "gather.elsewhere",
        "hosts.base",
        "job",
        "progress",
        "questions.diagnose",
        "questions.jobless.log",  # what the last words of ranks that have ended show
        "report",
        "spread.base",
        "spread.merging",
        "spread.placed",
        "tasks",
        *DATA,
    ],
    "spread.found": ["attach", "outside", "spread.part", *DATA],  # what runs on each host, to say which jobs are there
    "spread.remote": ["hosts", "job", "spread.found", "spread.job", "spread.placed", *DATA],
    "spread.placed": ["spread.part"],
    "spread.merging": ["errors", "language", "model"],  # pure: results in, a result out
    "spread.part": [
        "attach",
        "gather",
        "hosts.wire",
        "job",
        "outside",
        "polling",
        "report",
        *DATA,
    ],  # what runs on each host
    "ray": [],
    "ray.job": [
        "attach",
        "job",
        "outside.raystate",
        "ray.diagnosing",
        "ray.members",
        "ray.report",
        "spread.job",
        *DATA,
    ],
    "ray.of_process": ["attach", "diagnose.ray", "evidence", "questions", "ray.job", "tasks", *DATA],
    "ray.diagnosing": ["attach", "diagnose", "gather", "outside", "ray.led", "ray.report", "tasks", *DATA],
    "ray.led": ["attach", "diagnose.ray", "gather", "hosts", "outside", "ray.members", *DATA],
    "ray.members": ["ray.workers", "spread.part", "spread.placed", *DATA],
    "ray.workers": DATA,  # pure: facts, stacks and answers in, rows out
    "ray.report": ["attach", "outside", "ray.workers", *DATA],
    "prepared": ["_version", "agent"],
    "ray.hook": ["_version", "attach.payload"],
    "resume": ["_version", "agent", "checkpoints", "progress", *DATA],
    "render": [
        "documentation",
        "notebook",
        "ray.workers.naming",
        "ray.workers.words",
        "schedules",
        *DATA,
    ],  # draws what it is given and fetches nothing
    "magics": [
        "actions",
        "agent",  # of this very kernel: what becomes of a change is said in the cell
        "attach.discover",
        "checkpoints",
        "evidence",
        "hosts.slurm",  # jobs to choose from
        "hosts.ssh",
        "job",
        "live",
        "notebook",
        "outside",
        "pictures",
        "preflight",
        "questions",
        "ray.diagnosing",
        "ray.job",
        "ray.report",
        "render",
        "report",
        "spoken",
        "spread.remote",
        "tables",
        *DATA,
    ],
    "server": [
        "_version",
        "attach",
        "checkpoints",
        "documentation",
        "job",
        "live",
        "outside",
        "questions.jobless.launcher",
        "report",
        "tasks",
        *DATA,
    ],  # asks jobs; draws nothing
    "cli": ["_version", "job", "magics", "render", *DATA],
    "__init__": [
        "_version",
        "attach.discover",
        "job",
        "magics",
        "model",
        "pictures",
        "plotting",
        "prepared",
        "questions.jobless.log",
        "questions.jobless.sent",
        "ray.hook",
        "render",
        "resume",
        "tables",
    ],
}
"""What each part may import, itself aside; the longest name counts. A new part needs a line here: decide where in the flow it lies."""

STANDARD_LIBRARY_ONLY: dict[str, set[str]] = {
    "agent": set(),
    "attach._kernel_inside": {"IPython"},  # a kernel has it
    "attach.pending": set(),
    "attach.tracee": set(),
    "attach.ptrace": {"pyinjector"},  # on machines other than x86-64
    "checkpoints": set(),  # reads torch's files without torch
    "outside.nvml_helper": {"pynvml"},
    "tables.duck_helper": set(),  # DuckDB by the directory that it is told
    "preflight.worker": {"torch"},
    "progress": {"IPython", "tqdm"},  # a bar is a comfort
    "preflight.worker_trial.inside": set(),  # travels by value into a Ray worker
    "attach.ray.helper": {"ray"},  # travels by value into a Ray worker that has nothing of ours
    "hosts.helper": set(),  # travels there as text, or by value, before anything else of ours
    "hosts.wire": set(),
}
"""These run in processes where nothing may be installed; each with what it imports besides, and can be sure of or do without."""

MAY_IMPORT_RAY = [
    "attach.ray.helper",
    "attach.ray.session",
    "outside.raystate.gcs",
    "preflight.worker_trial.at_cluster",
]
"""These run in the broker's process, or on the cluster: a Ray driver ends its whole process when the cluster goes."""

HEAVY = {
    "torch",
    "ray",
    "IPython",
    "ipykernel",
    "jupyter_client",
    "matplotlib",
    "pynvml",
    "rich",
    "jinja2",
    "psutil",
    "numpy",
    "pandas",
    "pyarrow",
    "duckdb",
    "_duckdb",
}
