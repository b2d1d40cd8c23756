"""The records of all ranks side by side: of each process group, what each of its ranks issued under which number, and who waits in what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...model import Collective, Group, NotAvailable, RankCollectives

__all__ = ["Joined", "Member", "Wait", "join", "longest_s", "settles_in_s", "waits"]

UNNAMED = "#"
"""Begins the name of a group that only a number within one process tells from others: not to be compared between ranks."""
LEAST_PATIENCE_S = 1.0
TIMES_THE_USUAL = 2.0
SETTLED_S = 0.05
RECENT = 100
"""So many of the last gaps between calls tell what is usual."""


@dataclass(frozen=True)
class Member:
    """One rank in one group. ``calls``: by number, in the order of issue (several under one number where they were coalesced)."""

    rank: int
    last_issued: int | None
    calls: dict[int, list[Collective]]
    p2p: list[Collective]
    left: bool = False
    """It had a record but not this group: it was destroyed here, or never used."""
    last_completed: int | None = None

    @property
    def pending(self) -> Collective | None:
        """The oldest collective that is not done."""
        return next((c for calls in self.calls.values() for c in calls if c.state != "completed"), None)

    def has_issued(self, sequence: int) -> bool | None:
        """Whether it has issued that collective; None: its record does not tell."""
        return None if self.last_issued is None else self.last_issued >= sequence

    def has_done(self, sequence: int) -> bool:
        """Whether that collective is known to have ended here. A record has every call that has not."""
        oldest = self.pending
        if oldest is not None:
            return oldest.sequence > sequence
        return self.last_completed is not None and self.last_completed >= sequence

    def last(self) -> Collective | None:
        """The last collective in its record."""
        return self.calls[max(self.calls)][-1] if self.calls else None


@dataclass(frozen=True)
class Joined:
    """A group over all ranks. ``ranks`` belong to it (``guessed``: at least those do); those without a record are not in ``members``."""

    name: str
    description: str
    ranks: tuple[int, ...]
    members: dict[int, Member] = field(default_factory=dict)
    guessed: bool = False
    backend: str = ""

    @property
    def absent(self) -> list[int]:
        return [rank for rank in self.ranks if rank not in self.members]


@dataclass(frozen=True)
class Wait:
    """A rank in a call that is not done. ``waited_s`` is None where the record has no times."""

    rank: int
    group: Joined
    call: Collective
    waited_s: float | None
    odd: bool


def join(ranks: Iterable[RankCollectives], world_size: int) -> list[Joined]:
    """The groups of all ranks, in the order of first appearance. Linear in the number of calls."""
    ranks = list(ranks)
    members_of = _MembersOf(ranks, world_size)
    about: dict[tuple[str, int], tuple[Group, tuple[int, ...]]] = {}
    members: dict[tuple[str, int], dict[int, Member]] = {}
    for record in ranks:
        by_group = _by_group(record.calls)
        for group in record.groups:
            if group.name.startswith(UNNAMED) or group.met_at:
                continue  # who else is in it no other record tells
            belonging = members_of(group, record.rank)
            key = group.name, id(belonging)
            about.setdefault(key, (group, belonging))
            members.setdefault(key, {})[record.rank] = _member(record.rank, group, by_group.get(group.name, []))
    recorded = {r.rank: r for r in ranks}
    return [_joined(*about[key], found, recorded) for key, found in members.items()]


class _MembersOf:
    """Who belongs to a group, by whoever says so: of one name there may be several, with different ranks. Equal answers are one object,
    so that ten thousand ranks of a group of ten thousand are compared once each.
    """

    def __init__(self, ranks: Sequence[RankCollectives], world_size: int) -> None:
        self._same: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._seen: dict[int, tuple[int, ...]] = {}
        self._everybody = self._one(tuple(range(world_size)))
        self._nobody = self._one(())
        self._told: dict[tuple[str, int], tuple[int, ...]] = {}
        told: set[tuple[str, int]] = set()
        for group in (group for record in ranks for group in record.groups if group.ranks):
            found = self._sorted(group.ranks)
            if (group.name, id(found)) not in told:
                told.add((group.name, id(found)))
                self._told.update({(group.name, rank): found for rank in found})

    def __call__(self, group: Group, rank: int) -> tuple[int, ...]:
        if group.ranks:
            return self._sorted(group.ranks)
        everybody = self._everybody if group.description == "default_pg" else self._nobody
        return self._told.get((group.name, rank), everybody)

    def _sorted(self, ranks: Sequence[int]) -> tuple[int, ...]:
        found = self._seen.get(id(ranks))
        if found is None:
            found = self._seen[id(ranks)] = self._one(tuple(sorted(ranks)))
        return found

    def _one(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        return self._same.setdefault(ranks, ranks)


def _by_group(calls: Sequence[Collective]) -> dict[str, list[Collective]]:
    found: dict[str, list[Collective]] = {}
    for call in calls:
        found.setdefault(call.group, []).append(call)
    return found


def _member(rank: int, group: Group, calls: Sequence[Collective]) -> Member:
    numbered: dict[int, list[Collective]] = {}
    for call in calls:
        if not call.p2p:
            numbered.setdefault(call.sequence, []).append(call)
    p2p = [c for c in calls if c.p2p]
    return Member(rank, group.last_issued, dict(sorted(numbered.items())), p2p, last_completed=group.last_completed)


def _joined(
    group: Group, belonging: tuple[int, ...], members: dict[int, Member], recorded: dict[int, RankCollectives]
) -> Joined:
    for rank in belonging:
        if rank not in members and rank in recorded:
            issued = None if recorded[rank].capacity_reached else 0
            members[rank] = Member(rank, issued, {}, [], left=True)
    ranks = belonging or tuple(sorted(members))
    own = dict(sorted(members.items()))
    return Joined(group.name, group.description, ranks, own, guessed=not belonging, backend=group.backend)


# --- who waits -----------------------------------------------------------------------------------------------------


def waits(joined: Iterable[Joined], ranks: Iterable[RankCollectives]) -> list[Wait]:
    """Who waits in which collective, or send or receive: the oldest of each rank and group. ``odd``: for longer than is usual between two
    calls of that rank, or nobody knows for how long.
    """
    by_rank = {r.rank: r for r in ranks}
    found = []
    for group in joined:
        for member in group.members.values():
            record = by_rank[member.rank]
            pending = [member.pending, next((c for c in member.p2p if c.state != "completed"), None)]
            for call in pending:
                if call is not None:
                    waited = _waited_s(record, call)
                    found.append(Wait(member.rank, group, call, waited, waited is None or waited >= patience_s(record)))
    return found


def longest_s(waits: Iterable[Wait]) -> float | None:
    """How long the one of `waits` has lasted that began first; None where no record has times."""
    return max((w.waited_s for w in waits if w.waited_s is not None), default=None)


def settles_in_s(ranks: Iterable[RankCollectives], within_s: float) -> float | None:
    """In how many seconds all those calls will have waited for longer than is usual of which that can be told `within_s`; None: of none."""
    left = [patience_s(r) - r.waiting_s for r in ranks if not isinstance(r.waiting_s, NotAvailable)]
    soon = [s for s in left if 0 < s <= within_s]
    return max(soon) + SETTLED_S if soon else None


def patience_s(record: RankCollectives) -> float:
    """How long a call of this rank may wait before that is odd: twice what is usual between two calls, one odd pause left aside."""
    times = sorted(t for c in record.calls if not isinstance(t := c.issued_s, NotAvailable))[-RECENT:]
    gaps = sorted(b - a for a, b in pairwise(times))
    return max(LEAST_PATIENCE_S, TIMES_THE_USUAL * gaps[-2]) if len(gaps) > 1 else LEAST_PATIENCE_S


def _waited_s(record: RankCollectives, call: Collective) -> float | None:
    """`RankCollectives.waiting_s` is that of its oldest call."""
    if isinstance(record.waiting_s, NotAvailable) or isinstance(call.issued_s, NotAvailable):
        return None
    oldest = min(t for c in record.calls if c.state != "completed" and not isinstance(t := c.issued_s, NotAvailable))
    return max(0.0, record.waiting_s - (call.issued_s - oldest))
