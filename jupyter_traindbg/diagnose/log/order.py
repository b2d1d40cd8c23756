"""Root against consequence: which of the failures that a log shows came first and explains the others.

A stranger must be able to say why a finding came first, so this is a list of rules in a fixed order and no score:

1. what the run got over comes after what it did not get over, and what only slows or spoils it after what ends it (severity);
2. a sure root before a sure symptom, before a wrapper (printed last, says nothing itself), before what is only likely (weight < 0.4);
3. surer signals first, in three coarse classes of weight;
4. the exception within before the ones that it was wrapped in;
5. what happened first, by the clock where all have one, else by the line.

Before that, consequences are folded into their roots: what a family is known to cause (``explains``) if the root is not later or has the
stronger role; symptoms and wrappers in the same chain of exceptions; and wrappers altogether, as soon as anything else is known.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...model import LogError, LogEvidence, LogLine
from .family import Family
from .matching import LIKELY, Hit
from .progress import ON_PURPOSE

__all__ = ["Candidate", "Chains", "candidates", "ordered"]

SURE = 0.7
MOST_LINES = 2000
UNKNOWN = "uncaught_exception"
"""The family of what no family knows: it gives way to all others."""
EPOCH_S = 86400.0 * 3650
"""Times below are times of day."""
_FRAME = re.compile(r"\W*File \"")
_TIERS = {"root": 0, "symptom": 1, "wrapper": 2}
_UNSURE = 3
_SEVERITIES = {"critical": 0, "warning": 1, "info": 2}

Position = tuple[float, ...]
Key = tuple[int, int, int, int, Position, float]
"""What the order goes by, rule by rule; of two signals at one line, the surer one."""


@dataclass(frozen=True)
class Link:
    """One exception of a chain: how deep it lies within, and where the whole chain starts."""

    error: LogError
    depth: int
    start: LogLine


class Chains:
    """Which exception each line belongs to."""

    def __init__(self, errors: Sequence[LogError]) -> None:
        self._at: dict[tuple[int, int], list[Link]] = defaultdict(list)
        for outermost in errors:
            links = list(_links(outermost))
            start = min((e.line for e, _ in links), key=lambda line: line.number)
            for error, depth in links:
                first = error.line.number
                for number in range(first, min(error.last_number, first + MOST_LINES) + 1):
                    self._at[error.line.source, number].append(Link(error, depth, start))

    def link(self, line: LogLine | None) -> Link | None:
        """The innermost exception that `line` belongs to; of several writers', that of its own."""
        links = self._at.get((line.source, line.number), []) if line else []
        return max(links, key=lambda k: (line is not None and k.error.line.who == line.who, k.depth), default=None)

    def on_purpose(self, line: LogLine | None) -> bool:
        """Whether `line` is of an exception by which somebody ended the run."""
        links = self._at.get((line.source, line.number), []) if line else []
        return any(k.error.type.rpartition(".")[2] in ON_PURPOSE for k in links)


def _links(outermost: LogError) -> Iterator[tuple[LogError, int]]:
    error: LogError | None = outermost
    depth = 0
    while error is not None and depth < 50:
        yield error, depth
        error, depth = error.inner, depth + 1


@dataclass
class Candidate:
    """A family that this log shows: its hits, the decisive one first, and what was folded into it."""

    family: Family
    hits: Sequence[Hit]
    """All but hints, best first."""
    hints: Sequence[Hit]
    key: Key
    link: Link | None
    folded: list[Candidate] = field(default_factory=list)

    @property
    def decisive(self) -> Hit:
        return self.hits[0]

    @property
    def survived(self) -> bool:
        return self.decisive.survived

    @property
    def tier(self) -> int:
        return self.key[2]

    @property
    def position(self) -> Position:
        return self.key[4]


class _Positions:
    """Puts hits in the order of time; see rules 4 and 5."""

    def __init__(self, evidence: LogEvidence, hits: Sequence[Hit], chains: Chains) -> None:
        self.chains = chains
        self._timed: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for line in evidence.lines:
            if line.time_s is not None:
                self._timed[line.source].append((line.number, line.time_s))
        times = [self._time(h.line) for h in hits if h.line is not None]
        kinds = {None if t is None else t > EPOCH_S for t in times}
        self._by_clock = len({h.line.source for h in hits if h.line is not None}) > 1 and kinds in ({True}, {False})

    def _time(self, line: LogLine) -> float | None:
        if line.time_s is not None:
            return line.time_s
        timed = self._timed.get(line.source, [])
        at = bisect_right(timed, (line.number, float("inf"))) - 1
        return timed[at][1] if at >= 0 else None

    def of(self, hit: Hit) -> Position:
        """Smaller is earlier. What has no line (a trend over all of the log) counts as late."""
        if hit.line is None:
            return (float("inf"),)
        link = self.chains.link(hit.line)
        start = link.start if link else hit.line
        depth = link.depth if link else 0
        clock = self._time(start) if self._by_clock else None
        return (clock or 0.0, start.number, -depth, hit.line.number)


