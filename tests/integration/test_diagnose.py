"""`diagnose` on single processes: a hang and a training that is merely slow, from a notebook and in both languages."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import support
from kernels import TRAINING, Kernel
from support import Start, need
from visits import losses_of

from jupyter_traindbg import cli
from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.job import connect
from jupyter_traindbg.model import Diagnosis, Finding
from jupyter_traindbg.outside import procfs


@pytest.fixture
def shell() -> Iterator[object]:
    """An IPython shell with the extension loaded."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.extension_manager.load_extension("jupyter_traindbg")
    yield shell
    shell.extension_manager.unload_extension("jupyter_traindbg")
    InteractiveShell.clear_instance()


def test_a_lock_that_is_taken_twice_from_a_notebook_in_chinese(
    start: Start, shell: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    hung = start("hung_lock.py")
    result = shell.run_line_magic("diagnose", str(hung.pid))  # type: ignore[attr-defined]
    assert isinstance(result, Diagnosis)
    assert result.state == "stuck"
    (finding,) = result.findings
    assert finding.code == "thread_deadlock"
    assert finding.where is not None
    assert finding.where.endswith("hung_lock.py:8 wait_for_ever")
    assert "死锁" in finding.title
    assert any("with lock:" in line for line in finding.evidence)
    bundle = result._repr_mimebundle_()
    assert "thread_deadlock" in bundle["text/html"]


LOCK = """
import threading, time
lock = threading.Lock()
def hold():
    with lock:
        time.sleep(10**6)
threading.Thread(target=hold, name="stats", daemon=True).start()
"""
WAIT = """
print("waits", flush=True)
with lock:
    train(400)
"""


def test_a_cell_that_waits_for_a_lock_of_another_cell_is_shown_with_its_source(tmp_path: Path) -> None:
    kernel = Kernel(sys.executable, tmp_path, uuid.uuid4().hex)
    try:
        assert kernel.run(TRAINING).finish()["status"] == "ok"
        assert kernel.run(LOCK).finish()["status"] == "ok"
        kernel.run(f"train(20)\n{WAIT}").wait_for("waits")
        with connect(str(kernel.pid)) as job:
            told: list[Finding] = []
            support.until(lambda: told.extend(job.diagnose().findings) or told, "the wait is told", 60)
    finally:
        kernel.close()
    (finding,) = told
    assert finding.code == "lock_wait"
    assert "held by its thread stats" in finding.title
    assert finding.source is not None
    assert finding.source.lines[finding.source.line - finding.source.first] == "with lock:"
    assert "    train(400)" in finding.source.lines


def test_a_training_that_only_sleeps_between_its_steps_is_not_stuck_and_is_left_alone(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every look sees the same line; its steps, seen over a second look where need be, tell."""
    slow = start("train.py", "--sleep", "1.8")
    assert cli.main(["diagnose", str(slow.pid), "--json"]) == cli.DONE
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"] == []
    assert answer["state"] == "healthy"

    ends = time.monotonic() + 60
    while left := [t.name for t in procfs.threads(slow.pid) if t.name.startswith("traindbg")]:
        assert time.monotonic() < ends, left
        time.sleep(0.05)
    assert not os.path.exists(
        os.path.join(rendezvous.base(os.getuid()), f"{slow.pid}-{rendezvous.start_ticks(slow.pid)}")
    )


def test_a_script_that_starts_its_own_ranks_is_rank_0_of_them(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    """Lightning's DDP under plain ``python train.py``: by its pid or as a launcher, it is one job of two ranks."""
    need("lightning", importlib.util.find_spec("lightning") is not None)
    hung = start("lightning_ddp.py")
    (child,) = procfs.children([hung.pid], procfs.processes())
    with connect(f"torchrun:{hung.pid}") as job:
        seen = [(p.rank, p.pid, p.role) for p in job.stacks().processes]
    assert seen == [(0, hung.pid, "rank"), (1, child.pid, "rank")], "no rank is another one's child"
    assert cli.main(["diagnose", str(hung.pid), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    first = answer["findings"][0]
    assert (first["code"], first["who"]) == ("python_wait", ["rank 1"])
    assert first["where"].endswith("Model.wait_for_quota")
    assert {r["pid"] for r in answer["ranks"]} == {hung.pid, child.pid}


@pytest.mark.parametrize("program", ["train.py", "amp.py"])
def test_a_training_that_is_diagnosed_gives_the_same_losses_to_the_last_bit(start: Start, program: str) -> None:
    """With a gradient scaler, too, whose methods are wrapped; and nothing of ours is left in it."""
    words = ["--steps", "400", "--sleep", "0.02"]
    undisturbed, disturbed = start(program, *words), start(program, *words)
    with connect(disturbed.pid) as job:
        looked = [job.diagnose() for _ in range(2)]
    assert len(losses_of(disturbed)) < 400, "it ended before we were done with it"
    assert [(seen.state, seen.findings) for seen in looked] == [("healthy", ())] * 2
    assert disturbed.wait() == undisturbed.wait() == 0
    assert losses_of(disturbed) == losses_of(undisturbed)


def test_what_settles_nothing_is_no_success(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    """A launcher that has no ranks yet: one line says so, and the answer is there all the same."""
    launcher = start("sleeping.py", command=[sys.executable, "-u"])
    assert cli.main(["diagnose", f"torchrun:{launcher.pid}", "--json"]) == cli.COULD_NOT
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert json.loads(out)["state"] == "not known"


def test_with_little_time_the_answer_still_comes(start: Start) -> None:
    hung = start("hung_lock.py")
    with connect(hung.pid) as job:
        result = job.diagnose(timeout=2.0)
    assert result.ranks[0].where is not None
