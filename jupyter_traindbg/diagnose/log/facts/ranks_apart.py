"""Where each rank stood, when a wait that nobody came to ended: ranks at different lines of the program are in different collectives.

Told only where every rank that the log knows stood in a communication: one that did not was busy or dead, and the others waited for it.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping

from ....language import text
from ....model import LogError, LogEvidence, LogFrame, LogLine, Subject
from ....words.ranks import rank_list
from ..exceptions import inner_user_frame
from ..launch import is_of_launcher, rank_of, ranks
from ..trends import line_at
from . import Fact
from .peer_left import LOST

__all__ = ["facts"]

_WAITED = re.compile(r"(?i)Timed out waiting \d+ ?ms for (?:send|recv)")
_MISMATCH = re.compile(r"op\.preamble\.length <= op\.nbytes")
LONGEST = 60
"""Characters of a line of code."""


def facts(evidence: LogEvidence) -> list[Fact]:
    """`ranks_apart` with `odd_rank`, `odd_place`, `other_rank`, `other_place`: the fewer ranks are the odd ones.

    Where no place has fewer, all are blamed.
    """
    stood: dict[int, LogError] = {}
    mismatch = any(_MISMATCH.search(line.text) for line in evidence.lines)
    aborted = {e.rank for e in evidence.ends if e.signal == "SIGABRT"} if mismatch else set()
    """By gloo's own thread: where they stood is not printed."""
    waited = False
    for outermost in evidence.errors:
        rank = rank_of(outermost.line)
        if rank is None or is_of_launcher(outermost):
            continue
        for error in outermost.chain():
            if _MISMATCH.search(error.message):
                aborted.add(rank)
            elif _WAITED.search(error.message) or LOST.search(error.message):
                waited = waited or bool(_WAITED.search(error.message))
                stood.setdefault(rank, error)
    if not (waited or mismatch) or ranks(evidence) - stood.keys() - aborted:
        return []
    return _told(evidence, stood)


def _told(evidence: LogEvidence, stood: Mapping[int, LogError]) -> list[Fact]:
    """Of one place alone (the rank that found the mismatch prints none) `rank_stood_at` with `stood_rank`, `stood_place`."""
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    frames: dict[tuple[str, int], LogFrame] = {}
    for rank, error in sorted(stood.items()):
        frame = inner_user_frame(error)
        if frame is not None:
            places[frame.file, frame.line].append(rank)
            frames[frame.file, frame.line] = frame
    if len(places) == 1:
        ((place, at),) = places.items()
        values: dict[str, float | str] = {"stood_rank": rank_list(at), "stood_place": _place(frames[place])}
        return [Fact("rank_stood_at", _said_at(evidence, stood[at[0]]), values)]
    if not places:
        return []
    odd, *_, other = sorted(places, key=lambda place: (len(places[place]), places[place][0]))
    alike = len(places[odd]) == len(places[other])
    values = {
        "odd_rank": rank_list(places[odd]),
        "odd_place": _place(frames[odd]),
        "other_rank": rank_list(places[other]),
        "other_place": _place(frames[other]),
        "file": frames[odd].file,
        "line": str(frames[odd].line),
        "function": frames[odd].function,
    }
    words = text(
        "rank {values} at {values2}; rank {values3} at {values4}",
        values=values["odd_rank"],
        values2=values["odd_place"],
        values3=values["other_rank"],
        values4=values["other_place"],
    )
    blamed = [r for place in (places if alike else [odd]) for r in places[place]]
    who = tuple(Subject("rank", r) for r in sorted(blamed))
    return [Fact("ranks_apart", _said_at(evidence, stood[places[odd][0]]), values, places[odd][0], who, words)]


def _said_at(evidence: LogEvidence, error: LogError) -> LogLine:
    """Its message, not the headline of its traceback."""
    return line_at(evidence, error.line.source, error.last_number) or error.line


def _place(frame: LogFrame) -> str:
    where, code = f"{os.path.basename(frame.file)}:{frame.line}", frame.code.strip()
    code = code if len(code) <= LONGEST else f"{code[: LONGEST - 1]}…"
    return f"{where} ({code})" if code else where