def candidates(evidence: LogEvidence, hits: Sequence[Hit]) -> list[Candidate]:
    """One for each family that more than hints speak for."""
    chains = Chains(evidence.errors)
    by_family: dict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        if hit.signal.role != "wrapper" or not chains.on_purpose(hit.line):
            by_family[hit.family.code].append(hit)
    if UNKNOWN in by_family:
        by_family[UNKNOWN] = _unknown_to_all(hits, chains)
    positions = _Positions(evidence, hits, chains)
    made = []
    for of_family in by_family.values():
        ranked = sorted(((_key(h, positions.of(h)), n) for n, h in enumerate(of_family) if h.signal.role != "hint"))
        if ranked:
            telling = [of_family[n] for _, n in ranked]
            hints = [h for h in of_family if h.signal.role == "hint"]
            made.append(Candidate(telling[0].family, telling, hints, ranked[0][0], chains.link(telling[0].line)))
    return made


def _unknown_to_all(hits: Sequence[Hit], chains: Chains) -> list[Hit]:
    """The exceptions that nothing but their being exceptions speaks for: no family knows a line of their chain."""
    known = {id(k.start) for h in hits if _says_what(h) and (k := chains.link(h.line))}
    exceptions = [h for h in hits if h.family.code == UNKNOWN]
    return [h for h in exceptions if not ((k := chains.link(h.line)) and id(k.start) in known)]


def _says_what(hit: Hit) -> bool:
    """Whether a hit in an exception explains it: any but hints, and but a mere frame of the traceback."""
    if hit.family.code == UNKNOWN or hit.signal.role == "hint" or hit.line is None:
        return False
    return hit.signal.role != "wrapper" or not _FRAME.match(hit.line.text)


def _key(hit: Hit, position: Position) -> Key:
    weight = hit.signal.weight
    tier = _TIERS[hit.signal.role] if weight >= LIKELY else _UNSURE
    return (
        int(hit.survived),
        _SEVERITIES[hit.family.severity],
        tier,
        0 if weight >= SURE else 1 if weight >= LIKELY else 2,
        position,
        -weight,
    )


def ordered(found: Sequence[Candidate]) -> list[Candidate]:
    """Root cause first, each with its consequences folded into it."""
    best_first = sorted(found, key=lambda c: c.key)
    parent: dict[str, Candidate] = {}
    for root in best_first:
        for other in best_first:
            if (
                other is not root
                and other.family.code not in parent
                and not _under(root, other, parent)
                and _causes(root, other)
            ):
                parent[other.family.code] = root
    standing = [c for c in best_first if c.family.code not in parent]
    for late in standing[1:]:
        if _adds_nothing(late, standing[0]):
            parent[late.family.code] = standing[0]
    for child in best_first:
        if child.family.code in parent:
            _top(child, parent).folded.append(child)
    return [c for c in standing if c.family.code not in parent]


def _adds_nothing(late: Candidate, first: Candidate) -> bool:
    """Wrappers, as soon as anything else is known; an exception that no family knows, unless another rank had it before."""
    if late.family.code == UNKNOWN:
        wrote, wrote_first = (c.decisive.line.who if c.decisive.line else "" for c in (late, first))
        return first.tier == _TIERS["wrapper"] or first.position <= late.position or wrote == wrote_first
    return late.tier == _TIERS["wrapper"] and not (late.survived and late.decisive.signal.blame)


def _under(candidate: Candidate, other: Candidate, parent: dict[str, Candidate]) -> bool:
    """Whether `candidate` has been folded into `other` already: nothing explains what explains it."""
    seen = candidate
    while seen.family.code in parent:
        seen = parent[seen.family.code]
        if seen is other:
            return True
    return False


def _top(child: Candidate, parent: dict[str, Candidate]) -> Candidate:
    while child.family.code in parent:
        child = parent[child.family.code]
    return child


def _by_victims(other: Candidate, root: Candidate) -> bool:
    """Whether `other` is but what ranks say that waited or lost a connection, and `root` a failure of one that is none of them.

    Then it does not matter which of them printed first: standard error of several processes is in no order.
    """
    told = other.decisive.signal
    if (
        told.blame
        or root.decisive.signal.role != "root"
        or _SEVERITIES[root.family.severity] > _SEVERITIES[other.family.severity]
    ):
        return False
    known_for_it = root.family.code == UNKNOWN and other.family.code in root.family.explains
    wrote = root.decisive.line.who if root.decisive.line else ""
    victims = {h.line.who for h in other.hits if h.line}
    return (told.role == "wrapper" or known_for_it) and bool(wrote) and wrote not in victims


def _causes(root: Candidate, other: Candidate) -> bool:
    if root.survived and not other.survived:
        return False
    if _by_victims(other, root):
        return True
    if other.family.code in root.family.explains:
        mine, its = _TIERS[root.decisive.signal.role], _TIERS[other.decisive.signal.role]
        return (mine < its and root.tier != _UNSURE) or (mine <= its and root.position <= other.position)
    same_chain = root.link is not None and other.link is not None and root.link.start is other.link.start
    return same_chain and root.tier < other.tier and root.position <= other.position
