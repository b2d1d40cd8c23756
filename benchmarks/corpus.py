"""How often the first finding names the root failure of a real log, beside the guides' own keyword index; and false alarms on healthy logs.

--set FILE: JSON lines with "log" and "class" (and "also", "rank_or_place"); the development set by default. --hold-out takes each family's
file of knowledge away in turn. --wrong prints every log that was judged otherwise than it is labelled.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from common import REPO, Row, arguments, print_table
from confidence import Claim, add_option, claims_of, print_confidence
from guide_keywords import by_keywords

from jupyter_traindbg.diagnose.log import judge, knowledge
from jupyter_traindbg.model import Finding, LogEvidence
from jupyter_traindbg.outside.logs import read_text

DEVELOPMENT = REPO.parent / "shared" / "corpus" / "failures.jsonl"
HEALTHY = "healthy"
GOAL = 0.95
_RANK = re.compile(r"(?i)\brank\s*(\d+)")


@dataclass(frozen=True)
class Labelled:
    """One log of the set."""

    id: str
    cls: str
    also: tuple[str, ...]
    place: str
    log: str
    source: str

    @property
    def several_lines(self) -> bool:
        return len([line for line in self.log.splitlines() if line.strip()]) >= 3

    @property
    def rank(self) -> str | None:
        """The rank to blame, where the label names one."""
        named = _RANK.search(self.place)
        return f"rank {int(named[1])}" if named else None

    @cached_property
    def evidence(self) -> LogEvidence:
        return read_text(self.log, anchors=knowledge.anchors())


@dataclass(frozen=True)
class Answer:
    """What was said of one log."""

    labelled: Labelled
    codes: tuple[str, ...]
    who: tuple[str, ...] = ()
    why: str = ""
    findings: Sequence[Mapping[str, str]] = ()
    """The code and the confidence of each."""

    def claims(self) -> Iterator[Claim]:
        """Of a log that failed the first finding alone: what else is in it, the label does not tell."""
        healthy = self.labelled.cls == HEALTHY
        labelled = not healthy and self.codes[:1] and self.codes[0] in (self.labelled.cls, *self.labelled.also)
        return claims_of(self.labelled.id, self.findings, bool(labelled), self.codes if healthy else ())

    def right(self, first: int) -> bool:
        if self.labelled.cls == HEALTHY:
            return not self.codes
        return self.labelled.cls in self.codes[:first]


def load(path: Path) -> list[Labelled]:
    """The set in `path`."""
    with path.open(encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
    return [
        Labelled(
            str(r.get("id", n)), r["class"], tuple(r.get("also") or ()), r.get("rank_or_place") or "", r["log"], str(r.get("source", ""))
        )
        for n, r in enumerate(rows, 1)
    ]  # fmt: skip


def ours(labelled: Labelled, families: Mapping[str, Any] | None = None) -> Answer:
    found: Sequence[Finding] = judge(labelled.evidence, families=families).findings
    first = found[0] if found else None
    sure = [{"code": f.code, "confidence": f.confidence} for f in found]
    why = f"{first.title} | {first.evidence[0] if first.evidence else ''}" if first else ""
    return Answer(labelled, tuple(f.code for f in found), tuple(first.who) if first else (), why, sure)


def theirs(labelled: Labelled) -> Answer:
    return Answer(labelled, tuple(by_keywords(labelled.log)))


# --- the tables ----------------------------------------------------------------------------------------------------


def share(answers: Sequence[Answer], first: int = 1) -> str:
    if not answers:
        return "-"
    right = sum(a.right(first) for a in answers)
    return f"{right}/{len(answers)} = {right / len(answers):.1%}"


def rows(mine: Sequence[Answer], other: Sequence[Answer]) -> Iterator[Row]:
    def row(what: str, choose: Callable[[Answer], bool], first: int = 1, goal: float | None = None) -> Row:
        ours, theirs = [a for a in mine if choose(a)], [a for a in other if choose(a)]
        met = None if goal is None or not ours else sum(a.right(first) for a in ours) >= goal * len(ours)
        return Row(what, share(ours, first), share(theirs, first), "", "" if goal is None else f">= {goal:.0%}", met)

    for cls in sorted({a.labelled.cls for a in mine} - {HEALTHY}):
        yield row(f"{cls}, top 1", lambda a, cls=cls: a.labelled.cls == cls)  # type: ignore[misc]
    failed = lambda a: a.labelled.cls != HEALTHY  # noqa: E731
    yield row("failures, top 1", failed, 1, GOAL)
    yield row("failures, top 3", failed, 3)
    yield row("failures of >= 3 lines, top 1", lambda a: failed(a) and a.labelled.several_lines)
    yield row("failures of >= 3 lines, top 3", lambda a: failed(a) and a.labelled.several_lines, 3)
    yield row("healthy logs without a finding", lambda a: not failed(a), 1, 1.0)
    named = [a for a in mine if failed(a) and a.labelled.rank]
    right = sum(a.labelled.rank in a.who[:1] for a in named)
    yield Row("rank to blame, where the label names one", f"{right}/{len(named)}", "0 (names none)")


def wrong(answers: Sequence[Answer]) -> Iterator[str]:
    for a in answers:
        if not a.right(1):
            also = f" (also {', '.join(a.labelled.also)})" if a.labelled.also else ""
            yield f"{a.labelled.id}: {a.labelled.cls}{also}; got {', '.join(a.codes) or 'nothing'}: {a.why[:200]}"
        elif a.labelled.cls != HEALTHY and a.labelled.rank and a.labelled.rank not in a.who[:1]:
            yield f"{a.labelled.id}: to blame is {a.labelled.rank}; got {', '.join(a.who) or 'nobody'}"


def held_out(labelled: Sequence[Labelled]) -> tuple[list[Row], list[str]]:
    """Each family's file away in turn: the accuracy on the logs of the others, and what its own logs then give."""
    known = knowledge.families()
    out, lines = [], []
    total: dict[bool, list[Answer]] = defaultdict(list)
    for code in sorted({x.cls for x in labelled} & known.keys()):
        fewer = {c: f for c, f in known.items() if c != code}
        answers = [ours(x, fewer) for x in labelled]
        rest = [a for a in answers if a.labelled.cls not in (code, HEALTHY)]
        own = [a for a in answers if a.labelled.cls == code]
        total[True] += rest
        total[False] += own
        given = Counter(a.codes[0] if a.codes else "nothing" for a in own)
        alarms = sum(bool(a.codes) for a in answers if a.labelled.cls == HEALTHY)
        out.append(
            Row(f"without {code}", share(rest), str(alarms), ", ".join(f"{c} {n}" for c, n in given.most_common()))
        )
    honest = Counter(
        "an exception, named as it is" if a.codes[:1] == ("uncaught_exception",)
        else "nothing" if not a.codes
        else "a failure that the label names beside" if a.codes[0] in a.labelled.also
        else "another failure, wrongly"
        for a in total[False]
    )  # fmt: skip
    lines.append(
        f"The rest, all families in turn: {share(total[True])}. Logs of the family that was away: {dict(honest)}."
    )
    return out, lines


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--set", type=Path, default=DEVELOPMENT, metavar="FILE", help="JSON lines of labelled logs")
    parser.add_argument("--only", nargs="+", metavar="CLASS", help="only the logs of these classes")
    parser.add_argument("--wrong", action="store_true", help="print what was judged otherwise than it is labelled")
    parser.add_argument("--hold-out", action="store_true", help="take each family's file away in turn")
    add_option(parser)
    args = parser.parse_args()
    if not args.set.is_file():
        sys.exit(f"{args.set} is not there; name a set of labelled logs with --set FILE")
    labelled = [x for x in load(args.set) if not args.only or x.cls in args.only]
    if args.quick:
        labelled = labelled[::8]
    knowledge.families()
    began = time.perf_counter()
    mine = [ours(x) for x in labelled]
    took = time.perf_counter() - began
    size = sum(len(x.log.encode()) for x in labelled)
    notes = [
        f"{len(labelled)} logs, {size / 1e6:.2f} MB read and judged in {took:.2f} s: {size / 1e6 / took:.1f} MB/s, "
        f"{took / max(1, len(labelled)) * 1e3:.1f} ms a log (of large logs: logs.py)"
    ]
    head = ("what", "ours", "the guides' keywords", "", "goal")
    print_table(
        f"The first finding against the label, {args.set.name}",
        head,
        list(rows(mine, [theirs(x) for x in labelled])),
        notes,
    )
    print_confidence([claim for answer in mine for claim in answer.claims()], args.claims)
    if args.hold_out:
        table, lines = held_out(labelled)
        print_table(
            "A family's knowledge away",
            ("what", "the others, top 1", "false alarms", "its own logs give", ""),
            table,
            lines,
        )
    if args.wrong:
        print("\n".join(["", *wrong(mine)]))


if __name__ == "__main__":
    main()
