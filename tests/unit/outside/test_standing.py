"""Who moves and who stands still, seen in real processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from jupyter_traindbg.errors import TargetGone
from jupyter_traindbg.model import RayLook
from jupyter_traindbg.outside import runs, standing

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
        yield process.pid
        process.kill()


def test_a_thread_at_a_lock_stands_and_one_that_comes_by_again_and_again_does_not(pid: int) -> None:
    ends = time.monotonic() + 30
    while True:
        seen = standing.look([pid], 0.2, 20)[pid]
        assert isinstance(seen, RayLook)
        still = {thread.name: seen.still_s[thread.tid] for thread in seen.stacks.threads if isinstance(thread.tid, int)}
        if still["MainThread"] == 0.0 and still["stands"] != 0.0:  # each has had a CPU since it began
            break
        assert time.monotonic() < ends, still
    assert still["stands"] >= seen.window_s or still["stands"] == runs.UNKNOWN
    assert seen.rss_bytes > 0


def test_a_process_that_is_gone_does_not_spoil_the_others(pid: int) -> None:
    seen = standing.look([4_000_000, pid], 0.2, 20)
    assert isinstance(seen[4_000_000], TargetGone)
    assert isinstance(seen[pid], RayLook)


def test_nobody_to_look_at() -> None:
    assert standing.look([], 0.0, 1) == {}
