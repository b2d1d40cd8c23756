"""What a rank and its DataLoader workers do over a window: their stacks, many times a second, from one call of py-spy that only reads."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CannotAttach
from ..frames.waits import in_dataloader_worker
from ..frames.whose import RawFrame, frames_of
from ..language import text
from ..model import ProcessLooks
from .stacks import py_spy

__all__ = ["watch"]

RATE = 20
"""Looks a second: 0.2 ms of a CPU each and process, of py-spy's own."""
WRITING_S = 3.0
"""How long it may take to write down what it saw."""
_NAME = re.compile(r'Process (\d+) Thread (\d+) "(.*)"', re.DOTALL)


def watch(pid: int, over: threading.Event, longest_s: float) -> list[ProcessLooks]:
    """The main threads of `pid` and of its DataLoader workers, until `over` is set, or for `longest_s` seconds. It needs no GIL: it sees
    Python code, too, that runs for less long than others wait for that.

    Workers that are started meanwhile are found within a second. Raises `MissingPiece` without py-spy, `CannotAttach` where it saw nothing.
    """
    with tempfile.TemporaryDirectory(prefix="traindbg-") as folder:
        file = os.path.join(folder, "seen.json")
        command = [
            py_spy(), "record", "--pid", str(pid), "--subprocesses", "--idle", "--nonblocking", "--full-filenames",
            "--rate", str(RATE), "--duration", str(math.ceil(longest_s) + 1), "--format", "speedscope", "--output", file,
        ]  # fmt: skip
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = _end(process, over, longest_s)
        try:
            with open(file, encoding="utf-8") as f:
                seen = json.load(f)
        except (OSError, ValueError):
            why = (said.strip().splitlines() or [text("it wrote nothing")])[-1]
            raise CannotAttach(
                text("py-spy could not watch process {pid}: {why}", pid=pid, why=why), text("try again in a moment")
            ) from None
    return _told(pid, seen)


def _end(process: subprocess.Popen[bytes], over: threading.Event, longest_s: float) -> str:
    """Let it look until it is over, and then write. What it said of that."""
    ends = time.monotonic() + longest_s
    while process.poll() is None and time.monotonic() < ends and not over.wait(0.05):
        pass
    if process.poll() is None:
        process.send_signal(signal.SIGINT)  # it writes what it has
    try:
        return process.communicate(timeout=WRITING_S)[1].decode(errors="replace")
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1].decode(errors="replace")


def _torn(stack: Sequence[RawFrame]) -> bool:
    """Whether memory was read as names that are none: the program went on meanwhile."""
    return any("\0" in file or "\0" in function for file, _, function in stack)


def _told(pid: int, seen: Mapping[str, Any]) -> list[ProcessLooks]:
    frames: list[RawFrame] = [(f["file"] or "", f["line"] or 0, f["name"]) for f in seen["shared"]["frames"]]
    found = []
    for profile in seen["profiles"]:
        match = _NAME.match(profile["name"])
        if match is None or match[1] != match[2]:  # the main thread has the number of its process
            continue
        stacks = Counter(tuple(reversed(sample)) for sample in profile["samples"])
        told = [([frames[n] for n in stack], many) for stack, many in stacks.most_common()]
        # of a worker none outside of its loop: those of its start, and those that a look has torn
        whole = [
            (frames_of(stack), many)
            for stack, many in told
            if (int(match[1]) == pid or in_dataloader_worker(stack)) and not _torn(stack)
        ]
        if whole:
            found.append(ProcessLooks(int(match[1]), sum(stacks.values()), tuple(whole), 1 / RATE))
    return found
