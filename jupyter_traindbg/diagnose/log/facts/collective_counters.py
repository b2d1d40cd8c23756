"""Who is ahead and who is behind, from the counters that each rank's watchdog prints.

A rank that reports a timeout has issued the call and waits; the one whose "last enqueued" is smaller never issued it. Sources of the
wordings: ProcessGroupNCCL.cpp ("last enqueued NCCL work: 11, last completed NCCL work: 10") and what people make of it in their notes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....language import text
from ....model import LogEvidence, LogLine, Subject
from ....words.ranks import rank_list
from . import Fact

__all__ = ["facts"]

_COUNTERS = re.compile(
    r"(?i)last enqueued(?: NCCL)?(?: work)?\s*[:=]\s*(-?\d+)\s*,\s*last completed(?: NCCL)?(?: work)?\s*[:=]\s*(-?\d+)"
)
_RANK = re.compile(r"(?i)\brank\s*(\d{1,9})\b")
_GROUP = re.compile(r"(?i)\[PG(?: ID)? (\d{1,9})")
_WORK = re.compile(r"(?i)WorkNCCL\(\s*SeqNum=(\d{1,9})\s*,\s*OpType=(\w+)(?:,\s*NumelIn=(\d{1,9}))?")
_FROM = re.compile(r"(?i)collective timeout from\s+rank\s+(\d{1,9})")
REACH = 3
"""The counters may stand on so many lines after the one that names the rank (a quoted or wrapped log)."""
MOST_NAMED = 8


@dataclass
class _Counter:
    enqueued: int
    completed: int
    line: LogLine


def facts(evidence: LogEvidence) -> list[Fact]:
    """`collective_behind` where one of the ranks is late, `collective_alone_ahead` where one went on alone, `collective_differs` where
    they wait in different calls under one number, `collective_together` where the counters agree. Needs two ranks that print.
    """
    return _differing(evidence) or _counted(evidence)


def _counted(evidence: LogEvidence) -> list[Fact]:
    groups: dict[str, dict[int, _Counter]] = {}
    reporter: int | None = None
    for i, line in enumerate(evidence.lines):
        found = _COUNTERS.search(line.text)
        rank = _rank(evidence, i) if found else None
        if not found or rank is None:
            continue
        if told := _FROM.search(line.text):
            reporter = int(told[1])
        group = _GROUP.search(line.text)
        ranks = groups.setdefault(group[1] if group else "", {})
        counter = _Counter(int(found[1]), int(found[2]), line)
        if rank not in ranks or counter.enqueued > ranks[rank].enqueued:
            ranks[rank] = counter
    made = [fact for ranks in groups.values() if len(ranks) > 1 for fact in _compare(ranks, reporter)]
    return sorted(made, key=lambda fact: fact.name)[:1]  # a group whose ranks differ tells more than one where all wait


def _rank(evidence: LogEvidence, i: int) -> int | None:
    """The rank that line `i` speaks of: named in it before the counters, its writer, or named on the lines just above."""
    line = evidence.lines[i]
    named = _RANK.search(line.text)
    if named:
        return int(named[1])
    if line.rank is not None:
        return line.rank
    for above in reversed(evidence.lines[max(0, i - REACH) : i]):
        named = _RANK.search(above.text) if above.source == line.source else None
        if named:
            return int(named[1])
    return None


def _differing(evidence: LogEvidence) -> list[Fact]:
    """Two ranks whose watchdogs name different operations or sizes under the same sequence number of the same group."""
    seen: dict[tuple[str, str], dict[int, tuple[str, LogLine]]] = {}
    for i, line in enumerate(evidence.lines):
        found = _WORK.search(line.text)
        rank = _rank(evidence, i) if found else None
        if not found or rank is None:
            continue
        group = _GROUP.search(line.text)
        call = f"{found[2]}({found[3]})" if found[3] else found[2]
        seen.setdefault((group[1] if group else "", found[1]), {}).setdefault(rank, (call, line))
    for (_, sequence), calls in seen.items():
        first = min(calls)
        for other in sorted(calls):
            if calls[other][0].lower() != calls[first][0].lower():
                values: dict[str, float | str] = {
                    "differing_sequence": sequence,
                    "first_rank": str(first),
                    "first_call": calls[first][0],
                    "other_rank": str(other),
                    "other_call": calls[other][0],
                }
                return [Fact("collective_differs", calls[other][1], values, other, _who([first, other]))]
    return []


def _compare(ranks: dict[int, _Counter], reporter: int | None) -> list[Fact]:
    most = max(ranks.values(), key=lambda c: c.enqueued).enqueued
    least = min(ranks.values(), key=lambda c: c.enqueued).enqueued
    idle = all(c.completed == c.enqueued for r, c in ranks.items() if r != reporter)
    if most == least and idle and reporter is not None:
        return [_only_one_waits(ranks, reporter)]
    if most == least:
        values: dict[str, float | str] = {"together_enqueued": str(most), "reporting_count": float(len(ranks))}
        return [Fact("collective_together", next(iter(ranks.values())).line, values)]
    behind = sorted(r for r, c in ranks.items() if c.enqueued == least)
    ahead = sorted(r for r, c in ranks.items() if c.enqueued == most)
    if len(behind) > len(ahead) and len(ranks) > 2:
        return [_alone_ahead(ranks, behind, ahead)]
    line = ranks[behind[0]].line
    values = {
        "behind_rank": rank_list(behind),
        "behind_enqueued": str(least),
        "ahead_rank": rank_list(ahead),
        "ahead_enqueued": str(most),
    }
    words = text(
        "rank {behind} has issued {least}, rank {ahead} {most}",
        behind=rank_list(behind),
        least=least,
        ahead=rank_list(ahead),
        most=most,
    )
    blamed = behind
    if (
        len(ranks) == 2
    ):  # the other may as well have made a call too many, the more so if it is one ahead of a rank that waits for nothing
        alone = most == least + 1 and ranks[behind[0]].completed == least
        blamed = [*ahead, *behind] if alone else [*behind, *ahead]
    return [Fact("collective_behind", line, values, behind[0], _who(blamed), words)]


def _only_one_waits(ranks: dict[int, _Counter], reporter: int) -> Fact:
    """One rank timed out in a call; all others that print have completed what they issued and are in none."""
    others = [c for r, c in ranks.items() if r != reporter]
    values: dict[str, float | str] = {
        "odd_rank": str(reporter),
        "common_enqueued": str(others[0].enqueued),
        "common_count": float(len(others)),
    }
    return Fact("collective_only_one_waits", others[0].line, values, reporter, _who([reporter]))


def _alone_ahead(ranks: dict[int, _Counter], behind: list[int], ahead: list[int]) -> Fact:
    """Most ranks agree and a few are further on: these made a call of their own."""
    line = ranks[ahead[0]].line
    values: dict[str, float | str] = {
        "odd_rank": rank_list(ahead),
        "odd_enqueued": str(ranks[ahead[0]].enqueued),
        "common_enqueued": str(ranks[behind[0]].enqueued),
        "common_count": float(len(behind)),
    }
    return Fact("collective_alone_ahead", line, values, ahead[0], _who(ahead))


def _who(ranks: list[int]) -> tuple[Subject, ...]:
    return tuple(Subject("rank", r) for r in ranks[:MOST_NAMED])
