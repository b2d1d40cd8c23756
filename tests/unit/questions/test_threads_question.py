"""Threads as the kernel counts them, joined with their Python frames and the locks that an agent knows of. Nobody is asked for real."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from cases import each
from render_scenes_stacks import thread as python_thread
from render_scenes_threads import deadlocked

from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.diagnose.threads import findings
from jupyter_traindbg.model import Activity, Frame, NotAvailable, ProcessStacks, ThreadActivity, Wait
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.questions import threads
from jupyter_traindbg.redact import Redactor

TRAIN = Frame("/home/ada/train.py", 12, "main")
NA = NotAvailable("not here")


def activity(pid: int, *used: ThreadActivity, role: str = "rank") -> Activity:
    return Activity(
        pid,
        role,
        "python train.py",
        1.0,
        "R",
        sum(t.cpu_share for t in used),
        used,
        NA,
        NA,
        0.0,
        0,
        NA,
        NA,
        (),
        None,
        NA,
    )


def row(tid: int, *, waits: dict[str, Any] | None = None, holds: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "thread": "x",
        "tid": tid,
        "where": None,
        "waits_for": waits,
        "holds": [{"name": n, "kind": "Lock"} for n in holds],
    }


def of_rank(locks: Any, python: list[Any], *used: ThreadActivity) -> Any:
    link = Link(41, lambda s: None, rank=3)  # type: ignore[arg-type, return-value]
    stacks = ProcessStacks(3, 41, "rank", "agent", tuple(python))
    (process,) = threads._of_rank(link, ([stacks], locks), [activity(41, *used)], Redactor())
    return process


def test_the_kernels_threads_are_the_ones_that_python_and_the_locks_tell_of() -> None:
    waits = {"name": None, "kind": "Event", "where": "/home/ada/train.py:12 main", "held_by": []}
    locks = {"threads": [row(41, waits=waits, holds=("self.lock",))], "cycles": [[41]], "ours": [43]}
    python = [python_thread([TRAIN], tid=41, state="waiting", waiting_for=Wait("thread"))]
    used = (
        ThreadActivity(41, "python", "S", 0.1, 5),
        ThreadActivity(42, "pt_autograd_0", "R", 0.7, 9),
        ThreadActivity(43, "python", "S", 0.0, 1),
    )
    process = of_rank(locks, python, *used)
    assert [t.name for t in process.threads] == ["pt_autograd_0", "MainThread", threads.OURS], "most CPU first"
    native, main, _ = process.threads
    assert (native.python, native.where, native.state) == (False, None, "running")
    assert (main.where, main.training, main.holds) == (TRAIN, True, ("self.lock",))
    assert (main.lock.name, main.lock.holder, main.lock.how) == ("an Event", "", "")
    assert (process.rings, process.locks) == (((41,),), True)


def test_of_a_rank_that_has_no_agent_the_locks_are_not_known() -> None:
    process = of_rank(NotAvailable("the GIL is held"), [], ThreadActivity(41, "python", "D", 0.0, 0))
    assert process.locks == NotAvailable("the GIL is held")
    assert process.threads[0].state == "in uninterruptible sleep"
    assert process.rings == ()


def test_what_the_whole_process_uses_is_told_with_its_threads() -> None:
    measured = {
        "state": "D",
        "read_bytes_per_s": 1.0,
        "written_bytes_per_s": 2.0,
        "major_faults_per_s": 3.0,
        "rss_bytes": 4,
        "swap_bytes": 5,
        "running_s": NA,
    }
    seen = dataclasses.replace(activity(41, ThreadActivity(41, "python", "D", 0.0, 0)), **measured)
    (process,) = threads._of_rank(Link(41, lambda s: None, rank=3), ([], NA), [seen], Redactor())  # type: ignore[arg-type, return-value]
    assert vars(process.use) == {**measured, "command": "python train.py", "state": "in uninterruptible sleep"}


def test_in_a_container_threads_go_by_their_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "own_tid", lambda pid, tid: tid - 40)
    locks = {"threads": [], "cycles": [[1, 2]], "ours": []}
    process = of_rank(
        locks,
        [python_thread([TRAIN], tid=1)],
        ThreadActivity(41, "python", "S", 0.0, 1),
        ThreadActivity(42, "python", "S", 0.0, 1),
    )
    assert process.threads[0].where == TRAIN
    assert process.rings == ((41, 42),), "by the numbers that this machine has for them"


@each(
    ("how", "confidence", "said"),
    [("with", "high", "logger holds it since"), ("acquire", "medium", "has acquired it at")],
)
def test_a_deadlock_is_a_finding(how: str, confidence: str, said: str) -> None:
    (finding,) = deadlocked(2, how=how).findings
    assert (finding.code, finding.severity, finding.confidence, finding.who) == (
        "thread_deadlock",
        "warning",
        confidence,
        ("rank 0",),
    )
    assert said in finding.evidence[0]
    assert finding.where is not None
    assert finding.where.endswith("save.py:31 Saver.run")


def test_a_ring_of_which_a_thread_has_gone_is_none() -> None:
    (process,) = [p for p in deadlocked(2).processes if p.rings]
    assert len(findings([process])) == 1
    assert findings([dataclasses.replace(process, threads=process.threads[:1])]) == []


def test_where_the_training_thread_is_in_the_ring_it_is_critical() -> None:
    (process,) = [p for p in deadlocked(2).processes if p.rings]
    training = [dataclasses.replace(thread, training=True) for thread in process.threads]
    (finding,) = findings([dataclasses.replace(process, threads=training)])
    assert finding.severity == "critical"
