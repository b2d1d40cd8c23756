"""The machine that ranks run on: memory, swap, shared memory, disks, limits, GPUs, versions. From /proc, and from disks with a deadline."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..model import HostFacts, Maybe, NotAvailable
from . import procfs

__all__ = ["facts", "free_bytes"]

HELPER = str(Path(__file__).with_name("host_helper.py").resolve())
DISKS_S = 2.5
EACH_S = 0.5
"""For one directory, once it is its turn; before, an interpreter has to start, which takes a busy machine longer."""
_LIMITS = {
    "Max open files": "nofile",
    "Max locked memory": "memlock",
    "Max processes": "nproc",
    "Max address space": "as",
    "Max stack size": "stack",
    "Max core file size": "core",
}
_GPU = re.compile(r"nvidia\d+")
_TORCH = re.compile(rb"(/[^\n]*/torch)/lib/libtorch")
_LIBPYTHON = re.compile(r"python(\d\.\d+)")


def facts(pids: Sequence[int], *, deadline_s: float = DISKS_S + 1) -> HostFacts:
    """This host, as the processes `pids` see it: their limits, working and temporary directories and versions.

    About 50 ms, most of it a helper process that asks the disks; it is left behind where one of them does not answer.
    """
    ends = time.monotonic() + min(DISKS_S, deadline_s)
    stuck = frozenset(procfs.uninterruptible(pids))
    answering = [pid for pid in pids if pid not in stuck]
    memory = _meminfo()
    root = _root(answering)
    shm, directories = f"{root}/dev/shm", _directories(answering)
    packages = [root + package for package in _torch_packages(answering)]
    space, versions, silent = _ask([shm, *(root + d for d in directories)], packages, ends)
    no_shm = NotAvailable("there is no /dev/shm, or it does not answer")
    return HostFacts(
        name=socket.gethostname(),
        cpus=os.cpu_count() or 1,
        gpus=_gpus(root),
        memory_free_bytes=memory.get("MemAvailable", 0),
        memory_bytes=memory.get("MemTotal", 0),
        swap_used_bytes=memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        shm_free_bytes=space[shm][0] if shm in space else no_shm,
        shm_bytes=space[shm][1] if shm in space else no_shm,
        disk_free_bytes={d: space[root + d][0] for d in directories if root + d in space},
        limits=_limits(answering),
        versions={**versions, **_driver(), **_python(answering)},
        disks_silent=tuple(d.removeprefix(root) for d in silent),
    )


def free_bytes(directories: Sequence[str], *, deadline_s: float = DISKS_S) -> dict[str, int]:
    """Free bytes of the disks that these directories of ours are on; those that do not answer in time, or are not there, are left out."""
    space, _, _ = _ask(directories, (), time.monotonic() + deadline_s) if directories else ({}, {}, [])
    return {directory: space[directory][0] for directory in directories if directory in space}


def _root(pids: Sequence[int]) -> str:
    """What to put before a path of the ranks: empty where they have the same mounts as we, as outside of containers."""
    for pid in pids:
        try:
            return "" if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt") else f"/proc/{pid}/root"
        except OSError:
            continue
    return ""


def _meminfo() -> dict[str, int]:
    """Bytes by name."""
    rows = (line.split() for line in _lines("/proc/meminfo"))
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}


def _directories(pids: Iterable[int]) -> list[str]:
    """The working and temporary directories, by name alone: nothing is asked of their disks here."""
    found: dict[str, None] = {}
    for pid in pids:
        try:
            found[os.readlink(f"/proc/{pid}/cwd")] = None
        except OSError:
            continue
        found[procfs.training_environ(pid).get("TMPDIR", "/tmp")] = None
    return list(found)


def _torch_packages(pids: Iterable[int]) -> list[str]:
    found = (_TORCH.search(procfs.mapped(pid)) for pid in pids)
    return list(dict.fromkeys(os.fsdecode(match.group(1)) for match in found if match))


def _gpus(root: str) -> Maybe[int]:
    """The GPUs that the processes have device files for; a container has those it was given."""
    try:
        names = os.listdir(f"{root}/dev")
    except OSError:
        return NotAvailable("/dev of the ranks cannot be read")
    nvidia = sum(1 for name in names if _GPU.fullmatch(name))
    return nvidia or _amd_gpus()


def _amd_gpus() -> int:
    """Nodes of the compute topology with vector units are GPUs, by the documentation of the kernel's amdkfd."""
    nodes = Path("/sys/class/kfd/kfd/topology/nodes")
    properties = (_lines(str(node / "properties")) for node in (nodes.iterdir() if nodes.is_dir() else ()))
    return sum(1 for lines in properties if any(w[:1] == ["simd_count"] and w[1] != "0" for w in map(str.split, lines)))


def _limits(pids: Sequence[int]) -> dict[str, int]:
    """The soft limits of the first rank; -1 where there is none."""
    found = {}
    for line in _lines(f"/proc/{pids[0]}/limits") if pids else ():
        name, values = line[:26].rstrip(), line[26:].split()
        if name in _LIMITS and values:
            found[_LIMITS[name]] = -1 if values[0] == "unlimited" else int(values[0])
    return found


def _driver() -> dict[str, str]:
    match = re.search(r"Kernel Module\D*?([\d.]+)", "\n".join(_lines("/proc/driver/nvidia/version")))
    return {"driver": match.group(1)} if match else {}


def _python(pids: Iterable[int]) -> dict[str, str]:
    for pid in pids:
        try:
            match = _LIBPYTHON.search(os.path.basename(os.readlink(f"/proc/{pid}/exe")))
        except OSError:
            continue
        if match:
            return {"Python": match.group(1)}
    return {}


# --- the helper ----------------------------------------------------------------------------------------------------


def _ask(
    directories: Sequence[str], packages: Sequence[str], ends: float
) -> tuple[dict[str, tuple[int, int]], dict[str, str], list[str]]:
    """Free and all bytes by directory, versions by name, and the directories that did not answer. One helper for each directory that
    hangs, as one call that does not return would keep the next ones from being asked.
    """
    questions = [*(f"space:{d}" for d in directories), *(f"torch:{p}" for p in packages)]
    space: dict[str, tuple[int, int]] = {}
    versions: dict[str, str] = {}
    silent: list[str] = []
    while questions and time.monotonic() < ends:
        last = ""
        said, done = _run(questions, ends)
        for kind, *words in said:
            if kind == "asks":
                last = words[0]
            elif kind == "space":
                space[words[0]] = (words[1], words[2])
            else:
                versions[words[0]] = words[1]
        if done or not last:
            break
        silent.append(last.partition(":")[2])
        questions = questions[questions.index(last) + 1 :]
    return space, versions, silent


def _run(questions: Sequence[str], ends: float) -> tuple[list[list[Any]], bool]:
    """The helper's lines, and whether it came to its end. One that hangs in the kernel dies when the kernel lets it.

    It is left alone at `ends`, or when it has begun and then said nothing for `EACH_S`.
    """
    words = [sys.executable, "-I", "-S", HELPER, *questions]
    try:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    except OSError:
        return (
            [],
            True,
        )  # no process can be started, or there is no interpreter by that name: nothing is known of the disks
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    raw, patience = b"", ends
    while time.monotonic() < patience:
        chunk = child.stdout.read()
        if chunk:
            raw += chunk
            patience = min(ends, time.monotonic() + EACH_S)
        if chunk == b"" and child.poll() is not None:
            break
        time.sleep(0.005)
    done = child.poll() is not None
    if not done:
        child.kill()
        try:
            child.wait(0.1)
        except subprocess.TimeoutExpired:
            child.returncode = -9  # it is no longer ours to wait for; says so to Popen.__del__
    child.stdout.close()
    return [json.loads(line) for line in raw.splitlines() if line.endswith(b"]")], done


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().splitlines()
    except OSError:
        return []
