"""Files and tools, read so that neither can hold us up or fill our memory."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

from .context import Unavailable

__all__ = ["first_line", "regular", "text_of", "tool"]


def regular(path: str) -> int:
    """A descriptor of the regular file at `path`. Raises `Unavailable` for what is none (a pipe would wait for a writer), or `OSError`."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Unavailable(f"{path} is no regular file")
    return fd


def text_of(path: str, most_bytes: int) -> str:
    """A text file of at most `most_bytes`. Raises `Unavailable` where it is larger or binary, or `OSError`."""
    with os.fdopen(regular(path), "rb") as f:
        raw = f.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise Unavailable(f"{path} is larger than {most_bytes // 1024} KiB")
    if b"\0" in raw[:4096] and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unavailable(f"{path} is no text file")
    return raw.decode("utf-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig", errors="replace")


def first_line(path: str) -> str:
    """The first line of a small file of the kernel; empty where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").split("\n", 1)[0].strip()
    except OSError:
        return ""


def tool(words: list[str], deadline_s: float) -> str:
    """What a program prints. Raises `Unavailable` where it is missing, fails, or does not end; one that cannot even be killed is left."""
    program = shutil.which(words[0])
    if program is None:
        raise Unavailable(f"there is no {words[0]} here")
    with tempfile.TemporaryFile() as printed:
        child = subprocess.Popen(
            [program, *words[1:]], stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT
        )
        ends = time.monotonic() + deadline_s
        while child.poll() is None and time.monotonic() < ends:
            time.sleep(0.01)
        if child.poll() is None:
            child.kill()
            try:
                child.wait(0.25)
            except subprocess.TimeoutExpired:
                child.returncode = -9  # in uninterruptible sleep: no longer ours to wait for; says so to Popen.__del__
            raise Unavailable(f"`{' '.join(words)}` did not end within {deadline_s:.1f} s")
        printed.seek(0)
        said = printed.read(1 << 20).decode(errors="replace")
    if child.returncode:
        raise Unavailable(f"`{' '.join(words)}` ended with status {child.returncode}: {said.strip()[:300]}")
    return said
