"""What the logs of a job's processes say, without secrets: for whoever looks through them by a query."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .diagnose.log import anchors
from .errors import DeadlineExceeded, NoTarget
from .language import text
from .model import LogEvidence
from .outside import logs, procfs
from .outside.logs import of_job
from .redact import Redactor

__all__ = ["read"]

AT_ONCE = 500
"""So many lines are looked through for secrets between two looks at the clock."""
READ_SHARE = 0.5
"""Of the time; the rest is for that."""


def read(pids: Mapping[int, int], launcher_pid: int | None, left: Sequence[str], timeout: float) -> LogEvidence:
    """The lines that the ranks with these `pids`, by rank, and their launcher have written, and what ended ones have `left`, by patterns.

    Of logs of at most 5,000 lines all; of longer ones both ends and the lines that may tell of a failure. Secrets are taken out as of a
    report: also those that only the environment of a process gives away by their names. Costs 10 ms a megabyte, the first time 2 s more,
    and 0.5 s a megabyte of the lines that are told. Raises `NoTarget` where there is no log, `BadLog` where none can be read, and
    `DeadlineExceeded` where there are more lines than can be looked through.
    """
    ends = time.monotonic() + timeout
    files, why_not = of_job.find(pids, launcher_pid, left)
    if not files:
        raise NoTarget(why_not[0] if why_not else text("no process of the job on this machine writes a log"), "")
    evidence = logs.read(files, anchors=anchors(), timeout=READ_SHARE * timeout)
    redactor = Redactor()
    redactor.learn_from([dict(os.environ), *_known([*pids.values(), *([launcher_pid] if launcher_pid else [])])])
    lines = _without_secrets(redactor, [line.text for line in evidence.lines], ends)
    told = tuple(replace(line, text=words) for line, words in zip(evidence.lines, lines, strict=True))
    return LogEvidence(redactor.value(evidence.sources), told)


def _known(pids: Sequence[int]) -> Iterator[Any]:
    """What gives secrets of theirs away: their environments, and what they were started with."""
    stuck = procfs.uninterruptible(pids)  # to read it would wait with them
    for pid in pids:
        if pid not in stuck:
            yield from (procfs.whole_environ(pid), procfs.command(pid))


def _without_secrets(redactor: Redactor, lines: Sequence[str], ends: float) -> list[str]:
    """Many at once, which takes half the time; line by line only where there is a secret."""
    pieces = [lines[n : n + AT_ONCE] for n in range(0, len(lines), AT_ONCE)]
    for piece in pieces:
        _in_time(ends)
        redactor.learn_from("\n".join(piece))
    told: list[str] = []
    for piece in pieces:
        _in_time(ends)
        whole = "\n".join(piece)
        told += piece if redactor.text(whole) == whole else map(redactor.text, piece)
    return told


def _in_time(ends: float) -> None:
    if time.monotonic() > ends:
        raise DeadlineExceeded(
            text("the logs have more lines than can be looked through in time"), text("give a longer --timeout")
        )
