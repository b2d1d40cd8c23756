"""The way through Slurm: which jobs there are, the step that is asked for, and what it says where there is none.

What stands for ``squeue`` prints a file here, and what stands for ``srun`` runs its words on this machine. The real ones:
tests/integration/test_slurm.py.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import each
from support import until

from jupyter_traindbg import errors
from jupyter_traindbg.hosts import remote, slurm
from jupyter_traindbg.hosts.slurm import COMMANDS, SlurmJob, SlurmLine, own_jobs, running

EXISTS = "jupyter_traindbg.outside.procfs:exists"
DEADLINE_S = 60.0
SQUEUE = """#!/bin/sh
echo "$@" >> {folder}/squeue.words
[ -e {folder}/slow ] && exec sleep 3600
[ -e {folder}/fails ] && {{ cat {folder}/fails >&2; exit 1; }}
exec cat {folder}/jobs
"""
SRUN = """#!/bin/sh
echo "$@" > {folder}/srun.words
env | grep -E '^(SLURM|SRUN)_' > {folder}/srun.env
[ -e {folder}/refuses ] && {{ cat {folder}/refuses >&2; exit 1; }}
[ -e {folder}/waits ] && {{ cat {folder}/waits >&2; exec sleep 3600; }}
while [ "$1" != /bin/sh ]; do shift; done
"$@"
echo "$?" > {folder}/srun.ended
"""
ONE = "4242|4242|RUNNING|None|node[01-03]|pretrain\n"
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what stands for Slurm looks how to behave."""
    for name, text in (("squeue", SQUEUE), ("srun", SRUN)):
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "jobs").write_text(ONE)
    monkeypatch.setenv(COMMANDS, f"env PATH={tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(remote, "_lines", {})
    return tmp_path


@pytest.fixture
def line(folder: Path) -> Iterator[SlurmLine]:
    made = SlurmLine("node02", ["--jobid=4242"])
    yield made
    made.end()


def helpers() -> set[str]:
    return {entry.name for entry in os.scandir(tempfile.gettempdir()) if entry.name.startswith("traindbg-helper-")}


# --- jobs ----------------------------------------------------------------------------------------------------------


def test_a_job_has_its_nodes_and_how_each_is_reached(folder: Path) -> None:
    nodes = dict.fromkeys(("node01", "node02", "node03"), ("--jobid=4242",))
    assert running("4242", 10) == SlurmJob("4242", "pretrain", "RUNNING", "None", ("4242",), nodes)
    assert "--jobs=4242" in (folder / "squeue.words").read_text()


def test_a_task_of_an_array_is_known_by_its_own_number(folder: Path) -> None:
    (folder / "jobs").write_text("7_2|19|RUNNING|None|a,b|sweep | 2\n")
    job = running("7_2", 10)
    assert (job.id, job.called, job.numbers) == ("7_2", "sweep | 2", ("19",))
    assert job.nodes == {"a": ("--jobid=19",), "b": ("--jobid=19",)}


def test_components_of_a_heterogeneous_job_are_one(folder: Path) -> None:
    """Slurm starts steps in one by the number of its leader, and by which component it is to be."""
    (folder / "jobs").write_text("7+0|7|RUNNING|None|a|x\n7+1|8|RUNNING|None|rack[1-2]n[1-2]|x\n")
    job = running("7", 10)
    assert job.numbers == ("7", "8")
    assert list(job.nodes) == ["a", "rack1n1", "rack1n2", "rack2n1", "rack2n2"]
    assert job.nodes["a"] == ("--jobid=7", "--het-group=0")
    assert job.nodes["rack2n1"] == ("--jobid=7", "--het-group=1")


def test_without_a_number_it_is_the_only_one_that_runs(folder: Path) -> None:
    (folder / "jobs").write_text("8|8|PENDING|Priority||next\n" + ONE)
    assert running("", 10).id == "4242"
    assert [job.id for job in own_jobs(10)] == ["8", "4242"]
    assert "--me" in (folder / "squeue.words").read_text()


def test_several_jobs_are_named_with_what_they_are(folder: Path) -> None:
    (folder / "jobs").write_text("7_1|18|RUNNING|None|a|sweep\n7_2|19|RUNNING|None|b|sweep\n")
    with pytest.raises(errors.AmbiguousTarget) as several:
        running("7", 10)
    assert several.value.candidates == {"slurm:7_1": "sweep: a", "slurm:7_2": "sweep: b"}
    assert several.value.instead_of == "slurm:7"


@each(
    "told, wanted, kind, words",
    [
        ("8|8|PENDING|Resources||x\n", "8", errors.NoTarget, "job 8 does not run: PENDING, Resources"),
        ("8|8|TIMEOUT|None|a|x\n", "8", errors.NoTarget, "job 8 does not run: TIMEOUT;"),
        ("", "9", errors.NoTarget, "Slurm has no job 9"),
        ("8|8|PENDING|Resources||x\n", "", errors.NoTarget, "Slurm runs no job of yours"),
    ],
)
def test_why_there_is_no_such_job(told: str, wanted: str, kind: type[errors.TraindbgError], words: str) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        (Path(place) / "squeue").write_text(f"#!/bin/sh\ncat <<'END'\n{told}END\n")
        (Path(place) / "squeue").chmod(0o755)
        patch.setenv(COMMANDS, f"env PATH={place}:{os.environ['PATH']}")
        with pytest.raises(kind) as why:
            running(wanted, 10)
    assert words in str(why.value)


def test_a_job_whose_nodes_cannot_be_read_is_told_and_another_way_named(folder: Path) -> None:
    (folder / "jobs").write_text("8|8|RUNNING|None|node[1-2000]|x\n")
    with pytest.raises(errors.CannotAttach, match="job 8 has too many nodes"):
        running("8", 10)


def test_a_slurm_that_does_not_answer_or_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "fails").write_text("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
    with pytest.raises(errors.CannotAttach, match=r"Slurm does not answer: .*Unable to contact slurm controller"):
        running("4242", 10)
    (folder / "fails").write_text("slurm_load_jobs error: Invalid job id specified\n")
    (folder / "jobs").write_text("")
    with pytest.raises(errors.NoTarget, match="Slurm has no job 4242"):
        running("4242", 10)
    (folder / "slow").touch()
    with pytest.raises(errors.DeadlineExceeded, match=r"Slurm did not answer in 0\.2 s"):
        running("4242", 0.2)
    monkeypatch.setenv(COMMANDS, str(folder / "nowhere"))
    with pytest.raises(errors.MissingPiece, match=r"Slurm's commands are not here.*TRAINDBG_SLURM"):
        running("4242", 10)


# --- a node --------------------------------------------------------------------------------------------------------


def test_functions_run_there_in_a_step_of_the_job_beside_the_others(
    folder: Path, line: SlurmLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Slurm tells the job that we run in ourselves is no wish for that step."""
    for name in ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_EXACT", "SRUN_CPUS_PER_TASK"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/other.conf")
    assert line.call(EXISTS, os.getpid(), deadline_s=DEADLINE_S) is True
    words = (folder / "srun.words").read_text().split()
    assert {"--jobid=4242", "--nodelist=node02", "--overlap", "--ntasks=1", "--unbuffered"} <= set(words)
    assert (folder / "srun.env").read_text() == "SLURM_CONF=/etc/slurm/other.conf\n"


def test_a_step_ends_by_itself_and_its_directory_with_it(folder: Path, line: SlurmLine) -> None:
    """A program that is killed has Slurm kill what it runs."""
    before = helpers()
    line.call(EXISTS, 1, deadline_s=DEADLINE_S)
    (made,) = helpers() - before
    line.end()
    until((folder / "srun.ended").exists)
    assert (folder / "srun.ended").read_text() == "0\n"
    until(lambda: made not in helpers())


def test_a_step_that_does_not_end_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "waits").write_text(
        "srun: Job 4242 step creation temporarily disabled, retrying (Requested nodes are busy)"
    )
    monkeypatch.setattr(SlurmLine, "leaves_s", 0.1)
    line = SlurmLine("node02", ["--jobid=4242"])
    with pytest.raises(errors.DeadlineExceeded, match=r"node02 did not answer.*Requested nodes are busy"):
        line.call(EXISTS, 1, deadline_s=1.0)
    child = line._child
    assert child is not None
    assert child._begun is not None
    process = child._begun.process
    line.end()
    until(lambda: process.poll() is not None)


@each(
    "said, kind, words",
    [
        (
            "srun: error: Unable to confirm allocation for job 7: Invalid job id specified\n"
            "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 7",
            errors.TargetGone,
            "does not run any more on n: Unable to confirm allocation for job 7: Invalid job id specified;",
        ),
        (
            "srun: error: Unable to create step for job 7: Access/permission denied",
            errors.NotPermitted,
            "lets you start nothing on n: Unable to create step for job 7: Access/permission denied; the owner",
        ),
        (
            "srun: error: Unable to create step for job 7: Requested node configuration is not available",
            errors.CannotAttach,
            "`srun --overlap --jobid=7 --nodelist=n hostname` must get there",
        ),
        ("", errors.CannotAttach, "Slurm starts nothing on n: it said nothing"),
    ],
)
def test_why_it_does_not_get_in(said: str, kind: type[errors.TraindbgError], words: str) -> None:
    why = SlurmLine("n", ["--jobid=7"]).not_reached(said)
    assert type(why) is kind
    assert words in str(why)


def test_a_refusal_is_told_by_slurms_own_words(folder: Path, line: SlurmLine) -> None:
    (folder / "refuses").write_text("srun: error: Unable to create step for job 4242: Access/permission denied\n")
    with pytest.raises(errors.NotPermitted, match="Access/permission denied"):
        line.call(EXISTS, 1, deadline_s=DEADLINE_S)


def test_nodes_are_shared_by_all_who_ask_them(folder: Path) -> None:
    one, other = slurm.open_nodes(running("4242", 10)), slurm.open_nodes(running("4242", 10))
    try:
        assert one.run("node01", EXISTS, 1, deadline_s=DEADLINE_S) is True
        assert other.answering("node01")
        assert not other.answering("node02")
    finally:
        one.close()
        other.close()
        remote.hang_up()
