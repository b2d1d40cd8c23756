"""The notebooks on acting, hangs, logs, Ray, slowness and memory, executed from start to end; what their cells found is looked at."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import time
from collections.abc import Iterator
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from support import REPO, need

NOTEBOOKS = REPO / "notebooks"
CELL_LIMIT_S = 150
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
BY_NINE_DIGITS = "60 steps: identical to the last bit"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An environment variable that all processes of a notebook inherit; those that it leaves behind are ended afterwards."""
    need("jupyter-traindbg installed, since TRAINDBG=1 works by a file in site-packages", is_installed())
    words = f"NOTEBOOK_UNDER_TEST={tmp_path}"
    monkeypatch.setenv(*words.split("="))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.chdir(tmp_path)  # whoever runs a notebook may be anywhere
    yield words
    for pid in left_behind(words):
        os.kill(pid, signal.SIGKILL)


def is_installed() -> bool:
    try:
        metadata.version("jupyter-traindbg")
    except metadata.PackageNotFoundError:
        return False
    return True


def left_behind(mark: str) -> list[int]:
    """The processes that have `mark` in their environment, apart from this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"{mark}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:  # it ended meanwhile, or is another user's
                continue
    return found


def wait_until_gone(mark: str, limit_s: float = 60) -> list[int]:
    ends = time.monotonic() + limit_s
    while (found := left_behind(mark)) and time.monotonic() < ends:
        time.sleep(0.1)
    return found


class Executed:
    """A notebook and what came of its cells."""

    def __init__(self, name: str, *more: str, cells: int | None = None, behind: tuple[str, str] = ("", "")) -> None:
        """`more` cells come last, the second of `behind` right behind the cell that is the first."""
        self.content = nbformat.read(NOTEBOOKS / name, as_version=4)  # type: ignore[no-untyped-call]
        self.content.cells = self.content.cells[:cells]
        where = next((i for i, cell in enumerate(self.content.cells, 1) if cell.source == behind[0]), 0)
        if where:
            self.content.cells.insert(where, nbformat.v4.new_code_cell(behind[1]))  # type: ignore[no-untyped-call]
        self.content.cells += [nbformat.v4.new_code_cell(source) for source in more]  # type: ignore[no-untyped-call]
        folder = {"metadata": {"path": str(NOTEBOOKS)}}
        NotebookClient(self.content, timeout=CELL_LIMIT_S, kernel_name="python3", resources=folder).execute()

    def of(self, source: str) -> str:
        """What the only cell with `source` in it put out, as a terminal shows it."""
        (cell,) = [c for c in self.content.cells if c.cell_type == "code" and source in c.source]
        return "\n".join(map(as_text, cell.outputs))

    def lines_of(self, source: str) -> list[str]:
        return [line for line in self.of(source).splitlines() if line.strip()]

    def everything(self) -> str:
        return "\n".join(as_text(o) for c in self.content.cells if c.cell_type == "code" for o in c.outputs)


def as_text(output: Any) -> str:
    return COLOURS.sub("", str(output.get("text") or output.get("data", {}).get("text/plain") or ""))


# --- 01 ------------------------------------------------------------------------------------------------------------

KEEP = """
recorded = job.steps().ranks[0].steps
own_step = {s.step: s.optimizer_step for s in recorded}
changes = [(own_step[entry.step], entry.change) for entry in job.lr().ranks[0].log]
scheduled = training.rates()
"""
"""While the job is there: it is left before the notebook ends."""
TELL = """
import json
first = {s.optimizer_step: s for s in recorded}
print(json.dumps({
    "changes": changes,
    "used": {step: s.lr[0] for step, s in first.items()},
    "scheduled": scheduled,
    "loss": {step: s.loss for step, s in first.items()},
    "same_step": changed.same_step,
    "ranks": [(r.state, r.optimizer_step) for r in changed.ranks],
}))
"""


def test_a_learning_rate_is_changed_in_flight(mark: str) -> None:
    notebook = Executed("01-learning-rate.ipynb", TELL, behind=("%plot lr", KEEP))
    assert "the schedule x 0.1" in notebook.of("%plot lr")

    naive = notebook.of("def naive")
    assert "0.1000  0.1000  0.0100  0.1000" in naive, "a LambdaLR forgets at the next step"
    assert re.search(r"CosineAnnealingLR.*in a checkpoint: 0.0100", naive), "and a cosine never does"

    found = json.loads(notebook.of("json.dumps"))
    changes, used, scheduled = found["changes"], of_steps(found["used"]), of_steps(found["scheduled"])
    assert [words for _, words in changes] == [
        "learning rate: the schedule x 0.1",
        "gradients clipped at norm 0.05",
        "learning rate pinned at its present value",
        "the last change of the learning rate undone",
        "gradient clipping released",
        "learning rate released",
    ]
    at = [step for step, _ in changes]
    assert at == sorted(at)

    scale, _, hold, undo, _, release = at
    for step in used:
        before = scheduled.get(step - 1, 0.0)  # what its log says after a step is what the next one is to use
        if step < scale or step >= release:
            assert used[step] == pytest.approx(before, rel=1e-5), step
        elif step < hold or step >= undo:
            assert used[step] == pytest.approx(0.1 * before, rel=1e-5), step
        else:
            assert used[step] == used[hold], step
    loss = of_steps(found["loss"])
    worst, mended = mean(loss, scale - 200, scale), mean(loss, scale + 300, scale + 500)
    assert mended < 0.6 * worst, "turning it down did not help"

    rates = [line.split()[-1] for line in notebook.lines_of("saved = torch.load")]
    assert float(rates[0]) == pytest.approx(0.1 * float(rates[1]), abs=1e-6), "what a step used, and what was scheduled"
    assert rates[1] == rates[2] == rates[3], "its log, its optimizer and its scheduler know of nothing"

    before, since = ([float(n) for n in line.split(":")[1].split()] for line in notebook.lines_of("norms since"))
    assert statistics.median(before) > 0.0501, "a step now and then is smaller, and needs no clipping"
    assert 0.0501 > max(since) >= statistics.median(since) > 0.0499, "and most are clipped to the bound"

    assert found["same_step"]
    assert [state for state, _ in found["ranks"]] == ["verified", "verified"]
    assert len({step for _, step in found["ranks"]}) == 1
    assert "live and in the code: identical to the last bit" in notebook.of("one_late")
    assert wait_until_gone(mark) == []


def of_steps(answer: dict[str, float]) -> dict[int, float]:
    return {int(step): value for step, value in answer.items()}


def mean(of: dict[int, float], first: int, last: int) -> float:
    values = [value for step, value in of.items() if first <= step < last]
    return sum(values) / len(values)


# --- 02 ------------------------------------------------------------------------------------------------------------


def test_a_hung_job_is_rescued_to_the_last_bit(mark: str) -> None:
    notebook = Executed("02-rescue-hung-job.ipynb")
    everything = notebook.everything()
    assert "DIFFERENT" not in everything
    assert "ends at step 39" in notebook.of("hung.wait_for_step")
    assert "MetricsServer.report" in notebook.of("%stacks")

    assert notebook.of("def compare").count(BY_NINE_DIGITS) == 1
    assert notebook.of("compare(never_hung_2").count(BY_NINE_DIGITS) == 2
    assert "all_gather" in notebook.of("job.stacks()")
    assert "['head.weight']" in notebook.of("torch.load says nothing")
    assert "model.pt" in notebook.of('%checkpoint --verify {folder / "flipped"}')
    assert "module." in notebook.of("theirs.pt")
    assert wait_until_gone(mark) == []


def test_a_notebook_that_fails_leaves_no_hung_job_behind(mark: str) -> None:
    with pytest.raises(CellExecutionError, match="the reader gave up"):
        Executed("02-rescue-hung-job.ipynb", "raise RuntimeError('the reader gave up')", cells=4)
    assert wait_until_gone(mark) == []


def test_a_training_is_prepared_where_nobody_is_let_in(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    trainings = import_module("trainings")
    refused: list[int] = []

    def nobody_is_let_in() -> list[Any]:
        refused.extend(left_behind(mark))
        return [SimpleNamespace(pid=pid, why_not="Yama says no") for pid in refused]

    monkeypatch.setattr(trainings.traindbg, "targets", nobody_is_let_in)
    training = trainings.start(tmp_path, "rescue_train.py", "--hang-at", 5)
    assert "(Yama says no); starting it with TRAINDBG=1" in capsys.readouterr().out
    assert training.pid not in refused
    assert b"TRAINDBG=1\0" in Path(f"/proc/{training.pid}/environ").read_bytes()
    assert training.wait_for_step(4) == 4
    training.stop()
    assert left_behind(mark) == []


# --- 03 ------------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)  # it starts four jobs, one after the other
def test_the_culprit_of_a_hang_is_named(mark: str) -> None:
    notebook = Executed("03-hang.ipynb")
    assert "nothing more: step 24" in notebook.of("os.mkfifo(shard)")

    program = (NOTEBOOKS / "hang_train.py").read_text().splitlines()
    opens = next(n for n, line in enumerate(program, 1) if "with open(path" in line)
    verdict = notebook.of("verdict = %diagnose")
    assert re.search(rf"worker \d+ is stuck at hang_train.py:{opens}", joined(verdict))
    assert re.search(r"waits for the file \S+/shard-07.pt to open", joined(verdict))
    assert "ranks 0, 2 wait in all_reduce #30" in joined(verdict)
    assert f"at hang_train.py:{opens}  with open(path" in notebook.of("found = verdict.findings[0]")
    assert "Rank 1 has not issued all_reduce #30" in joined(notebook.of("%nccl_check"))

    assert "The job is healthy" in notebook.of("pipe.write_bytes")
    assert notebook.lines_of("rank 0 validates")[0] == "progressing 0 findings"
    assert "Rank 2 is stopped by a signal" in notebook.of("signal.SIGSTOP")

    told = notebook.of("told = {}")
    assert re.search(r"Rank 1 made fewer steps.*\n +rank 1, hang_train.py:\d+ main +\(unequal_steps", told)
    assert re.search(
        r"Rank 0 issued all_gather.*\n +rank 0, hang_train.py:\d+ mean_over_ranks +\(collective_mism", told
    )
    assert re.search(
        r"Rank 1 looks for the job at localhost:29400.*\n +rank 1, hang_train.py:\d+ main +\(init_inc", told
    )
    assert wait_until_gone(mark) == []


# --- 05 ------------------------------------------------------------------------------------------------------------


def test_a_configuration_is_mended_before_its_run(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NCCL_TIMEOUT", "MASTER_PORT", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    notebook = Executed("05-preflight.ipynb")
    told = notebook.of("for finding in found.findings")
    assert "num_attention_heads 28 % tensor_model_parallel_size 8 = 4" in told
    assert "train_batch_size 100 x rollout.n 5 = 500; 500 % 8 GPUs = 4" in told
    assert "ppo_mini_batch_size 50 x rollout.n 5 // 8 = 31; 31 % ppo_micro_batch_size_per_gpu 8 = 7" in told
    assert "The activations will not fit beside the states: 137.3 GiB > 80.0 GiB" in told
    assert notebook.of("tried = %preflight").startswith("4 findings -> 3; gone: The parallel sizes")
    assert "nothing here speaks against starting it" in notebook.of("mended = %preflight")
    blocked = joined(notebook.of("blocked = %preflight"))
    assert re.search(r"Port \d+ of this machine is taken", blocked)
    assert "ipykernel_launcher" in blocked, "who holds it"
    assert "NCCL_TIMEOUT does nothing here" in blocked
    assert re.search(r"broken\.yaml:3 is no YAML: ", notebook.of("broken.write_text"))
    assert wait_until_gone(mark) == []


# --- 06 ------------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_a_collection_on_ray_goes_on(mark: str) -> None:
    need("Ray (pip install 'ray[default]')", find_spec("ray") is not None)
    notebook = Executed("06-ray-stuck-collector.ipynb")
    assert notebook.lines_of("driver = cluster.run")[-1] == "Collecting trajectories..."

    program = (NOTEBOOKS / "collect_train.py").read_text().splitlines()
    locks = next(n for n, line in enumerate(program, 1) if line.strip() == "with self.chart:")
    reads = next(n for n, line in enumerate(program, 1) if "read_text().split()" in line)
    told = notebook.of("for finding in verdict.findings")
    assert re.search(rf"Pilot\[5\] +ray_worker_deadlock +collect_train.py:{locks} Harbour.move", told)
    assert re.search(r"Pilot\[6\] +ray_(stuck_in_init|worker_stuck) +\S+:\d+ ", told)
    assert f"collect_train.py:{reads}" in joined(notebook.of("verdict = %diagnose"))
    healthy = {f"Pilot[{n}]" for n in range(8)} - {"Pilot[5]", "Pilot[6]"}
    assert not any(name in told for name in healthy)

    table = notebook.lines_of("%ray_workers")
    assert next(n for n, line in enumerate(table) if "Pilot[5]" in line) < next(
        n for n, line in enumerate(table) if "idle" in line
    ), "those in trouble come first"
    assert re.search(r"a pilot did not deliver .*TaskCancelledError", notebook.of('driver.wait_for("a pilot did not'))
    assert "collected 160 trajectories" in notebook.of('driver.wait_for("training')
    checked = joined(notebook.of("checked = %preflight"))
    assert "num_workers 100 > " in checked
    assert re.search(r"start of 100 [\d.]+ (s|min)", checked)
    assert "ended, and seen to be gone" in checked
    assert wait_until_gone(mark) == []


# --- 07 ------------------------------------------------------------------------------------------------------------

ANSWERS = """
import json
print(json.dumps([[(f.code, f.where) for f in answer.findings] for answer in answers]))
"""


def test_a_slow_training_is_mended_step_by_step(mark: str) -> None:
    need("DuckDB (pip install 'jupyter-traindbg[sql]')", find_spec("duckdb") is not None)
    notebook = Executed("07-slow-training.ipynb", ANSWERS)
    program = (NOTEBOOKS / "slow_train.py").read_text().splitlines()
    collects, alphabet, sleeps = (
        next(n for n, line in enumerate(program, 1) if line.strip() == said)
        for said in ("gc.collect()", "alphabet = sorted(set(self.text))", "time.sleep(ANSWERS_IN_S)")
    )
    told = [dict(findings) for findings in json.loads(notebook.of("json.dumps"))]
    assert told[0]["full_collections"].endswith(f"slow_train.py:{collects} main")
    for answer in told[:2]:
        assert answer["data_wait"].endswith(f"slow_train.py:{alphabet} Entries.__getitem__")
    assert "full_collections" not in told[1]
    assert told[2]["data_wait"].endswith(f"slow_train.py:{sleeps + 1} Entries.fetch"), "a line was added above it"
    assert re.search(r"slow_train.py:\d+ count$", told[2].get("host_work") or told[2]["python_work"])
    for answer in told[3:]:
        assert not {"full_collections", "host_work", "python_work", "lock_wait", "sleeps"} & answer.keys()

    promised = r"a step took \d+ ms, and takes \d+ ms: -?\d+ ms less; promised were [1-9]\d* ms"
    for cell in '"full_collections")', 'compare(found, "data_wait")', '"python_work")':
        assert re.search(promised, notebook.of(cell)), cell
    diff = notebook.lines_of('mend({"            gc')
    assert diff == [f"@@ -{collects} +{collects - 1},0 @@", "-            gc.collect()"]
    assert any(line.startswith("pair ") for line in notebook.lines_of("%%sql")), "the module that is slowest"
    assert "aten::mm" in notebook.of("profile = %profile")
    assert "where the time of rank 0 goes" in joined(notebook.of("profile.plot()"))
    assert notebook.of("names =").count("its losses are the same to the last bit") >= 4
    assert wait_until_gone(mark) == []


# --- 08 ------------------------------------------------------------------------------------------------------------


def test_who_keeps_the_memory_is_named_and_mended(mark: str) -> None:
    need("DuckDB (pip install 'jupyter-traindbg[sql]')", find_spec("duckdb") is not None)
    notebook = Executed("08-memory-leak.ipynb")
    program = (NOTEBOOKS / "leak_train.py").read_text().splitlines()
    appends = next(n for n, line in enumerate(program, 1) if line.strip() == "self.losses.append(loss)")
    caches = next(n for n, line in enumerate(program, 1) if line.startswith("@functools.lru_cache"))
    graphs = r"`progress.losses` in main\(\) keeps [\d,]+ tensors with their graphs"
    cache = r"`engine`, a global of __main__, keeps [\d,]+ Tensor"
    found = joined(notebook.of("found = %memory"))
    assert re.search(rf"{graphs}.* graphs_kept who rank 0 where \S+/leak_train.py:{appends} Progress.add", found)
    assert re.search(rf"{cache}.* cache_grows who rank 0 where \S+/leak_train.py:{caches} engine", found)
    same = joined(notebook.of("for finding in verdict.findings"))
    assert re.search(rf"leak_train.py:{appends} {graphs}", same)
    assert re.search(rf"leak_train.py:{caches} {cache}", same)

    left = joined(notebook.of("left = %memory"))
    assert "graphs_kept" not in left
    assert re.search(rf"{cache}.* cache_grows", left)
    steady = joined(notebook.of("steady = %memory --growth"))
    assert "WARNING" not in steady
    assert "grows at each step nothing" in steady
    assert notebook.of("print(verdict.state").startswith("healthy 0 findings")
    assert wait_until_gone(mark) == []


# --- 04 ------------------------------------------------------------------------------------------------------------

BUNDLE = """
import json, zipfile
print(json.dumps(zipfile.ZipFile("crash.zip").namelist()))
"""


def test_the_root_cause_is_read_from_the_log_of_a_crash(mark: str) -> None:
    notebook = Executed("04-crash-log.ipynb", BUNDLE)
    assert re.match(r"torchrun's root cause is rank [01]\.", notebook.of("alarming =")), "it blames a victim"

    program = (NOTEBOOKS / "crash_train.py").read_text().splitlines()
    fails = next(n for n, line in enumerate(program, 1) if "F.cross_entropy" in line)
    waits = next(n for n, line in enumerate(program, 1) if "dist.all_reduce" in line)
    for source in "verdict = %diagnose train.log", "%diagnose logs":
        verdict = joined(notebook.of(source))
        assert "Label 5 is not among the model's classes" in verdict
        assert re.search(rf"who rank 2 where \S+/crash_train.py:{fails} train", verdict)
        assert re.search(r"\S+\.log:\d+ IndexError: Target 5 is out of bounds", verdict)
        assert verdict.count("CRITICAL") == 1, "the time-outs of the others are evidence, no findings"
    assert re.match(rf"rank 2, at crash_train.py:{fails}  .*cross_entropy", notebook.of("found = verdict.findings[0]"))
    assert "night-05.pt: lights 1 to 5 of 5" in notebook.of("found = verdict.findings[0]")

    victims = joined(notebook.of("%diagnose rank-0.log rank-1.log"))
    assert "A collective timed out" in victims
    assert f"crash_train.py:{waits} average_gradients" in victims

    assert notebook.of("traindbg.diagnose_log(pasted)").startswith("checkpoint_missing_keys")
    assert "exit status 0" in notebook.of("> fog.log")
    assert "is nan from line 23 on" in notebook.of("lost = %diagnose fog.log")
    assert notebook.of("dark =").startswith("step 22 read night-03.pt; in minute 24 ")

    assert {"index.html", "issue.md", "logs/train.log.last500.txt"} <= set(json.loads(notebook.of("json.dumps")))
    mended = notebook.of("mended = %diagnose mended.log")
    assert mended.startswith("exit status 0")
    assert "The log tells of no failure" in mended
    assert wait_until_gone(mark) == []


def joined(shown: str) -> str:
    """Text that was wrapped for a terminal, in one line."""
    return " ".join(shown.split())
