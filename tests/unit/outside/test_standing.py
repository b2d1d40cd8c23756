"""Who moves and who stands still, seen in real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from jupyter_traindbg.errors import TargetGone
from jupyter_traindbg.model import RayLook
from jupyter_traindbg.outside import standing

PROGRAM = """
import threading, time
lock = threading.Lock()
def stands():
    lock.acquire()
    lock.acquire()
def moves():
    while True:
        time.sleep(0.01)
threading.Thread(target=stands, name="stands", daemon=True).start()
print("ready", flush=True)
moves()
"""


@pytest.fixture
def pid() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        yield process.pid
        process.kill()


def test_a_thread_at_a_lock_stands_and_one_that_comes_by_again_and_again_does_not(pid: int) -> None:
    seen = standing.look([pid], 0.5, 20)[pid]
    assert isinstance(seen, RayLook)
    still = {thread.name: seen.still_s[thread.tid] for thread in seen.stacks.threads if isinstance(thread.tid, int)}
    assert still["MainThread"] == 0.0
    assert still["stands"] >= 0.4
    assert seen.rss_bytes > 0


@pytest.mark.parametrize("cpu", sorted(os.sched_getaffinity(0))[:4])
def test_since_when_it_stands_is_by_the_clock_of_its_own_cpu(cpu: int) -> None:
    """Those of two CPUs of a virtual machine may be a minute apart."""
    allowed, began = os.sched_getaffinity(0), time.monotonic()
    pinned = f"import os; os.sched_setaffinity(0, {{{cpu}}})\n{PROGRAM}"
    with subprocess.Popen([sys.executable, "-c", pinned], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(2)
            seen = standing.look([process.pid], 0.1, 20)[process.pid]
            at_most_s = time.monotonic() - began
        finally:
            process.kill()
    assert isinstance(seen, RayLook)
    (stands,) = [t.tid for t in seen.stacks.threads if t.name == "stands" and isinstance(t.tid, int)]
    assert 0.5 < seen.still_s[stands] < at_most_s + 0.5
    assert os.sched_getaffinity(0) == allowed


def test_a_cpu_that_is_not_ours_has_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(pid: int, cpus: set[int]) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sched_setaffinity", refused)
    assert standing._Clocks().now_ms(0) is None
    assert standing._Clocks().now_ms(None) is None


def test_a_process_that_is_gone_does_not_spoil_the_others(pid: int) -> None:
    seen = standing.look([4_000_000, pid], 0.2, 20)
    assert isinstance(seen[4_000_000], TargetGone)
    assert isinstance(seen[pid], RayLook)


def test_nobody_to_look_at() -> None:
    assert standing.look([], 0.0, 1) == {}
