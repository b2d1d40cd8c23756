"""What was the last thing that was begun before a collective timed out: saving, evaluating, preparing data, which one rank does alone.

"Saving checkpoint ..." at 10:28, then nothing, then the watchdogs of the other ranks at 10:48: the one that saves is late, not those
that print.
"""

from __future__ import annotations

import re

from ....language import text
from ....model import LogEvidence, LogLine, Subject
from . import Fact

__all__ = ["facts"]

_WAITED = re.compile(r"(?i)collective operation timeout|Timeout at NCCL work|WorkNCCL\(.{0,200}ran for")
_ALONE = re.compile(
    r"(?i)\b(?:sav(?:e|ing)|writ(?:e|ing)|upload(?:ing)?|export(?:ing)?|merg(?:e|ing))\b.{0,60}"
    r"\b(?:checkpoints?|model|weights|state|optimizer|to disk)\b"
    r"|\b(?:evaluating|validating|running (?:evaluation|validation)|tokeni[sz]ing|preprocessing|building (?:the )?(?:index|data ?set))\b"
)
_DONE = re.compile(r"(?i)\b(?:done|finished|completed?|saved|took)\b(?!.{0,20}\bepochs?\b)")
_REPORTER = re.compile(r"(?i)\[rank ?(\d+)\]")
LONG_S = 60.0


def facts(evidence: LogEvidence) -> list[Fact]:
    """`last_at_work` with `begun`, `silent_s` and whose it is: the writer, else rank 0 if another one reports. Needs times in the lines."""
    for i, line in enumerate(evidence.lines):
        if not _WAITED.search(line.text):
            continue
        before = next((x for x in reversed(evidence.lines[max(0, i - 3) : i]) if x.source == line.source), None)
        return _fact(before, line) if before else []
    return []


def _fact(before: LogLine, waited: LogLine) -> list[Fact]:
    if before.time_s is None or waited.time_s is None or waited.time_s - before.time_s < LONG_S:
        return []
    if not (begun := _ALONE.search(before.text)) or _DONE.search(before.text, begun.end()):
        return []
    named = _REPORTER.search(waited.text)
    reporter = waited.rank if waited.rank is not None else int(named[1]) if named else None
    rank = before.rank if before.rank is not None else 0 if reporter else None
    silent = waited.time_s - before.time_s
    values: dict[str, float | str] = {"begun": begun[0], "silent_s": silent}
    words = text('nothing for {silent:.0f} s after "{begun}"', silent=silent, begun=begun[0])
    return [Fact("last_at_work", before, values, rank, () if rank is None else (Subject("rank", rank),), words)]
