"""The machine: kernel, CPUs, memory, swap, shared memory, disks, limits, the control group, pressure, load; container or not."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model import HostFacts, NotAvailable
from ...outside import host, memory_limit
from ...words.sizes import size
from ..asking import first_line
from ..context import Context, Part

if TYPE_CHECKING:
    from ...render.blocks import Block, Inline, Pair

TITLE = "Machine"
ORDER = 70
FROM_JOB = False
AFTER = ""
_CGROUP = (
    "memory.max",
    "memory.high",
    "memory.current",
    "memory.peak",
    "memory.swap.max",
    "memory.events",
    "pids.max",
    "cpu.max",
    "cpu.stat",
)
_TUNABLES = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/sys/kernel/yama/ptrace_scope",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/dmesg_restrict",
    "/proc/cmdline",
)


def collect(context: Context) -> Part:
    pids = list(context.readable.values()) or [os.getpid()]
    facts = host.facts(pids, deadline_s=context.left_s(3.0))
    group = _cgroup(pids[0])
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    kernel = {path: words for path in _TUNABLES if (words := first_line(path))}
    release = _release()
    text = [
        f"{' '.join(platform.uname())}",
        release,
        f"cpu: {_cpu()} x {facts.cpus}",
        *(f"{k}: {v}" for k, v in kernel.items()),
    ]
    text += [f"cgroup {name}: {' '.join(value.split())}" for name, value in group.items()]
    text += [
        _read("/proc/meminfo"),
        _read("/proc/loadavg"),
        _read("/proc/pressure/memory"),
        _read(f"/proc/{pids[0]}/limits"),
    ]
    return Part(
        f"{system}, {facts.cpus} CPUs, {size(facts.memory_free_bytes)} of {size(facts.memory_bytes)} memory free",
        texts={"machine.txt": "\n".join(text) + "\n"},
        data={
            "host": facts,
            "system": system,
            "release": release,
            "cgroup": group,
            "kernel": kernel,
            "cpu": _cpu(),
            "load": " ".join(_read("/proc/loadavg").split()[:3]),
            "container": os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"),
            "uptime_s": _uptime_s(),
        },
        issue=[
            f"System: {system}{f' ({release})' if release else ''}, {facts.cpus} CPUs, {size(facts.memory_bytes)} memory"
        ],
        missing=[f"{directory}: its file system does not answer" for directory in facts.disks_silent],
    )


def draw(data: Mapping[str, Any]) -> list[Block]:
    """Figure by figure."""
    from ...render.blocks import Pairs

    return [Pairs([pair for pair in _pairs(data["host"], data) if pair.lines])]


def _pairs(facts: HostFacts, data: Mapping[str, Any]) -> list[Pair]:
    from ...render.blocks import Pair

    group = data["cgroup"]
    limits = [f"{name} {'no limit' if limit < 0 else f'{limit:,}'}" for name, limit in facts.limits.items()]
    shm: list[Inline] = []
    if not isinstance(facts.shm_bytes, NotAvailable) and not isinstance(facts.shm_free_bytes, NotAvailable):
        shm = [f"{size(facts.shm_free_bytes)} of {size(facts.shm_bytes)} free"]
    most = group.get("memory.max", "max").strip()
    used = group.get("memory.current", "").strip()
    memory = [f"{size(int(used))} used of {size(int(most))}"] if most.isdigit() and used.isdigit() else []
    return [
        Pair("host", [facts.name]),
        Pair("system", [" · ".join(filter(None, (data["system"], data["release"])))]),
        Pair("container", ["yes"] if data["container"] else []),
        Pair("CPUs", [f"{facts.cpus} · {data['cpu']} · load {data['load']}"]),
        Pair(
            "memory",
            [
                f"{size(facts.memory_free_bytes)} of {size(facts.memory_bytes)} free, {size(facts.swap_used_bytes)} swapped out"
            ],
        ),
        Pair("control group's memory", list(memory)),
        Pair("/dev/shm", shm),
        Pair("disks", [f"{directory}: {size(free)} free" for directory, free in facts.disk_free_bytes.items()]),
        Pair("limits", [", ".join(limits)] if limits else []),
    ]


def _cgroup(pid: int) -> dict[str, str]:
    """The files of the control group of `pid` (version 2) that bound it."""
    files = [(name, folder / name) for folder in memory_limit.group_folders(pid) for name in _CGROUP]
    return {name: text for name, file in files if (text := _read(str(file)).strip())}


def _release() -> str:
    rows = dict(line.partition("=")[::2] for line in _read("/etc/os-release").splitlines() if "=" in line)
    return rows.get("PRETTY_NAME", "").strip('"')


def _cpu() -> str:
    rows = _read("/proc/cpuinfo").splitlines()
    return next(
        (line.partition(":")[2].strip() for line in rows if line.startswith(("model name", "CPU part"))), "unknown"
    )


def _uptime_s() -> float:
    return float((_read("/proc/uptime").split() or ["0"])[0])


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
