"""Who moves and who stands still, seen in real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import need

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
    assert still["stands"] >= seen.window_s or still["stands"] == standing.UNKNOWN
    assert seen.rss_bytes > 0


def ran_last(folder: Path, cpu: int, at_ms: float) -> str:
    """What the kernel tells of a thread that `cpu` ran last, by the clock of that CPU."""
    folder.mkdir()
    (folder / "sched").write_text(f"python (7, #threads: 1)\n-----\nse.exec_start   :   {at_ms}\nse.vruntime : 3\n")
    (folder / "stat").write_text(f"7 (py thon) S {' '.join(['0'] * 35)} {cpu} 0 0\n")
    return str(folder)


def test_since_when_it_stands_is_by_the_clock_of_its_own_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of two CPUs of a virtual machine may be a minute apart."""
    clocks = {0: 1_000_000.0, 1: 1_060_000.0}
    monkeypatch.setattr(standing, "_read_clock", lambda cpu: (clocks[cpu], 5.0) if cpu in clocks else None)
    monkeypatch.setattr(standing, "time", SimpleNamespace(monotonic=lambda: 5.0))
    shown = standing._Clocks()
    for cpu, now_ms in clocks.items():
        folder = ran_last(tmp_path / str(cpu), cpu, now_ms - 7_000)
        assert standing._still_s(folder, 0.4, shown) == 7.0
    just_now = ran_last(tmp_path / "just now", 1, clocks[1] - 100)
    assert standing._still_s(just_now, 0.4, shown) == 0.4, "all the window long, at least"
    assert standing._still_s(ran_last(tmp_path / "other", 2, 1.0), 0.4, shown) == standing.UNKNOWN
    assert standing._still_s(ran_last(tmp_path / "moved", 1, 0.0), 0.4, shown) == standing.UNKNOWN
    assert standing._still_s(str(tmp_path / "nothing"), 0.4, shown) == 0.4


@pytest.mark.parametrize("cpu", sorted(os.sched_getaffinity(0))[:4])
def test_a_clock_that_is_read_is_that_of_the_cpu(cpu: int) -> None:
    """What a process pinned there does lies between two readings of it."""
    allowed = os.sched_getaffinity(0)
    before = standing._read_clock(cpu)
    assert os.sched_getaffinity(0) == allowed
    pinned = f"import os; os.sched_setaffinity(0, {{{cpu}}}); print('ready', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", pinned], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            ran_ms = standing._last_ran_ms(f"/proc/{process.pid}")
            after = standing._read_clock(cpu)
        finally:
            process.kill()
    need("a kernel that shows when a thread ran", ran_ms is not None)
    assert before is not None
    assert after is not None
    assert ran_ms is not None
    assert before[0] < ran_ms < after[0]


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
