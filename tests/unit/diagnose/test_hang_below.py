"""A rank that waits for a process of its own: the wait is followed to the process at which it ends. From hand-made evidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from cases import each
from hang_evidence import STD, TRAIN, activity, job, rank, source, thread, user, waiting

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.model import (
    Finding,
    Frame,
    LockHolder,
    ProcessStacks,
    RankEvidence,
    Thread,
    ThreadActivity,
    Wait,
)

OTHERS = (waiting(0), waiting(1), waiting(3))
RANK = 1002
WRITE, FEED = (Frame(TRAIN, 12, "write"),), (Frame(TRAIN, 20, "feed"),)
POOL = (
    Frame(f"{STD}/multiprocessing/queues.py", 384, "SimpleQueue.get", library=True),
    Frame(f"{STD}/multiprocessing/pool.py", 114, "worker", library=True),
)
GET, IDLE = Wait("process", "get"), Wait("idle", "work")


def waits_for(
    wait: Wait, *below: tuple[int, Thread | None, dict[str, Any]], for_pid: int | None = None, line: int = 50
) -> RankEvidence:
    """Rank 2 waits at `line`; `below` are pids, main threads (None: no Python) and what more is known of these processes."""
    own = ThreadActivity(RANK, "python", "S", 0.0, 0, call="wait4", child_pid=for_pid)
    seen = rank(2, [thread(user(line, "flush"), wait)], activity=activity(RANK, threads=[own]))
    stacks = tuple(
        ProcessStacks(2, pid, "child", "py-spy", (dataclasses.replace(main, tid=pid),))
        for pid, main, _ in below
        if main
    )
    looks = tuple(dataclasses.replace(look, processes=(*look.processes, *stacks)) for look in seen.looks)
    children = tuple(
        activity(pid, role="child", **({"parent_pid": RANK} | {k: v for k, v in more.items() if k != "command"}))
        for pid, _, more in below
    )
    named = tuple(
        dataclasses.replace(a, command=more.get("command", a.command))
        for a, (_, _, more) in zip(children, below, strict=True)
    )
    return dataclasses.replace(seen, looks=looks, children=named)


def first(of: RankEvidence, **more: Any) -> Finding:
    found = running.diagnose(job(*OTHERS, of, **more))
    assert found.state == "stuck"
    return found.findings[0]


def evidence(finding: Finding) -> str:
    return "\n".join(finding.evidence)


def program(pid: int, call: str, *, child_pid: int | None = None) -> Sequence[ThreadActivity]:
    return (ThreadActivity(pid, "tool", "S", 0.0, 0, call=call, child_pid=child_pid),)


def test_the_process_that_is_joined_is_named_with_its_line() -> None:
    of = waits_for(Wait("child"), (2001, thread(WRITE, GET), {}), (2002, thread(FEED, GET), {}), for_pid=2001)
    found = first(of, sources=source(12, "item = queue.get()"))
    assert (found.code, found.who, found.where) == ("python_wait", ("rank 2", "pid 2001"), f"{TRAIN}:12 write")
    assert found.title == (
        "Rank 2 waits for a child process to end at train.py:50 flush, and process 2001 below it waits for an item from another "
        "process (a queue) at train.py:12 write"
    )
    assert (
        "process 2001 (`python train.py`) waits for an item from another process (a queue) at train.py:12 write: `item = queue.get()`"
        in (found.evidence)
    )
    assert "put into the queue" in found.cause
    assert "get(timeout=...) at train.py:12 write" in found.next_steps[0]


def test_of_several_workers_the_one_that_is_stopped_is_named_and_not_those_without_work() -> None:
    of = waits_for(
        Wait("process", "result"),
        (2001, thread(POOL, IDLE), {}),
        (2002, thread(FEED, Wait("sleep")), {}),
        (2003, thread(WRITE), {"state": "T"}),
    )
    found = first(of)
    assert (found.who, found.where) == (("rank 2", "pid 2003"), f"{TRAIN}:12 write")
    assert "process 2003 below it is stopped by a signal at train.py:12 write" in found.title
    assert found.next_steps[0] == "Let it go on: kill -CONT 2003"


def test_a_wait_is_followed_through_a_shell_to_the_program_below_it() -> None:
    shell = {"threads": program(2001, "wait4", child_pid=2002), "command": "sh -c upload"}
    tool = {"threads": program(2002, "clock_nanosleep"), "command": "sleep 600", "parent_pid": 2001}
    found = first(waits_for(Wait("child", "program"), (2001, None, shell), (2002, None, tool), for_pid=2001))
    assert (found.who, found.where) == (("rank 2", "pid 2002"), f"{TRAIN}:50 flush")
    assert "process 2001 (`sh -c upload`) waits for a child process to end" in evidence(found)
    assert "process 2002 (`sleep 600`) sleeps" in evidence(found)


def test_of_programs_whose_output_is_read_it_is_the_one_that_was_started_last() -> None:
    """The rank sits in poll(), which names no child."""
    old = {"threads": program(2001, "epoll_wait"), "command": "wandb-core", "running_s": 900.0}
    new = {"threads": program(2002, "flock"), "command": "flock /data/lock tar", "running_s": 30.0}
    assert first(waits_for(Wait("child", "program"), (2001, None, old), (2002, None, new))).who == (
        "rank 2",
        "pid 2002",
    )


def test_a_child_that_waits_for_the_lock_of_its_own_parent() -> None:
    tool = {"threads": program(2001, "flock"), "command": "flock /data/lock tar"}
    holders = {2001: LockHolder(RANK, "python train.py")}
    found = first(waits_for(Wait("child", "program"), (2001, None, tool), for_pid=2001), lock_holders=holders)
    assert "process 2001 below it waits for a lock on a file" in found.title
    assert "that lock is held by rank 2 itself: the two wait for each other" in found.evidence
    assert "for whose end it waits itself" in found.cause
    assert "Let the lock go before" in found.next_steps[0]
    others = {2001: LockHolder(77, "python other.py")}
    found = first(waits_for(Wait("child", "program"), (2001, None, tool), for_pid=2001), lock_holders=others)
    assert "that lock is held by process 77: python other.py" in found.evidence


def test_workers_without_work_have_lost_what_they_were_given() -> None:
    of = waits_for(Wait("process", "result"), (2001, thread(POOL, IDLE), {}), (2002, thread(POOL, IDLE), {}))
    found = first(of)
    assert (found.who, found.where) == (("rank 2",), f"{TRAIN}:50 flush")
    assert "all 2 worker processes below it have nothing to do: what they were given is lost" in found.evidence
    assert "starts another worker" in found.cause
    alone = first(waits_for(Wait("process", "result"), (2001, thread(POOL, IDLE), {})))
    assert "the only worker process below it, 2001, has nothing to do: what it was given is lost" in alone.evidence


NOT_ASKED = {
    "a logger's helper that is no Python": (2001, None, {"command": "wandb-core"}),
    "a helper in library code": (2001, thread(POOL[:1], GET), {}),
}


@each("name", NOT_ASKED)
def test_a_process_that_is_not_seen_to_work_for_it_is_not_accused(name: str) -> None:
    found = first(waits_for(Wait("future"), NOT_ASKED[name]))
    assert (found.who, found.where) == (("rank 2",), f"{TRAIN}:50 flush")
    assert "2001" not in evidence(found)


def test_what_has_no_children_is_told_as_before() -> None:
    found = first(waits_for(Wait("child"), for_pid=2001))
    assert (found.who, found.where) == (("rank 2",), f"{TRAIN}:50 flush")
    assert found.title.endswith("while the others wait")


def test_a_sleeping_rank_has_nothing_to_do_with_the_processes_below_it() -> None:
    found = first(waits_for(Wait("sleep"), (2001, thread(WRITE, GET), {})))
    assert found.who == ("rank 2",)
    assert "2001" not in evidence(found)
