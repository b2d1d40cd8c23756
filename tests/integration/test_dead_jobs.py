"""A job that dies while a notebook is attached to it: how it ended and what it did last stay to be seen, and nothing else is touched."""

from __future__ import annotations

import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults import faulty
from support import Program, Start, torchrun, until

from jupyter_traindbg.errors import NoTarget, TargetGone, TraindbgError
from jupyter_traindbg.magics import base
from jupyter_traindbg.magics.ipython import NotebookSession
from jupyter_traindbg.outside import procfs

Ask = Callable[..., Any]
STEADY = ("train.py", "--sleep", "0.01", "--steps", "100000")


@pytest.fixture
def session() -> Iterator[NotebookSession]:
    notebook = NotebookSession()
    yield notebook
    notebook.close(everything=True)


@pytest.fixture
def ask(session: NotebookSession) -> Ask:
    """``ask("steps", "--last", "3")``: what the magic does in a notebook, its result not yet shown."""

    def one(verb: str, *words: str) -> Any:
        return base.run(verb, base.parser(verb).parse_args(words), session)

    return one


def seen_training(ask: Ask, program: Program) -> int:
    """Attach, and see some steps; the last one of them."""
    ask("attach", str(program.pid))
    until(lambda: ask("steps").ranks[0].steps, "it makes steps")
    return int(ask("steps").ranks[0].steps[-1].step)


def die(program: Program, how: signal.Signals) -> None:
    os.kill(program.pid, how)
    until(lambda: not procfs.exists(program.pid), "it dies")


def test_its_last_steps_and_how_it_ended_stay(start: Start, ask: Ask, session: NotebookSession, tmp_path: Path) -> None:
    program, other = start(*STEADY), start(*STEADY)
    last = seen_training(ask, program)
    until(lambda: session.current is not None and session.current.feed().last_step >= last, "what was seen is kept")
    die(program, signal.SIGKILL)

    def looked_at() -> None:
        (left,) = ask("steps", "--last", "0").ranks
        assert left.ended == f"process {program.pid} has ended: killed by SIGKILL"
        assert left.steps[-1].step >= last
        numbers = [step.step for step in left.steps]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "each once, none left out"
        assert len(ask("steps", "--last", "3").ranks[0].steps) == 3
        (found,) = ask("diagnose").findings
        assert (found.title, found.severity) == ("The training process ended: killed by SIGKILL", "critical")
        for verb in (["lr"], ["grads"], ["memory"], ["stacks"], ["checkpoint", str(tmp_path / "saved")]):
            with pytest.raises(TraindbgError, match=f"process {program.pid} has ended: killed by SIGKILL"):
                ask(*verb)
        with pytest.raises(TargetGone):
            ask("attach", str(program.pid))
        assert session.current is not None
        assert session.current.name == str(program.pid), "what cannot be attached to does not take its place"

    looked_at()  # as a zombie
    program.wait()
    looked_at()  # when nothing is left of it
    assert not (tmp_path / "saved").exists()
    assert ask("watch", "--once").state == "finished"
    exported = session.current.export(str(tmp_path / "run.json")) if session.current else None
    assert exported is not None
    assert exported.last_step >= last
    ask("attach", str(other.pid))
    assert ask("steps").ranks[0].ended == "", "and the next job is one of its own"


def test_its_log_was_noted_while_it_lived(start: Start, ask: Ask, tmp_path: Path) -> None:
    program = start(*STEADY)
    seen_training(ask, program)
    die(program, signal.SIGINT)
    (found,) = ask("diagnose").findings
    assert found.title == "The training process ended: killed by SIGINT"
    assert any("KeyboardInterrupt" in line for line in found.evidence)
    assert "train.py" in str(found.where)
    assert any(str(program.log) in line for line in found.evidence)
    assert found.next_steps[0] == f"`traindbg diagnose {program.log}` reads its whole log."
    program.wait()
    ask("report", "-o", str(tmp_path / "report.zip"))
    with zipfile.ZipFile(tmp_path / "report.zip") as bundle:
        (page,) = [name for name in bundle.namelist() if name.endswith("report.json")]
        parts = bundle.read(page).decode()
    assert "KeyboardInterrupt" in parts, "its log is in the report"
    assert f"process {program.pid} has ended: killed by SIGINT" in parts, "and its last steps, and how it ended"


def test_a_job_that_has_finished_is_not_called_failed(start: Start, ask: Ask) -> None:
    program = start("train.py", "--sleep", "0.02", "--steps", "150")
    seen_training(ask, program)
    until(lambda: not procfs.exists(program.pid), "it finishes")
    done = ask("diagnose")
    assert (done.state, done.findings) == ("ended", ())
    assert "exit status 0" in str(done)
    program.wait()
    again = ask("diagnose")
    assert (again.state, again.findings) == ("ended", ()), "it was seen while it could be"


def test_of_several_ranks_the_one_that_died_by_itself_is_blamed(
    start: Start, ask: Ask, session: NotebookSession, free_port: str
) -> None:
    words = ["--mode", "ddp", "--steps", "100000", "--sleep", "0.02"]
    launcher = start("sharded.py", *words, command=torchrun(2, free_port))
    ask("attach", f"torchrun:{launcher.pid}")
    until(lambda: all(rank.steps for rank in ask("steps").ranks), "they make steps")
    victim = next(rank.pid for rank in ask("attach", f"torchrun:{launcher.pid}").ranks if rank.rank == 1)
    assert session.current is not None
    feed = session.current.feed()
    until(lambda: feed.ranks == (0, 1) and feed.step_of(0) and feed.step_of(1), "their steps are kept")
    os.kill(victim, signal.SIGKILL)
    launcher.wait()
    found = ask("diagnose")
    assert [(f.code, list(f.who)) for f in found.findings] == [("rank_ended", ["rank 1"])]
    assert "killed by SIGKILL" in found.findings[0].title
    left = ask("steps").ranks
    assert [(rank.rank, bool(rank.ended), bool(rank.steps)) for rank in left] == [(0, True, True), (1, True, True)]
    with pytest.raises(NoTarget):
        ask("attach")


def test_what_it_did_last_tells_why(ask: Ask, session: NotebookSession, tmp_path: Path) -> None:
    with faulty("nan-grad", tmp_path, ready="iter 30:") as program:
        last = seen_training(ask, program)
        assert session.current is not None
        feed = session.current.feed()
        until(lambda: feed.last_step >= last + 5, "they are kept")
        die(program, signal.SIGKILL)
        found = ask("diagnose")
    assert [f.code for f in found.findings] == ["rank_ended", "nonfinite_loss"]
    assert {c.topic: c.state for c in found.checks}["memory"] != "trouble"


def test_a_terminal_tells_how_a_zombie_ended_and_attaches_to_none(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    from jupyter_traindbg import cli

    program = start(*STEADY)
    die(program, signal.SIGSEGV)
    assert cli.main(["diagnose", str(program.pid)]) == cli.FINDINGS
    assert "killed by SIGSEGV" in capsys.readouterr().out
    for verb in ("attach", "steps", "stacks", "environ"):
        assert cli.main([verb, str(program.pid)]) == cli.COULD_NOT
        assert (
            f"process {program.pid} has ended: killed by SIGSEGV; `traindbg diagnose {program.pid}` tells how"
            in capsys.readouterr().err
        )
