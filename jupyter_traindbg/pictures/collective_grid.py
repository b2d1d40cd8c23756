"""Ranks by calls, as a grid: what each rank of a process group did under each number. Pure functions."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..frames.whose import shortened
from ..model import Collective, Collectives, Group, NotAvailable, RankCollectives
from ..render.collective_rows import DONE, family_of_group, identity
from ..render.grouping import group_by

__all__ = ["Cell", "Grid", "Panel", "Row", "grid"]

MOST_PANELS, NUMBERS, BEFORE = 3, 24, 4
"""`BEFORE` the call that waits, where many more were issued behind it."""
RANKS_APART, MOST_ROWS = 12, 16
"""So many ranks have a row each; so many rows are shown."""
_DIFFERENT = ("collective_mismatch", "collective_shape_mismatch")
_OWN_NUMBER = "#"
"""Begins the name of a group that only a number within one process tells from others."""


class Cell(enum.Enum):
    """What a rank did under a number."""

    COMPLETED = "completed"
    WAITS = "waits"
    DIFFERENT = "different"
    ABSENT = "absent"
    LATER = "later"
    """Not issued either, since this rank is still in an earlier call, or has left one out."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Row:
    """Ranks that did the same. ``instead``: the call that was another one than that of the others; ``recorded``: there is a record of them.

    ``waited_s`` is that of the one that waits longest, ``place`` where they are now; None and empty where not known, or not the same.
    """

    ranks: Sequence[int]
    cells: Sequence[Cell]
    blamed: bool
    recorded: bool
    place: str = ""
    waited_s: float | None = None
    instead: Collective | None = None


@dataclass(frozen=True)
class Panel:
    """One process group. ``calls``: what was issued under each number, by most; None where nobody's record has it."""

    family: str
    name: str
    ranks: Sequence[int]
    numbers: Sequence[int]
    calls: Sequence[Collective | None]
    rows: Sequence[Row]
    more: Sequence[int] = ()
    """Ranks that there was no room for."""

    def _with(self, cell: Cell) -> int | None:
        at = [i for i in range(len(self.numbers)) if any(row.cells[i] is cell for row in self.rows)]
        return at[0] if at else None

    @property
    def telling(self) -> int | None:
        """Which of its columns matters: where calls differ, else the first that somebody waits in, else the newest."""
        for cell in (Cell.DIFFERENT, Cell.WAITS):
            if (found := self._with(cell)) is not None:
                return found
        return len(self.numbers) - 1 if self.numbers else None

    def ranks_at(self, column: int, cell: Cell) -> list[int]:
        return sorted(rank for row in self.rows if row.cells[column] is cell for rank in row.ranks)


@dataclass(frozen=True)
class Grid:
    """``more``: so many further groups in which somebody waits."""

    panels: Sequence[Panel]
    more: int = 0


@dataclass
class _Joined:
    """A group over all ranks that have it."""

    group: Group
    members: dict[int, Group] = field(default_factory=dict)
    calls: dict[int, dict[int, list[Collective]]] = field(default_factory=lambda: defaultdict(dict))
    """By number, then by rank."""

    @functools.cached_property
    def open(self) -> list[int]:
        """The numbers of the calls that are not done."""
        return sorted(n for n, of in self.calls.items() if any(c.state != DONE for calls in of.values() for c in calls))

    def waiting(self) -> int:
        ends = self.open
        return len(self.calls[ends[0]]) if ends else 0


def grid(result: Collectives) -> Grid:
    """The groups in which somebody waits, those of whom the verdict blames first; where nobody waits, the one that all are in."""
    joined = _join(result)
    blamed = {rank for finding in result.findings for rank in finding.ranks}
    waiting = [group for group in joined if group.open]
    waiting.sort(key=lambda g: (-len(blamed & set(g.members)), -g.waiting(), len(g.members)))
    shown = waiting or sorted((g for g in joined if g.calls), key=lambda g: -len(g.members))[:1]
    accused = {rank for finding in result.findings if finding.code in _DIFFERENT for rank in finding.ranks}
    drawn = [_panel(group, result, blamed, accused) for group in shown[:MOST_PANELS]]
    return Grid(drawn, len(shown) - len(drawn))


def _join(result: Collectives) -> list[_Joined]:
    found: dict[Hashable, _Joined] = {}
    named: dict[str, list[_Joined]] = defaultdict(list)
    for record in sorted(
        result.ranks, key=lambda r: not any(g.ranks for g in r.groups)
    ):  # those who know the ranks first
        own = {}
        for group in record.groups:
            known = [j for j in named[group.name] if not group.ranks and record.rank in j.group.ranks]
            key = (identity(group), record.rank if group.name.startswith(_OWN_NUMBER) else None)
            joined = known[0] if known else found.get(key)
            if joined is None:
                joined = found[key] = _Joined(group)
                named[group.name].append(joined)
            joined.members[record.rank] = group
            own[group.name] = joined
        for call in record.calls:
            if not call.p2p and call.group in own:
                own[call.group].calls[call.sequence].setdefault(record.rank, []).append(call)
    return list(found.values())


