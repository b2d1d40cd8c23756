"""Since when a thread has stood still, as the scheduler has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import need

from jupyter_traindbg.outside import runs


def ran_last(folder: Path, cpu: int, at_ms: float) -> str:
    """What the kernel tells of a thread that `cpu` ran last, by the clock of that CPU."""
    folder.mkdir()
    (folder / "sched").write_text(f"python (7, #threads: 1)\n-----\nse.exec_start   :   {at_ms}\nse.vruntime : 3\n")
    (folder / "stat").write_text(f"7 (py thon) S {' '.join(['0'] * 35)} {cpu} 0 0\n")
    return str(folder)


def test_since_when_it_stands_is_by_the_clock_of_its_own_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of two CPUs of a virtual machine may be a minute apart."""
    clocks = {0: 1_000_000.0, 1: 1_060_000.0}
    monkeypatch.setattr(runs, "_read_clock", lambda cpu: (clocks[cpu], 5.0) if cpu in clocks else None)
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: 5.0))
    shown = runs.Clocks()
    for cpu, now_ms in clocks.items():
        folder = ran_last(tmp_path / str(cpu), cpu, now_ms - 7_000)
        assert shown.still_s(folder, 0.4) == 7.0
    just_now = ran_last(tmp_path / "just now", 1, clocks[1] - 100)
    assert shown.still_s(just_now, 0.4) == 0.4, "all the window long, at least"
    assert shown.still_s(ran_last(tmp_path / "other", 2, 1.0), 0.4) == runs.UNKNOWN
    assert shown.still_s(ran_last(tmp_path / "moved", 1, 0.0), 0.4) == runs.UNKNOWN
    assert shown.still_s(str(tmp_path / "nothing"), 0.4) == 0.4


@pytest.mark.parametrize("cpu", sorted(os.sched_getaffinity(0))[:4])
def test_a_clock_that_is_read_is_that_of_the_cpu(cpu: int) -> None:
    """What a process pinned there does lies between two readings of it."""
    allowed = os.sched_getaffinity(0)
    before = runs._read_clock(cpu)
    assert os.sched_getaffinity(0) == allowed
    pinned = f"import os; os.sched_setaffinity(0, {{{cpu}}}); print('ready', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", pinned], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            ran_ms = runs._last_ran_ms(f"/proc/{process.pid}")
            after = runs._read_clock(cpu)
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
    assert runs.Clocks().now_ms(0) is None
    assert runs.Clocks().now_ms(None) is None
