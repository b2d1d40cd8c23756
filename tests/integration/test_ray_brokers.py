"""The child process that joins clusters for us: its answers, its errors, and that it never outlives anybody. No ray is needed for that."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from jupyter_traindbg.attach.ray.brokers import MODULE, Broker
from jupyter_traindbg.errors import DeadlineExceeded, ProbeFailed, TargetGone
from jupyter_traindbg.hosts import lines
from jupyter_traindbg.outside import procfs

EXISTS = "jupyter_traindbg.outside.procfs:exists"
SLEEP = "jupyter_traindbg.outside.standing:look"
FOR_EVER_S = 3600.0
"""Longer than any test may take: what waits for the answer hangs."""
pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def others() -> frozenset[int]:
    """Children of brokers that earlier tests of this process have asked, and keep."""
    return frozenset(children())


@pytest.fixture
def broker(others: frozenset[int]) -> Iterator[Broker]:
    made = Broker("10.0.0.1:6379")
    yield made
    made.end("")


@pytest.fixture
def child(others: frozenset[int]) -> Callable[[], int]:
    def find() -> int:
        (found,) = set(children()) - others
        return found

    return find


def children() -> list[int]:
    return [p.pid for p in procfs.descendants(os.getpid()) if MODULE in procfs.command(p.pid)]


def gone(pid: int, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while (process := procfs.stat(pid)) is not None and process.state not in "ZX":
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_it_runs_our_functions_in_one_child_and_never_imports_ray_for_that(
    broker: Broker, child: Callable[[], int]
) -> None:
    assert broker.call(EXISTS, os.getpid(), deadline_s=30) is True
    first = child()
    assert broker.call(EXISTS, 2**22 + 1, deadline_s=30) is False
    assert child() == first
    assert b"/ray/_raylet" not in procfs.mapped(first)


def test_errors_are_those_of_the_function(broker: Broker) -> None:
    with pytest.raises(TargetGone, match="there is no process"):
        broker.call("jupyter_traindbg.attach.process:link", 2**22 + 1, deadline_s=30)
    with pytest.raises(ProbeFailed, match="TypeError"):
        broker.call(EXISTS, deadline_s=30)


def test_a_late_answer_costs_its_caller_the_deadline_and_nobody_else_anything(
    broker: Broker, child: Callable[[], int]
) -> None:
    broker.call(EXISTS, 1, deadline_s=30)
    first = child()
    with pytest.raises(DeadlineExceeded, match="did not answer"):
        broker.call(SLEEP, [os.getpid()], FOR_EVER_S, deadline_s=0.5)
    assert broker.call(EXISTS, 1, deadline_s=30) is True
    assert child() == first


def test_a_broker_that_is_stuck_is_replaced(
    broker: Broker, child: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "STUCK_S", 0.0)
    broker.call(EXISTS, 1, deadline_s=30)
    stuck = child()
    with pytest.raises(DeadlineExceeded):
        broker.call(SLEEP, [os.getpid()], FOR_EVER_S, deadline_s=0.2)
    assert broker.call(EXISTS, 1, deadline_s=30) is True
    assert gone(stuck)
    assert broker.starts == 2


def test_a_child_that_dies_is_told_at_once(broker: Broker, child: Callable[[], int]) -> None:
    broker.call(EXISTS, 1, deadline_s=30)
    os.kill(child(), signal.SIGKILL)
    with contextlib.suppress(TargetGone):
        broker.call(SLEEP, [os.getpid()], FOR_EVER_S, deadline_s=30)
    assert broker.call(EXISTS, 1, deadline_s=30) is True


@pytest.mark.parametrize("how", ["SIGKILL", "exit"])
def test_it_ends_with_its_parent(how: str) -> None:
    """Also where a process that the parent forked holds the pipe open."""
    program = f"""
import os, sys, time
from jupyter_traindbg.attach.ray.brokers import Broker
from jupyter_traindbg.hosts import lines
from jupyter_traindbg.outside import procfs
broker = Broker("10.0.0.1:6379")
broker.call({EXISTS!r}, 1, deadline_s=60)
if os.fork() == 0:
    time.sleep(60)
    os._exit(0)
print(*[p.pid for p in procfs.descendants(os.getpid())], flush=True)
{"time.sleep(60)" if how == "SIGKILL" else ""}
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        (ours,) = [pid for pid in pids if MODULE in procfs.command(pid)]
        (forked,) = [pid for pid in pids if pid != ours]
        try:
            if how == "SIGKILL":
                parent.kill()
            assert gone(ours)
        finally:
            os.kill(forked, signal.SIGKILL)