def _panel(joined: _Joined, result: Collectives, blamed: set[int], accused: set[int]) -> Panel:
    ranks = sorted(joined.group.ranks) or sorted({*joined.members, *result.missing})
    numbers = _numbers(joined)
    records = {record.rank: record for record in result.ranks}
    usual = [_usual(joined.calls.get(n, {}), accused) for n in numbers]
    unknown = tuple(Cell.UNKNOWN for _ in numbers)
    cells = dict.fromkeys(ranks, unknown)
    for rank in set(ranks) & set(records):
        against = usual if rank in accused else [None for _ in numbers]
        own = [_cell(joined, records[rank], n, call) for n, call in zip(numbers, against, strict=True)]
        cells[rank] = tuple(_first_only(own))
    folded = [[rank] for rank in ranks]
    if len(ranks) > RANKS_APART:
        folded = group_by(ranks, lambda rank: (cells[rank], rank in blamed))
        folded.sort(key=lambda alike: (alike[0] not in blamed, len(alike), alike[0]))
    rows = [_row(alike, cells[alike[0]], records, blamed=alike[0] in blamed) for alike in folded[:MOST_ROWS]]
    rows = [dataclasses.replace(row, instead=_instead(joined, numbers, row)) for row in rows]
    more = sorted(rank for alike in folded[MOST_ROWS:] for rank in alike)
    return Panel(family_of_group(joined.group), joined.group.name, ranks, numbers, usual, rows, more)


def _row(alike: Sequence[int], cells: Sequence[Cell], records: Mapping[int, RankCollectives], *, blamed: bool) -> Row:
    own = [records[rank] for rank in alike if rank in records]
    places = {shortened(record.where or "") for record in own}
    waits = [w for record in own if not isinstance(w := record.waiting_s, NotAvailable)]
    waited_s = max(waits, default=None) if Cell.WAITS in cells else None
    return Row(alike, cells, blamed, bool(own), places.pop() if len(places) == 1 else "", waited_s)


def _instead(joined: _Joined, numbers: Sequence[int], row: Row) -> Collective | None:
    at = [n for n, cell in zip(numbers, row.cells, strict=True) if cell is Cell.DIFFERENT]
    return joined.calls[at[0]][row.ranks[0]][0] if at else None


def _first_only(cells: Sequence[Cell]) -> Iterator[Cell]:
    """A rank that has left out a call, or waits in one, cannot have issued the later ones: that says nothing."""
    held = False
    for cell in cells:
        yield Cell.LATER if held and cell is Cell.ABSENT else cell
        held = held or cell in (Cell.ABSENT, Cell.WAITS, Cell.DIFFERENT)


def _numbers(joined: _Joined) -> list[int]:
    """The last ones; but the first that waits is among them, however many were issued behind it."""
    newest, oldest = max(joined.calls, default=0), min(joined.calls, default=1)
    first = newest - NUMBERS + 1
    if joined.open:
        first = min(first, joined.open[0] - BEFORE)
    first = max(first, oldest)
    return list(range(first, min(newest, first + NUMBERS - 1) + 1))


def _usual(issued: dict[int, list[Collective]], accused: set[int]) -> Collective | None:
    """What most issued of those whom nobody accuses of something else."""
    calls = {rank: own for rank, own in issued.items() if rank not in accused} or issued
    most = Counter(_signature(own[0]) for own in calls.values()).most_common(1)
    return next((own[0] for own in calls.values() if _signature(own[0]) == most[0][0]), None)


def _signature(call: Collective) -> Hashable:
    return call.op, tuple(call.dtypes), tuple(tuple(size) for size in call.input_sizes or call.output_sizes)


def _cell(joined: _Joined, record: RankCollectives, number: int, usual: Collective | None) -> Cell:
    """`usual`: what others issued, for a rank that is accused of having issued something else."""
    own = joined.calls.get(number, {}).get(record.rank)
    if own:
        waits = any(call.state != DONE for call in own)
        if usual is not None and (own[0].op != usual.op or (waits and _signature(own[0]) != _signature(usual))):
            return Cell.DIFFERENT
        return Cell.WAITS if waits else Cell.COMPLETED
    group = joined.members.get(record.rank)
    issued, completed = (group.last_issued, group.last_completed) if group else (None, None)
    if completed is not None and number <= completed:
        return Cell.COMPLETED  # and forgotten by its recorder, which is a ring
    left = group is None and not record.capacity_reached and bool(joined.open) and number >= joined.open[0]
    return Cell.ABSENT if left or (issued is not None and number > issued) else Cell.UNKNOWN
