"""A rank that waits in an event loop: the coroutine at which the waits end is named. From hand-made evidence."""

from __future__ import annotations

import dataclasses

from hang_evidence import STD, TRAIN, job, source, stuck, user, waiting

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.model import Coroutine, Finding, Frame, Wait

OTHERS = (waiting(0), waiting(1), waiting(3))
TASKS = f"{STD}/asyncio/queues.py"
MAIN = Coroutine(1, "Task-1", (Frame(TRAIN, 30, "collect"),), "gather of 2", (2, 3))
LOST = Coroutine(2, "Task-2", (Frame(TRAIN, 12, "reward"), Frame(TRAIN, 20, "rollout")), "a future")
SERVES = Coroutine(9, "Task-9", (Frame(TASKS, 158, "Queue.get", library=True), Frame(TRAIN, 5, "serve")), "Queue.get")


def first(*coroutines: Coroutine) -> Finding:
    loop = stuck(2, user(50, "main"), Wait("idle", "events"))
    of = dataclasses.replace(loop, coroutines=coroutines)
    return running.diagnose(job(*OTHERS, of, sources=source(12, "return await answer"))).findings[0]


def test_the_coroutine_is_named_for_which_the_others_wait() -> None:
    found = first(MAIN, LOST, dataclasses.replace(LOST, id=3), SERVES)
    assert (found.code, found.who, found.where) == ("python_wait", ("rank 2",), f"{TRAIN}:12 reward")
    assert (
        found.title
        == "Rank 2 waits in an event loop at train.py:50 main, and its coroutine rollout awaits a future at train.py:12 reward"
    )
    assert "2 coroutines rollout await a future at train.py:12 reward: `return await answer`" in found.evidence
    assert "serve" not in " ".join(found.evidence)
    assert "asyncio.timeout() round the await at train.py:12 reward" in found.next_steps[0]


def test_one_that_has_nothing_to_do_is_named_where_there_is_no_other() -> None:
    assert first(LOST, SERVES).where == f"{TRAIN}:12 reward"
    assert first(SERVES).where == f"{TRAIN}:5 serve"


def test_a_loop_of_which_nothing_is_known_is_told_as_before() -> None:
    library = dataclasses.replace(LOST, frames=(Frame(TASKS, 158, "Queue.get", library=True),))
    for known in ((), (MAIN,), (library,), (dataclasses.replace(LOST, waits_for=None),)):
        assert first(*known).where == f"{TRAIN}:50 main"
