"""Who left, where the other ranks lost their connection: the rank that reports neither that nor an error of its own."""

from __future__ import annotations

import re

from ....language import text
from ....model import LogEvidence, LogLine, Subject
from ....words.ranks import rank_list
from ..launch import is_of_launcher, rank_of, ranks
from . import Fact

__all__ = ["LOST", "facts"]

LOST = re.compile(
    r"(?i)gloo[^\n]{0,120}(?:Connection (?:reset|closed) by (?:remote )?peer|Broken pipe|Read error|Write error|Socket closed)"
)
MOST_LEFT = 3


def facts(evidence: LogEvidence) -> list[Fact]:
    """`peer_left` with `left_rank` and `lost_by` (ranks); `launcher` = "says nothing" where one lists who failed, and not that rank."""
    lost: set[int] = set()
    at: LogLine | None = None
    for line in evidence.lines:
        rank = rank_of(line)
        if rank is not None and LOST.search(line.text):
            lost.add(rank)
            at = at or line
    if at is None:
        return []
    failed = {e.rank for e in evidence.ends if e.by_itself}
    spoke = {rank_of(e.line) for e in evidence.errors if not is_of_launcher(e)}
    left = sorted(ranks(evidence) - lost - spoke - failed)
    if not left or len(left) > MOST_LEFT or None in spoke:
        return []
    listed = rank_list(left)
    values: dict[str, float | str] = {"left_rank": listed, "lost_by": rank_list(lost)}
    if failed:
        values["launcher"] = "says nothing"
    words = text("rank {listed} reports no lost connection and no error", listed=listed)
    return [Fact("peer_left", at, values, left[0], tuple(Subject("rank", r) for r in left), words)]
