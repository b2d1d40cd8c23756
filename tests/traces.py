"""What a process shows of us from outside: threads, mappings, descriptors, files."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from jupyter_traindbg.agent import rendezvous


@dataclass(frozen=True)
class Footprint:
    threads: int
    descriptors: int
    ours_mapped: tuple[str, ...]
    directory: bool


def footprint(pid: int) -> Footprint:
    mapped = tuple(line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "traindbg" in line)
    directory = rendezvous.directory(pid, os.stat(f"/proc/{pid}").st_uid)
    return Footprint(
        len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd")), mapped, os.path.exists(directory)
    )


def settled(pid: int, wanted: Footprint, timeout_s: float = 5.0) -> Footprint:
    """The footprint of `pid`, once it is as `wanted` or the time is up (a thread takes a moment to end after its last word)."""
    deadline = time.monotonic() + timeout_s
    while (seen := footprint(pid)) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen
