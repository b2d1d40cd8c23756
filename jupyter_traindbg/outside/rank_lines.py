"""Whose line is it? Logs that several ranks write to, taken apart by what torch, torchrun and multiprocessing put before a rank's lines.

Pure functions on lines of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

__all__ = ["lines_of"]

_BY_RANK = re.compile(r"^\s*\[rank(\d+)\]:")  # torch's own excepthook, and its C++ log
_BY_LOCAL_RANK = re.compile(r"^\s*\[[A-Za-z_]+(\d+)\]:")  # torchrun --tee: the role and the local rank
_BY_PROCESS = re.compile(r"^Process \w*Process-(\d+):$")  # multiprocessing, before the traceback; it counts from 1


def lines_of(rank: int, local_rank: int, lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """The lines of one rank, and those that nobody is known to have written; the lines of other ranks are left out."""
    own, nobodys = [], []
    for kind, number, line in _owned(lines):
        if number is None:
            nobodys.append(line)
        elif number == (rank if kind is _BY_RANK else local_rank):
            own.append(line)
    return own, nobodys


def _owned(lines: Iterable[str]) -> Iterator[tuple[re.Pattern[str] | None, int | None, str]]:
    """Each line with the number before it and what kind of number that is. A traceback ends with its first line that is not indented."""
    process: int | None = None
    for line in lines:
        if match := _BY_PROCESS.match(line):
            process = int(match.group(1)) - 1
            yield _BY_PROCESS, process, line
        elif process is not None:
            yield _BY_PROCESS, process, line
            if not line.startswith((" ", "Traceback", "During handling", "The above exception")):
                process = None
        else:
            kind = next((k for k in (_BY_RANK, _BY_LOCAL_RANK) if k.match(line)), None)
            found = kind.match(line) if kind is not None else None
            yield kind, int(found.group(1)) if found else None, line
