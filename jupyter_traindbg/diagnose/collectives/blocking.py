"""Who waits for whom: from the calls that some ranks wait in and others have not issued to the ranks that hold everybody up."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...model import Collective, Finding, RankCollectives
from . import order
from .habit import left_out
from .joined import Wait
from .not_issued import Blocked, Hold, finding

__all__ = ["Case", "blocked", "findings"]

MOST_ASKED, LATEST = 64, 32
"""Of so many ranks that lack a call the habits are looked at, and so many of their latest calls."""


@dataclass(frozen=True)
class Case:
    """Everything that the ranks' waits tell. ``where`` are the users' frames; ``past``: see `findings`.
    ``patient``: nobody is accused by waits that are not odd.
    """

    waits: Sequence[Wait]
    records: Mapping[int, RankCollectives]
    where: Mapping[int, str]
    blocked: Sequence[Blocked]
    past: Collection[tuple[int, int]]
    patient: bool

    @cached_property
    def waiting(self) -> frozenset[int]:
        return frozenset(w.rank for w in self.waits)

    def overdue(self, one: Blocked) -> bool:
        """Ranks are asked one after the other: what has waited for a moment only may be served by now."""
        return not self.patient or any(w.odd for w in one.waits)

    def roots(self, one: Blocked) -> tuple[int, ...]:
        """Of those whom `one` lacks, the ranks that wait for nobody themselves; where there is none, those without a record."""
        free = tuple(rank for rank in one.lacking if rank not in self.waiting)
        return free or (() if one.lacking else one.absent)


def blocked(waits: Iterable[Wait], missing: Sequence[int]) -> list[Blocked]:
    """Of each group the first call that somebody waits in and somebody else has not issued; of sends and receives every such call.

    Ranks of which there is no record (`missing`) may belong to a group whose ranks nobody tells.
    """
    by_group: dict[int, list[Wait]] = {}
    for wait in waits:
        by_group.setdefault(id(wait.group), []).append(wait)
    found: list[Blocked] = []
    for own in by_group.values():
        collective = [w for w in own if not w.call.p2p]
        calls = [b for n in sorted({w.call.sequence for w in collective}) if (b := _lacking(collective, n, missing))]
        first = next((b for b in calls if b.lacking or b.absent), calls[0] if calls else None)
        found += [first] if first is not None else []
        found += [b for w in own if w.call.p2p and (b := _without_peer(w)) is not None]
    return found


def _lacking(waits: Sequence[Wait], sequence: int, missing: Sequence[int]) -> Blocked | None:
    inside = tuple(w for w in waits if w.call.sequence == sequence)
    group = inside[0].group
    here = {w.rank for w in inside}  # a dump may count otherwise than its calls say
    lacking = tuple(r for r, member in group.members.items() if member.has_issued(sequence) is False and r not in here)
    absent = tuple(missing if group.guessed else group.absent)
    # Of a group whose ranks nobody tells, the one that is missing may never have left a trace.
    return Blocked(group, inside, lacking, absent) if lacking or absent or group.guessed else None


def _without_peer(wait: Wait) -> Blocked | None:
    """A send whose receiver has not come, or a receive whose sender has not."""
    peer = wait.call.peer
    if peer is None:
        return None
    member = wait.group.members.get(peer)
    if member is None:
        return Blocked(wait.group, (wait,), (), (peer,))
    counterpart = "recv" if wait.call.op == "send" else "send"
    comes = any(c.op == counterpart and c.peer == wait.rank and c.state != "completed" for c in member.p2p)
    return None if comes else Blocked(wait.group, (wait,), (peer,), ())


def findings(case: Case) -> list[Finding]:
    """One for each set of ranks that hold others up, who holds up most first, and none for a part of such a set; where everybody waits for
    somebody, the circle.
    """
    by_roots: dict[tuple[int, ...], list[Blocked]] = {}
    for one in case.blocked:
        roots = case.roots(one)
        if roots and case.overdue(one):
            by_roots.setdefault(roots, []).append(one)
    if not by_roots:
        circle = _circle(case)
        return _of_circle(case, circle) if circle and all(map(case.overdue, circle)) else []
    direct = {id(b) for own in by_roots.values() for b in own}
    indirect = [b for b in case.blocked if id(b) not in direct]
    ranked = _without_parts(sorted(by_roots.items(), key=lambda item: -_held_up(item[1])))
    return [
        finding(Hold(roots, own, indirect if i == 0 else []), case.records, case.where)
        for i, (roots, own) in enumerate(ranked)
    ]


def _without_parts(
    ranked: Sequence[tuple[tuple[int, ...], list[Blocked]]],
) -> list[tuple[tuple[int, ...], list[Blocked]]]:
    """What some of a set's ranks hold up is one matter with what all of them do."""
    kept: list[tuple[tuple[int, ...], list[Blocked]]] = []
    for roots, own in ranked:
        whole = next((held for whose, held in kept if set(roots) <= set(whose)), None)
        if whole is None:
            kept.append((roots, list(own)))
        else:
            whole.extend(own)
    return kept


