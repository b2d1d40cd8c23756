"""How much memory a process may have: a /proc and control groups that are made up, of both versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cases import each

from jupyter_traindbg import evidence
from jupyter_traindbg.model import Child, NotAvailable
from jupyter_traindbg.outside import memory_limit

PID = 4711
GIB = 2**30
NO_LIMIT = "9223372036854771712"
Made = Callable[[str, Mapping[str, str]], None]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Makes a machine of 64 GiB, the line or lines of ``/proc/PID/cgroup``, and files of control groups."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    monkeypatch.setattr(memory_limit, "PROC", proc)
    monkeypatch.setattr(memory_limit, "GROUPS", groups)

    def make(lines: str, files: Mapping[str, str]) -> None:
        (proc / str(PID)).mkdir(parents=True)
        (proc / "meminfo").write_text(f"MemTotal:       {64 * 2**20} kB\nMemFree: 1 kB\n")
        (proc / str(PID) / "cgroup").write_text(lines)
        for name, words in files.items():
            (groups / name).parent.mkdir(parents=True, exist_ok=True)
            (groups / name).write_text(words)

    return make


CASES: list[tuple[str, str, dict[str, str], float]] = [
    ("none", "0::/\n", {}, 64),
    ("no limit", "0::/user\n", {"user/memory.max": "max\n"}, 64),
    ("its own", "0::/user/job\n", {"user/job/memory.max": f"{8 * GIB}\n", "user/memory.max": f"{16 * GIB}\n"}, 8),
    ("one round it", "0::/user/job\n", {"user/job/memory.max": "max\n", "user/memory.max": f"{16 * GIB}\n"}, 16),
    ("a container's", "0::/\n", {"memory.max": f"{4 * GIB}\n"}, 4),
    ("more than there is", "0::/\n", {"memory.max": f"{100 * GIB}\n"}, 64),
    ("version 1", "4:memory:/job\n1:cpu:/\n", {"memory/job/memory.limit_in_bytes": f"{2 * GIB}\n"}, 2),
    ("version 1, no limit", "4:memory:/job\n", {"memory/job/memory.limit_in_bytes": f"{NO_LIMIT}\n"}, 64),
    ("version 1, a container's", "4:cpu,memory:/docker/1\n", {"memory/memory.limit_in_bytes": f"{3 * GIB}\n"}, 3),
    ("another controller", "4:cpu:/job\n", {"memory/job/memory.limit_in_bytes": f"{2 * GIB}\n"}, 64),
    ("outside of our container", "0::/../other\n", {"memory.max": f"{GIB}\n", "other/memory.max": f"{GIB}\n"}, 64),
]


@pytest.mark.parametrize(("lines", "files", "gib"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_least_of_the_machine_and_the_groups(made: Made, lines: str, files: dict[str, str], gib: float) -> None:
    made(lines, files)
    assert memory_limit.limit_bytes(PID) == gib * GIB


def test_a_process_that_is_gone_leaves_the_machine(made: Made) -> None:
    made("0::/\n", {})
    assert memory_limit.limit_bytes(PID + 1) == 64 * GIB


def test_without_a_proc_it_is_not_known(made: Made) -> None:
    assert memory_limit.limit_bytes(PID) is None


def test_here() -> None:
    limit = memory_limit.limit_bytes(os.getpid())
    assert limit is not None
    assert 1 << 27 < limit <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# --- as a share of a rank's memory


def answer(**more: Any) -> dict[str, Any]:
    figures = {"allocated_bytes.all.current": 5 * GIB}
    held = {kind: {"cuda:0": GIB} for kind in ("parameters", "gradients", "optimizer")}
    return {
        "rss_bytes": 2 * GIB, "peak_rss_bytes": 2 * GIB, "sizes": {**held, "buffers": {"cpu": 1}}, "cuda": {"cuda:0": figures},
        "curve": [], "note": "", **more,
    }  # fmt: skip


@each(
    ("told", "capacity"),
    [
        ({"device_bytes": {"cuda:0": 80 * GIB}}, 80 * GIB),
        ({"device_bytes": {}}, NotAvailable("nothing tells how much memory there is")),
        ({}, NotAvailable("nothing tells how much memory there is")),  # an older agent
    ],
)
def test_shares_tell_what_there_is_of_their_device(told: dict[str, Any], capacity: Any) -> None:
    children: list[Child] = []
    cpu, cuda = evidence.memory(0, os.getpid(), answer(**told), children).shares
    assert (cpu.device, cpu.capacity_bytes) == ("cpu", memory_limit.limit_bytes(os.getpid()))
    assert (cuda.device, cuda.capacity_bytes) == ("cuda:0", capacity)
