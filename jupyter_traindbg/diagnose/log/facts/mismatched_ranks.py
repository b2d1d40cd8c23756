"""The two sides of "Detected mismatch between collectives on ranks" (c10d ProcessGroupWrapper): who runs what, and who is behind.

The wrapper prints "Rank 3 is running collective: CollectiveFingerPrint(SequenceNumber=18, OpType=...), but Rank 0 is running ...". With
different numbers the smaller one is behind; with equal ones neither can be blamed by the number alone.
"""

from __future__ import annotations

import re

from ....language import text
from ....model import LogEvidence, LogLine, Subject
from . import Fact

__all__ = ["facts"]

_HEAD = re.compile(r"(?i)mismatch between collectives")
_SIDE = re.compile(
    r"(?i)\bRank\s+(\d{1,9})\s+is\s+running\s+(?:(?:inconsistent )?collective:\s*)?([\w.]{3,40}(?:\s?\([^()\n]{0,200}\)?)?)"
)
_SEQUENCE = re.compile(r"(?i)SequenceNumber\s*=\s*(\d{1,9})")
_OPERATION = re.compile(r"(?i)OpType\s*=\s*(\w+)(?:[^)\n]{0,20}?TensorShape\s*=\s*(\[[\d, ]*\]))?")
REACH = 8
"""The message is broken into so many lines at most."""


def facts(evidence: LogEvidence) -> list[Fact]:
    """`ranks_mismatched`: `first_rank`, `first_call`, `second_rank`, `second_call`, and `behind_rank`, `behind_number`, `ahead_rank`,
    `ahead_number` where the sequence numbers differ. [] where the message does not name two ranks.
    """
    for i, line in enumerate(evidence.lines):
        if not _HEAD.search(line.text):
            continue
        near = [x for x in evidence.lines[i : i + REACH] if x.source == line.source]
        sides = _sides("\n".join(x.text for x in near))
        if len(sides) > 1:
            return [_fact(line, sides)]
    return []


def _sides(message: str) -> list[tuple[str, str, int | None]]:
    """(rank, what it runs, its sequence number) of the first two ranks that are named."""
    sides: dict[str, tuple[str, str, int | None]] = {}
    for found in _SIDE.finditer(message):
        end = message.find("is running", found.end())
        said = message[found.start() : end if end > 0 else len(message)]
        number, operation = _SEQUENCE.search(said), _OPERATION.search(said)
        call = f"{operation[1]}{' ' + operation[2] if operation[2] else ''}" if operation else found[2].strip()
        sides.setdefault(found[1], (found[1], call, int(number[1]) if number else None))
    return list(sides.values())[:2]


def _fact(line: LogLine, sides: list[tuple[str, str, int | None]]) -> Fact:
    (first, first_call, first_number), (second, second_call, second_number) = sides
    values: dict[str, float | str] = {
        "first_rank": first,
        "first_call": first_call,
        "second_rank": second,
        "second_call": second_call,
    }
    blamed = [first, second]
    words = ""
    if first_number and second_number and first_number != second_number:  # 0: of a group that does not count
        if first_number > second_number:
            blamed = [second, first]
        low, high = sorted((first_number, second_number))
        values |= {
            "behind_rank": blamed[0],
            "behind_number": str(low),
            "ahead_rank": blamed[1],
            "ahead_number": str(high),
        }
        words = text("rank {blamed} is behind by {high}", blamed=blamed[0], high=high - low)
        blamed = blamed[:1]
    return Fact("ranks_mismatched", line, values, int(blamed[0]), tuple(Subject("rank", int(r)) for r in blamed), words)
