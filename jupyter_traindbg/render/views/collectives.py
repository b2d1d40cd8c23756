"""`Collectives`: ranks by process groups, how far each has come and what it waits in; ranks alike share a row, the odd ones first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from ...model import Collective, Collectives, Group, Maybe, NotAvailable, RankCollectives
from ..blocks import Block, Column, Fold, Inline, Items, Line, Span, Table
from ..collective_rows import DONE, RankRow, families_of, family_of, family_of_group, identity, row_of
from ..common import DASH, measured, notes_of
from ..grouping import compact_ranks, group_by
from ..units import count, duration, plural

FAMILIES = 5
"""Columns of groups in the matrix; the others are in the table of groups."""
SHOWN, RANK_ROWS, NUMBERS = 16, 300, 8
HEADING = 24


def view(result: Collectives) -> Iterator[Block]:
    ranks = sorted(result.ranks, key=lambda r: r.rank)
    if not ranks:
        yield Line("no record of collectives", title=True)
        return
    rows = [row_of(rank) for rank in ranks]
    families = families_of(ranks)
    yield Line(_title(result, ranks), title=True)
    if families:
        yield _matrix(rows, families, _blamed(result))
        yield _groups(ranks, families)
        yield from _numbers(ranks)
    else:
        yield Line("no process groups")
    if len(rows) > 1 and len({r.key for r in rows}) > 1:
        yield Fold("the same by rank", [_by_rank(rows)])
    yield from _notes(result, ranks)


def _title(result: Collectives, ranks: Sequence[RankCollectives]) -> str:
    source = "" if all(r.source == "agent" for r in ranks) else " · from dumps"
    groups = len({identity(g) for r in ranks for g in r.groups})
    who = compact_ranks([r.rank for r in ranks])
    return f"collectives of {who} · {plural(groups, 'process group')} · {duration(result.taken_s)}{source}"


def _blamed(result: Collectives) -> set[str]:
    return {who for finding in result.findings for who in finding.who}


# --- the matrix ----------------------------------------------------------------------------------------------------


def _matrix(rows: Sequence[RankRow], families: Sequence[str], blamed: set[str]) -> Table:
    folded = group_by(rows, lambda r: r.key)
    folded.sort(key=lambda same: _interest(same, blamed))
    shown = families[:FAMILIES]
    columns = [Column("ranks"), *(Column(_short(family), right=True) for family in shown)]
    columns += [Column("waits in", wrap=True), Column("for", right=True), Column("at", wrap=True)]
    caption = "Last issued / last completed on each group" + (
        f" ({len(families) - FAMILIES} more below)" if len(families) > FAMILIES else ""
    )
    cells = [
        [
            _who(same, blamed),
            *(_progress(same[0], family) for family in shown),
            _waits(same[0]),
            _for(same),
            _at(same[0].place),
        ]
        for same in folded
    ]
    return Table(caption, columns, cells, SHOWN, "groups of ranks")


def _short(family: str) -> str:
    return family if len(family) <= HEADING else f"{family[: HEADING - 1]}…"


def _interest(same: Sequence[RankRow], blamed: set[str]) -> tuple[bool, bool, int, int]:
    """Who is to blame first, then who does not wait while others do, then the smaller group."""
    first = same[0]
    return f"rank {first.rank.rank}" not in blamed, first.pending is not None, len(same), first.rank.rank


def _who(same: Sequence[RankRow], blamed: set[str]) -> Span:
    bad = any(f"rank {r.rank.rank}" in blamed for r in same)
    return Span(compact_ranks([r.rank.rank for r in same]), "bad" if bad else "strong")


def _progress(row: RankRow, family: str) -> Inline:
    if family not in row.progress:
        return DASH
    issued, completed = row.progress[family]
    return f"{'?' if issued is None else issued} / {'?' if completed is None else completed}"


def _waits(row: RankRow) -> Inline:
    call = row.pending
    if call is None:
        return DASH
    family = family_of(row.rank, call.group)
    peer = "" if call.peer is None else f" {'from' if call.op == 'recv' else 'to'} rank {call.peer}"
    state = ", begun" if call.state == "started" else ""
    return [Span(f"{call.op} #{call.sequence}", "strong"), f"{peer} of {family}{state}"]


def _for(same: Sequence[RankRow]) -> Inline:
    """How long; of ranks that wait alike, the longest."""
    waits: list[Maybe[float]] = [r.rank.waiting_s for r in same if r.pending is not None]
    if not waits:
        return DASH
    known = [w for w in waits if not isinstance(w, NotAvailable) and not math.isnan(w)]
    return duration(max(known)) if known else measured(waits[0], duration)


def _at(place: str | None) -> Inline:
    return DASH if place is None else Span(place, "code")


def _by_rank(rows: Sequence[RankRow]) -> Table:
    columns = [
        Column("rank", right=True),
        Column("pid", right=True),
        Column("waits in", wrap=True),
        Column("at", wrap=True),
    ]
    cells: list[list[Inline]] = [
        [str(r.rank.rank), str(r.rank.pid) if r.rank.pid else DASH, _waits(r), _at(r.place)] for r in rows
    ]
    return Table("Every rank", columns, cells, RANK_ROWS, "ranks")


# --- groups and calls ----------------------------------------------------------------------------------------------


def _groups(ranks: Sequence[RankCollectives], families: Sequence[str]) -> Table:
    found: dict[str, list[tuple[RankCollectives, Group]]] = {family: [] for family in families}
    for rank in ranks:
        for group in rank.groups:
            found[family_of_group(group)].append((rank, group))
    columns = [Column("group", wrap=True), Column("backend"), Column("ranks"), Column("issued", right=True)]
    columns += [Column("completed", right=True), Column("waiting", right=True)]
    return Table("Process groups", columns, [_group_row(f, members) for f, members in found.items()], SHOWN, "groups")


def _group_row(family: str, members: Sequence[tuple[RankCollectives, Group]]) -> list[Inline]:
    groups = {identity(g): g for _, g in members}
    several = f" ({len(groups)} groups)" if len(groups) > 1 else ""
    names = {g.name for _, g in members}
    waiting = {r.rank for r, _ in members if any(c.group in names and c.state != DONE for c in r.calls)}
    return [
        Span(f"{family}{several}", "strong"),
        ", ".join(sorted({g.backend for _, g in members})) or DASH,
        compact_ranks([*{rank for g in groups.values() for rank in g.ranks}] or [r.rank for r, _ in members]),
        _range([g.last_issued for _, g in members]),
        _range([g.last_completed for _, g in members]),
        count(len(waiting)),
    ]


def _range(numbers: Sequence[int | None]) -> Inline:
    """``57``, ``56 - 57``: least and greatest over the ranks."""
    known = [n for n in numbers if n is not None]
    if not known:
        return "?"
    return str(known[0]) if min(known) == max(known) else f"{min(known)} - {max(known)}"


def _numbers(ranks: Sequence[RankCollectives]) -> Iterator[Block]:
    """The last calls, number by number: who issued what, and who has it behind. Of each family the group in which most ranks wait."""
    waiting = Counter((family_of(r, c.group), c.group) for r in ranks for c in r.calls if c.state != DONE)
    shown: set[str] = set()
    for (family, name), _ in waiting.most_common():
        calls = [(r.rank, c) for r in ranks for c in r.calls if c.group == name and not c.p2p]
        if calls and family not in shown and len(shown) < FAMILIES:
            shown.add(family)
            yield Fold(f"the last calls of {family}, number by number", [_calls(family, calls)])


def _calls(family: str, calls: Sequence[tuple[int, Collective]]) -> Table:
    last = set(sorted({c.sequence for _, c in calls})[-NUMBERS:])
    kept = [(rank, c) for rank, c in calls if c.sequence in last]
    folded = group_by(kept, lambda k: (k[1].sequence, k[1].op, _sizes(k[1]), k[1].state, k[1].at))
    folded.sort(key=lambda same: (-same[0][1].sequence, -len(same)))
    columns = [
        Column("number", right=True),
        Column("call"),
        Column("what", wrap=True),
        Column("ranks"),
        Column("state"),
    ]
    columns += [Column("at", wrap=True, spare=True)]
    rows: list[list[Inline]] = [
        [
            f"#{call.sequence}",
            call.op,
            _sizes(call) or DASH,
            compact_ranks([rank for rank, _ in same]),
            Span(call.state, "good" if call.state == DONE else "warn"),
            _at(None if call.at is None else call.at.rpartition("/")[2]),
        ]
        for same in folded
        for call in [same[0][1]]
    ]
    return Table(f"Last calls of {family}", columns, rows, SHOWN, "calls")


def _sizes(call: Collective) -> str:
    """``[1000] Float``, as torch's recorder writes it; several tensors by their number."""
    sizes = call.input_sizes or call.output_sizes
    dtypes = ", ".join(dict.fromkeys(call.dtypes))
    shape = f"[{', '.join(map(str, sizes[0]))}]" if len(sizes) == 1 else plural(len(sizes), "tensor") if sizes else ""
    return f"{shape} {dtypes}".strip()


def _notes(result: Collectives, ranks: Sequence[RankCollectives]) -> Iterator[Block]:
    items: list[Inline] = []
    if result.missing:
        items.append([Span(compact_ranks(result.missing), "warn"), ": no record, and nothing that could be asked"])
    wrapped = [r.rank for r in ranks if r.capacity_reached]
    if wrapped:
        items.append(
            [Span(compact_ranks(wrapped), "strong"), ": the recorder has forgotten older calls (it is a ring)"]
        )
    items += notes_of((r.rank, r.note) for r in ranks)
    if items:
        yield Items(items)
