"""Exceptions that ended the run, whatever they are: ``uncaught_exception`` with a traceback, ``bare_exception`` without one.

Not told: what the person did (Ctrl-C, an exit with status 0, a polite SIGTERM) and what the run got over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....model import LogError, LogEvidence
from ..findings import inner_user_frame
from ..progress import ON_PURPOSE, Progress
from . import Fact

__all__ = ["facts"]

MOST = 20
NEAR_THE_END = 12
"""An exception without a traceback counts only so near the end: programs print those of others and go on."""
_UNRAISABLE = ("Exception ignored in", "Error in atexit", "Error in sys.excepthook", "Exception ignored on")
_GOT_OVER = re.compile(
    r"(?i)\bretr(?:y|ies|ying)\b|fall(?:ing|s|en)? back|\bignor|\bskipp|warning|disabled|will be used instead|continuing"
    r"|DataLoader worker \(pid|can only test a child process"
)


def facts(evidence: LogEvidence) -> list[Fact]:
    progress = Progress(evidence)
    unraisable = {(x.source, x.number) for x in evidence.lines if x.text.lstrip().startswith(_UNRAISABLE)}
    found: dict[tuple[str, str], Fact] = {}
    for outermost in evidence.errors:
        links = list(_links(outermost))
        innermost = links[-1]
        if any(e.type.rpartition(".")[2] in ON_PURPOSE for e in links):
            continue
        said_at = max(
            e.last_number - e.message.count("\n") for e in links
        )  # what follows may be no part of the message
        if progress.completed(outermost.line, said_at) or _ignored(outermost, unraisable):
            continue
        if progress.after(outermost.line, max(e.last_number for e in links)):
            continue
        if any(e.frames for e in links) or _ended_by(outermost, evidence):
            fact = _fact(innermost)
            found.setdefault((fact.name, f"{innermost.type}{fact.values.get('file')}{fact.values.get('line')}"), fact)
    return list(found.values())[:MOST]


def _ignored(error: LogError, unraisable: set[tuple[int, int]]) -> bool:
    """Whether Python itself printed it as one that it could not raise: at exit, from a destructor."""
    return any((error.line.source, error.line.number - n) in unraisable for n in range(3))


def _ended_by(bare: LogError, evidence: LogEvidence) -> bool:
    """Whether an exception without traceback seems to have ended the run: near the end, and nothing speaks of going on."""
    source = bare.line.source
    if evidence.sources[source].lines - bare.last_number > NEAR_THE_END:
        return False
    near = range(bare.line.number, bare.last_number + 3)
    return not any(_GOT_OVER.search(x.text) for x in evidence.lines if x.source == source and x.number in near)


def _links(error: LogError | None) -> Iterator[LogError]:
    while error is not None:
        yield error
        error = error.inner


def _fact(error: LogError) -> Fact:
    message = error.message.strip().partition("\n")[0][:300]
    kind = error.type.rpartition(".")[2] or error.type
    values: dict[str, float | str] = {k: v for k, v in (("type", kind), ("message", message)) if v}  # it may be cut off
    frame = inner_user_frame(error)
    if frame:
        values |= {"file": frame.file, "line": str(frame.line), "function": frame.function}
    name = "uncaught_exception" if error.frames else "bare_exception"
    return Fact(name, error.line, values, error.line.rank, words=f"{kind}: {message}" if error.frames and kind else "")