def _of_circle(case: Case, circle: Sequence[Blocked]) -> list[Finding]:
    """Who is past a call for which the others wait, and waits in a later one, has left it out: an exchange with a peer, or, where one
    rank alone did not do what it had always done, a collective.
    """
    fewest_first = sorted((b for b in case.blocked if not b.call.p2p), key=lambda b: len(b.lacking))
    asked = itertools.islice(((b, rank) for b in fewest_first for rank in b.lacking), MOST_ASKED)
    gone = [(b, rank) for b, rank in asked if _gone_past(case.records[rank], b.call) or _is_past(case, rank, b)]
    if len({rank for _, rank in gone}) == 1:
        skipped, rank = min(gone, key=lambda pair: pair[0].issued_s)
        others = [b for b in case.blocked if b is not skipped]
        return [finding(Hold([rank], [skipped], others, sure=False), case.records, case.where)]
    collective = {w.rank for w in case.waits if not w.call.p2p}
    passed = next((b for b in circle if b.call.p2p and set(b.lacking) <= collective), None)
    if passed is not None:
        others = [b for b in case.blocked if b is not passed]
        return [finding(Hold(passed.lacking, [passed], others, sure=False), case.records, case.where)]
    return [order.finding(circle, case.records, case.where)]


def _gone_past(record: RankCollectives, call: Collective) -> bool:
    """Whether a rank that has not issued `call` has issued others where that was usual, and more than one: it is not merely late, and has
    not merely exchanged it for the next.
    """
    made = [(c.group, c.op) for c in record.calls if not c.p2p]
    since = max((i + 1 for i, (group, _) in enumerate(made) if group == call.group), default=0)
    at = left_out(made, (call.group, call.op), max(since, len(made) - LATEST))
    return at is not None and at < len(made) - 1


def _is_past(case: Case, rank: int, one: Blocked) -> bool:
    """Whether a rank is past the line of all who wait, by the source."""
    return all((rank, wait.rank) in case.past for wait in one.waits)


def _held_up(blocked_calls: Sequence[Blocked]) -> int:
    return len({w.rank for b in blocked_calls for w in b.waits})


def _circle(case: Case) -> list[Blocked]:
    """Blocked calls each of which waits for a rank that waits in the next one, and the last for the first; empty where there is no such.

    Depth-first search in the graph of blocked calls, without recursion.
    """
    inside: dict[int, list[Blocked]] = {}
    for one in case.blocked:
        for wait in one.waits:
            inside.setdefault(wait.rank, []).append(one)
    done: set[int] = set()
    for start in case.blocked:
        path: list[Blocked] = []
        on_path: dict[int, int] = {}
        todo: list[tuple[Blocked, int]] = [(start, 0)]
        while todo:
            one, depth = todo.pop()
            for left in path[depth:]:
                done.add(id(left))
                on_path.pop(id(left), None)
            del path[depth:]
            if id(one) in done:
                continue
            on_path[id(one)] = len(path)
            path.append(one)
            for following in (b for rank in one.lacking for b in inside.get(rank, ()) if b is not one):
                if id(following) in on_path:
                    return path[on_path[id(following)] :]
                todo.append((following, len(path)))
        done.update(map(id, path))
    return []
