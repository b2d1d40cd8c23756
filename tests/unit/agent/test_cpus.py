"""How many CPUs a process may use and how long it was held back: control groups that are made up, of both versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from jupyter_traindbg.agent import cpus

Made = Callable[[str, Mapping[str, str]], None]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Makes a machine of 16 CPUs, the lines of ``/proc/self/cgroup``, and files of control groups."""
    proc, groups = tmp_path / "cgroup", tmp_path / "groups"
    monkeypatch.setattr(cpus, "PROC", str(proc))
    monkeypatch.setattr(cpus, "GROUPS", str(groups))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))

    def make(lines: str, files: Mapping[str, str]) -> None:
        proc.write_text(lines)
        for name, words in files.items():
            (groups / name).parent.mkdir(parents=True, exist_ok=True)
            (groups / name).write_text(words)

    return make


V1 = "2:cpuacct,cpu:/job\n0::/\n"
QUOTAS: list[tuple[str, str, dict[str, str], float]] = [
    ("none", "0::/\n", {}, 16),
    ("no limit", "0::/job\n", {"job/cpu.max": "max 100000\n"}, 16),
    ("its own", "0::/job\n", {"job/cpu.max": "250000 100000\n"}, 2.5),
    ("one round it", "0::/pod/job\n", {"pod/job/cpu.max": "max 100000\n", "pod/cpu.max": "400000 100000\n"}, 4),
    ("a container's", "0::/docker/1\n", {"cpu.max": "50000 100000\n"}, 0.5),
    ("more than there is", "0::/job\n", {"job/cpu.max": "9900000 100000\n"}, 16),
    ("version 1", V1, {"cpu/job/cpu.cfs_quota_us": "300000\n", "cpu/job/cpu.cfs_period_us": "100000\n"}, 3),
    ("version 1, no limit", V1, {"cpu/job/cpu.cfs_quota_us": "-1\n", "cpu/job/cpu.cfs_period_us": "100000\n"}, 16),
    ("outside of our container", "0::/../other\n", {"cpu.max": "50000 100000\n"}, 16),
]


@pytest.mark.parametrize(("lines", "files", "allowed"), [q[1:] for q in QUOTAS], ids=[q[0] for q in QUOTAS])
def test_the_least_of_the_cpus_and_the_quotas(made: Made, lines: str, files: dict[str, str], allowed: float) -> None:
    made(lines, files)
    assert cpus.allowed() == allowed


@pytest.mark.parametrize(
    ("lines", "files", "seconds"),
    [
        ("0::/job\n", {}, 0.0),
        ("0::/pod/job\n", {"pod/job/cpu.stat": "usage_usec 9\nthrottled_usec 2500000\n", "pod/cpu.stat": ""}, 2.5),
        (V1, {"cpu/job/cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 1500000000\n"}, 1.5),
    ],
)
def test_how_long_it_was_held_back(made: Made, lines: str, files: dict[str, str], seconds: float) -> None:
    made(lines, files)
    assert cpus.throttled_s() == seconds
