"""What scenes need that run short of memory: a small control group, and a swap file. Both need root, and are taken away afterwards."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
EMPTY_S = 10.0


@contextlib.contextmanager
def control_group(name: str, limit_bytes: int, *, swaps: bool) -> Iterator[Path]:
    """A control group whose processes may use that much memory, and swap or not: the file into which a process writes its pid to join.

    Raises `OSError` where this user may make none, or the system has no memory controller. Its processes have to end before it does.
    """
    old = (GROUPS / "memory").is_dir()
    group = (GROUPS / "memory" if old else GROUPS) / name
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(limit_bytes))
        if not swaps:
            (group / ("memory.swappiness" if old else "memory.swap.max")).write_text("0")
        yield group / "cgroup.procs"
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    deadline = time.monotonic() + EMPTY_S
    while (group / "cgroup.procs").read_text().strip() and time.monotonic() < deadline:
        time.sleep(0.05)  # killed processes leave a moment later
    group.rmdir()


@contextlib.contextmanager
def swap_file(folder: Path, size_bytes: int) -> Iterator[None]:
    """Let this machine swap to a file in `folder`. Raises `OSError` or `CalledProcessError` where that cannot be."""
    file = folder / "swap"
    with open(os.open(file, os.O_CREAT | os.O_RDWR, 0o600), "r+b") as f:
        os.posix_fallocate(f.fileno(), 0, size_bytes)
    for command in ("mkswap", "swapon"):
        subprocess.run([command, file], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["swapoff", file], check=True)
        file.unlink()
