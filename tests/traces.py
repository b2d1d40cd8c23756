"""What a process shows of us from outside: threads, descriptors, mappings, signal masks, files."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from jupyter_traindbg.agent import rendezvous

GLIBC_SIGNALS = 0b11 << 31
"""SIGCANCEL and SIGSETXID: glibc catches them from a process's first extra thread on, whoever starts it."""


@dataclass(frozen=True)
class Footprint:
    threads: int
    descriptors: int
    """Without the one by which libffi (3.5 and newer) keeps its own file open, from the first import of ctypes on."""
    ours_mapped: tuple[str, ...]
    directory: bool
    signals: tuple[str, ...]
    """The masks of blocked, ignored and caught signals of the main thread."""


def footprint(pid: int, *, directory: bool = True) -> Footprint:
    """The footprint now; without `directory` the agent's directory is left out of account."""
    status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    mapped = Path(f"/proc/{pid}/maps").read_text().splitlines()
    place = rendezvous.directory(pid, os.stat(f"/proc/{pid}").st_uid)
    return Footprint(
        threads=int(status["Threads"]),
        descriptors=sum("/libffi.so" not in target for target in _open_files(pid)),
        ours_mapped=tuple(line for line in mapped if "traindbg" in line or "boot-" in line),
        directory=directory and os.path.exists(place),
        signals=tuple(f"{int(status[name], 16) & ~GLIBC_SIGNALS:x}" for name in ("SigBlk", "SigIgn", "SigCgt")),
    )


def _open_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    found = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(f"{folder}/{name}"))
    return found


def settled(pid: int, wanted: Footprint, timeout_s: float = 30.0, *, directory: bool = True) -> Footprint:
    """The footprint of `pid`, once it is as `wanted` or the time is up (a thread takes a moment to end after its last word)."""
    deadline = time.monotonic() + timeout_s
    while (seen := footprint(pid, directory=directory)) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen


def gone(pid: int, timeout_s: float = 30.0) -> Footprint:
    """The footprint of `pid`, once nothing of ours is mapped and its directory is away, or the time is up: of one whose own threads and
    descriptors come and go, as a kernel's do."""
    deadline = time.monotonic() + timeout_s
    while ((seen := footprint(pid)).ours_mapped or seen.directory) and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen
