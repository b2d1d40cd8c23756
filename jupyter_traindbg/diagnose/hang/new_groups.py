"""Ranks that do not make the same process groups in the same order.

``new_group`` is to be called by every rank, member or not: torch tells groups apart by counting the calls (distributed_c10d.py,
`_process_group_name`). Where ranks count differently, members meet under different names, or others under theirs, and wait for ever. With
``use_local_synchronization=True`` only members call it, and two ranks that are in two groups can wait for each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...language import text
from ...model import Finding, Making, rank_subjects
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .words import alike, place, short_place

__all__ = ["out_of_order", "rule"]

REFERENCE = "https://docs.pytorch.org/docs/stable/distributed.html#groups"
Members = tuple[int, ...]


@dataclass(frozen=True)
class Maker:
    """A rank that waits in the making of a group."""

    view: View
    name: str
    members: Members


def rule(case: Case) -> list[Hit]:
    """One verdict at most, on a job that stands still, or of which some ranks make a group that can never come about."""
    found = out_of_order(case) or _not_called(case)
    return [] if found is None else [found]


def out_of_order(case: Case) -> Hit | None:
    """Ranks that make their groups in different orders, or different groups. Of those that others take for another one it is known at once,
    whatever the rest does: a rank in a group of its own trains on alone.
    """
    makers = _makers(case)
    if not case.overdue:
        return _known_otherwise(case, makers, {m.name for m in makers} | _waited_on(case))
    return _under_other_names(case, makers) or _known_otherwise(case, makers) or _each_another(case, makers)


def _makers(case: Case) -> list[Maker]:
    found = [(v, v.evidence.making) for v in case.waiting]
    return [Maker(v, making.name, tuple(sorted(making.ranks))) for v, making in found if isinstance(making, Making)]


def _ranks(makers: Sequence[Maker]) -> list[int]:
    return [m.view.rank for m in makers]


# --- one number, different groups ----------------------------------------------------------------------------------


def _known_otherwise(case: Case, makers: Sequence[Maker], among: Collection[str] | None = None) -> Hit | None:
    """The first number, of those `among` if these are given, under which ranks have made, or are making, groups with different members. Not
    for a job that waits for something else: such groups may serve.
    """
    sides_of = _by_number(case, makers)
    differ = {n: sides for n, sides in sides_of.items() if len(sides) > 1 and (among is None or str(n) in among)}
    if not differ or (not makers and _waited_on(case).isdisjoint(map(str, differ))):
        return None
    number = min(differ)
    told = _known_as(differ[number])[:3]
    return _hit(
        case,
        _at_odds({**_left_alone(case, makers), **differ}),
        [*(rank for sides in differ.values() for ranks in sides.values() for rank in ranks), *_ranks(makers)],
        text(
            "The ranks do not make the same process groups in the same order: process group {number} is {told}",
            number=number,
            told=text(", but ").join(told),
        ),
        [_making(same) for same in alike(makers, lambda m: (m.name, m.members))],
    )


def _left_alone(case: Case, makers: Sequence[Maker]) -> Mapping[int, Mapping[Members, Sequence[int]]]:
    """By the number of each group that is in the making its makers, and as strangers its members that wait for something else by now."""
    elsewhere = {v.rank for v in case.waiting} - set(_ranks(makers))
    groups = alike([m for m in makers if m.name.isdigit()], lambda m: (m.name, m.members))
    return {
        int(same[0].name): {same[0].members: _ranks(same), (): sorted(elsewhere.intersection(same[0].members))}
        for same in groups
    }


def _waited_on(case: Case) -> set[str]:
    return {v.pending.group for v in case.waiting if v.pending is not None}


def _by_number(case: Case, makers: Sequence[Maker]) -> Mapping[int, Mapping[Members, Sequence[int]]]:
    """By the number of a group the members that it has, and by these the ranks for which it has them. No members: for ranks whose group of
    that number is one that they are none of, and that some of the others take for a member.
    """
    known: dict[int, dict[int, Members]] = {}
    made = [(v.rank, g.name, tuple(sorted(g.ranks))) for v in case.views if v.collectives for g in v.collectives.groups]
    for rank, name, members in [*made, *((m.view.rank, m.name, m.members) for m in makers)]:
        if name.isdigit() and members:
            known.setdefault(rank, {})[int(name)] = members
    found: dict[int, dict[Members, list[int]]] = {}
    for rank, groups in known.items():
        for number, members in groups.items():
            found.setdefault(number, {}).setdefault(members, []).append(rank)
    latest = {rank: max(groups) for rank, groups in known.items()}
    for number in sorted({int(m.name) for m in makers if m.name.isdigit()}):
        expected = {rank for members in found.get(number, ()) for rank in members}
        if strangers := sorted(r for r in expected if number not in known.get(r, ()) and latest.get(r, 0) > number):
            found[number][()] = strangers
    return found


def _known_as(sides: Mapping[Members, Sequence[int]]) -> list[str]:
    """Each side in words; a stranger is told where it fits to none of the others."""
    told = [
        text("that of {members} for {ranks}", members=ranks_words(members), ranks=ranks_words(ranks))
        for members, ranks in sides.items()
        if members
    ]
    alone = [rank for rank in sides.get((), ()) if all(rank in members for members in sides if members)]
    if alone:
        told.append(text("another one for {alone}", alone=ranks_words(alone)))
    return told


def _at_odds(differ: Mapping[int, Mapping[Members, Sequence[int]]]) -> list[int]:
    """The ranks that contradict most others, until the rest agree; all of them where they contradict each other alike."""
    blamed: set[int] = set()
    while True:
        against: Counter[int] = Counter()
        for sides in differ.values():
            left = {members: set(ranks) - blamed for members, ranks in sides.items()}
            strangers = left.pop((), set())
            known = sum(map(len, left.values()))
            for members, ranks in left.items():
                unlike = strangers.intersection(members)
                against.update(dict.fromkeys(ranks, known - len(ranks) + len(unlike)))
                against.update(dict.fromkeys(unlike, len(ranks)))
        most = max(against.values(), default=0)
        if not most:
            return sorted(blamed)
        blamed |= {rank for rank, count in against.items() if count == most}


# --- the same group, different names -------------------------------------------------------------------------------


def _under_other_names(case: Case, makers: Sequence[Maker]) -> Hit | None:
    """Ranks that all make the same group, of which some have made more groups before than others."""
    names = alike(makers, lambda m: m.name)
    if len(names) < 2 or len({m.members for m in makers}) > 1:
        return None
    return _counted_otherwise(case, makers[0].members, names)


def _counted_otherwise(case: Case, members: Members, names: Sequence[Sequence[Maker]]) -> Hit:
    """Blames the fewest ranks; of as many on each side those with fewer groups: a call that only members make is left out by the rest."""
    numbered = all(ms[0].name.isdigit() for ms in names)
    ordered = sorted(names, key=lambda ms: int(ms[0].name)) if numbered else names
    odd, most = min(ordered, key=len), max(ordered, key=len)
    how = text("other process groups")
    if numbered:
        more = int(odd[0].name) > int(most[0].name)
        how = text("more process groups") if more else text("fewer process groups")
    blamed = _ranks(odd)
    verb = "has" if len(blamed) == 1 else "have"
    return _hit(
        case,
        blamed,
        [rank for ms in names for rank in _ranks(ms)],
        text(
            "{blamed} {verb} made {how} than the others: that of {members} never comes about",
            blamed=ranks_words(blamed),
            verb=verb,
            how=how,
            members=ranks_words(members),
        ),
        [_making(ms) for ms in names],
    )


# --- each another group --------------------------------------------------------------------------------------------


def _each_another(case: Case, makers: Sequence[Maker]) -> Hit | None:
    """Members of the one group make another one first, whose members wait for them."""
    groups = alike(makers, lambda m: (m.name, m.members))
    for i, one in enumerate(groups):
        for other in groups[i + 1 :]:
            if _needs(one, other) and _needs(other, one):
                return _crossed(case, one, other)
    return None


def _needs(these: Sequence[Maker], those: Sequence[Maker]) -> bool:
    return not set(these[0].members).isdisjoint(_ranks(those))


def _crossed(case: Case, one: Sequence[Maker], other: Sequence[Maker]) -> Hit:
    sides = [_ranks(one), _ranks(other)]
    return _hit(
        case,
        _fewest(sides),
        [*sides[0], *sides[1]],
        text("{making}, {making2}: each waits for the others", making=_making(one), making2=_making(other)),
        [_making(one), _making(other)],
    )


# --- others do not make it -----------------------------------------------------------------------------------------


def _not_called(case: Case) -> Hit | None:
    """Members of a group wait in a collective, while others make it."""
    for makers in alike(_makers(case) if case.overdue else [], lambda m: (m.name, m.members)):
        others = set(makers[0].members) - set(_ranks(makers))
        late = [v for v in case.views if v.rank in others and not _has(v, makers[0].name)]
        if late and all(v.role == "waiting" and v.now.kind == "collective" for v in late):
            return _without(case, makers, late)
    return None


def _has(view: View, group: str) -> bool:
    return view.collectives is not None and any(g.name == group for g in view.collectives.groups)


def _without(case: Case, makers: Sequence[Maker], late: Sequence[View]) -> Hit:
    making, others = _ranks(makers), [v.rank for v in late]
    verb = "waits" if len(others) == 1 else "wait"
    return _hit(
        case,
        making if len(making) <= len(others) else others,
        [*making, *others],
        text(
            "{making}, but {others} {verb} in a collective instead",
            making=_making(makers),
            others=ranks_words(others),
            verb=verb,
        ),
        [_making(makers)],
        code="collective_mismatch",
    )


# --- findings ------------------------------------------------------------------------------------------------------


def _making(makers: Sequence[Maker]) -> str:
    """``ranks 0, 1 wait for process group 2, of ranks 0-2, at train.py:17 main``."""
    name, members = makers[0].name, ranks_words(makers[0].members)
    which, at = ranks_words(_ranks(makers)), short_place(makers[0].view.now.frame)
    verb = "waits" if len(makers) == 1 else "wait"
    group = text("process group {name}, of {members},", name=name, members=members)
    if not name.isdigit():
        group = text("a process group of {members}", members=members)
    return text("{which} {verb} for {group} at {at}", which=which, verb=verb, group=group, at=at)


def _fewest(sides: Sequence[Sequence[int]]) -> list[int]:
    """The ranks of the smallest side; all where the sides are equal."""
    fewest = min(map(len, sides))
    even = all(len(side) == fewest for side in sides)
    return [rank for side in sides if even or len(side) == fewest for rank in side]


def _hit(
    case: Case,
    blamed: Sequence[int],
    ranks: Sequence[int],
    title: str,
    evidence: Sequence[str] = (),
    *,
    code: str = "collective_order",
) -> Hit:
    makers = _makers(case)
    at = _at(case, makers if code == "collective_order" else [], blamed)
    finding = Finding(
        code,
        "critical",
        title[:1].upper() + title[1:],
        rank_subjects(blamed),
        place(at.now.frame),
        [*evidence, *case.others_wait(_ranks(makers))],
        _cause(local=not any(m.name.isdigit() for m in makers)),
        [
            text(
                "Make all groups in a loop that is the same on every rank, or by init_device_mesh with one "
                "shape: no `if` on the rank around it, no order that comes from the rank or from a set."
            ),
        ],
        reference=REFERENCE,
    )
    return Hit(finding, sorted(set(ranks)))


def _at(case: Case, makers: Sequence[Maker], blamed: Sequence[int]) -> View:
    """Who shows the place: a rank to blame that makes a group, else any that does, as who is out of order may be past it."""
    own = [m.view for m in makers if m.view.rank in blamed]
    return next(iter([*own, *(m.view for m in makers)]), case.by_rank[blamed[0]])


def _cause(*, local: bool) -> str:
    if local:
        return text(
            "With use_local_synchronization=True a group is made by its members alone, and the call returns "
            "when all of them have come: ranks that make the groups they share in different orders wait for "
            "each other."
        )
    return text(
        "Every rank has to call new_group for each group, also for those of which it is no member, and "
        "in the same order: torch tells groups apart by counting the calls, and ranks that count "
        "differently do not find each other."
    )
