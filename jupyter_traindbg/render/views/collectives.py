"""`Collectives`: who waits in what, and who is not in it; then how far each has come; ranks alike share a row, the odd ones first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from ...language import counted, pgettext, text
from ...model import Collective, Collectives, Group, Maybe, NotAvailable, RankCollectives
from ...words.durations import duration
from ...words.ranks import compact_ranks, rank_list
from ..blocks import PLACE, Answer, Block, Column, Fold, Inline, Items, Span, Table, Tone, within
from ..collective_rows import (
    DONE,
    RankRow,
    families_of,
    family_of,
    family_of_group,
    family_words,
    identity,
    row_of,
)
from ..common import DASH, measured, notes_of
from ..findings import tone
from ..grouping import group_by
from ..links import placed
from ..notations import durations
from ..units import count

FAMILIES, FOLDS = 3, 5
"""Columns of groups in the matrix (the others are in the table of groups), and groups of which the last calls are listed."""
SHOWN, RANK_ROWS, NUMBERS = 16, 300, 8
HEADING, NAMED = 18, 24
"""Characters for the name of a group in a table, and for the numbers of ranks in the answer."""


def view(result: Collectives) -> Iterator[Block]:
    ranks = sorted(result.ranks, key=lambda r: r.rank)
    rows = [row_of(rank) for rank in ranks]
    families = families_of(ranks)
    yield _answer(result, rows)
    if families:
        yield _matrix(rows, families, _blamed(result))
        yield _groups(ranks, families)
        yield from _numbers(ranks)
    if len(rows) > 1 and len({r.key for r in rows}) > 1:
        yield Fold(text("the same by rank"), [_by_rank(rows)])
    yield from _notes(result, ranks)


# --- the answer -----------------------------------------------------------------------------------------------------


def _answer(result: Collectives, rows: Sequence[RankRow]) -> Answer:
    groups = {identity(g) for r in rows for g in r.rank.groups}
    about = [compact_ranks([r.rank.rank for r in rows])] if rows else []
    if groups:
        about.append(counted("{n:,} process group", "{n:,} process groups", len(groups)))
    if any(r.rank.source != "agent" for r in rows):
        about.append(text("from dumps"))
    waiting = [r for r in rows if r.pending is not None]
    halted = next((f.ranks for f in result.findings[:1] if f.code == "collective_unfinished"), ())
    if halted:
        words, tones = _unfinished(halted)
    else:
        words, tones = _waiting(waiting, rows) if waiting else _nobody_waits(result, rows)
    return Answer(words, [*about, duration(result.taken_s)], tone(result.findings) if result.findings else tones)


def _unfinished(ranks: Sequence[int]) -> tuple[str, Tone]:
    who = compact_ranks(ranks)
    return text("{who}: calls are under way that have ended on the other ranks of their groups", who=who), "bad"


def _waiting(waiting: Sequence[RankRow], rows: Sequence[RankRow]) -> tuple[str, Tone]:
    """The call in which most wait, and which members of its groups are not in it."""
    same, *others = sorted(group_by(waiting, _call), key=len, reverse=True)
    call, for_ = same[0].pending, _for(same)
    assert call is not None
    groups = {identity(g) for r in same for g in r.rank.groups if r.pending is not None and g.name == r.pending.group}
    here = {id(r) for r in same}
    absent = [r for r in rows if id(r) not in here and any(identity(g) in groups for g in r.rank.groups)]
    n, members = len(same), len(same) + len(absent)
    who = pgettext("who waits", "{ranks}", ranks=_named(same))
    if members > 2 and n > 1:
        who = text("all {n:,} ranks", n=n)
        if absent:
            who = text("{n:,} of {members:,} ranks", n=n, members=members)
    name, since = f"{call.op} #{call.sequence}", "" if for_.value is None else for_.text
    family = family_of(same[0].rank, call.group)
    default = family == "default group"
    group = text("the default group") if default else pgettext("a group", "{name}", name=family)
    words = counted(
        "{who} waits in {call} of {group}", "{who} wait in {call} of {group}", n, who=who, call=name, group=group
    )
    if since:
        words += pgettext("a wait", " for {since}", since=since)
    if absent:
        out = _named(absent)
        words += counted("; {out} is not in it", "; {out} are not in it", len(absent), out=out)
    more = sum(map(len, others))
    if more:
        calls = len(others)
        words += counted("; {more:,} in {n:,} other call", "; {more:,} in {n:,} other calls", calls, more=more)
    return words, "info"


def _call(row: RankRow) -> tuple[object, ...]:
    call = row.pending
    assert call is not None
    return family_of(row.rank, call.group), call.sequence, call.op, call.p2p and call.group


def _named(rows: Sequence[RankRow]) -> str:
    ranks = [r.rank.rank for r in rows]
    short = len(rank_list(ranks)) <= NAMED
    return compact_ranks(ranks) if short else counted("{n:,} rank", "{n:,} ranks", len(ranks))


def _nobody_waits(result: Collectives, rows: Sequence[RankRow]) -> tuple[str, Tone]:
    if not rows:
        return text("there is no record of collectives"), "warn"
    if not any(r.rank.groups for r in rows):
        return text("there is no process group on record"), "plain"
    unsure = [r for r in rows if not _all_done(r)]
    if unsure:
        who = _named(unsure)
        return text("nobody is seen to wait, but not all is known of {who}", who=who), "warn"
    words = text("nobody waits: every call on record is completed")
    return words, "warn" if result.missing or result.silent else "good"


def _all_done(row: RankRow) -> bool:
    """Whether nothing that it has issued is still to be completed, as far as its groups tell."""
    return all(g.last_issued is not None and g.last_issued == g.last_completed for g in row.rank.groups)


def _blamed(result: Collectives) -> set[int]:
    return {rank for finding in result.findings for rank in finding.ranks}


# --- the matrix ----------------------------------------------------------------------------------------------------


def _matrix(rows: Sequence[RankRow], families: Sequence[str], blamed: set[int]) -> Table:
    folded = group_by(rows, lambda r: r.key)
    folded.sort(key=lambda same: _interest(same, blamed))
    shown = _telling(rows, families)[:FAMILIES]
    columns = [Column(text("ranks"))]
    columns += [Column(_short(family), right=True, spare=i > 0) for i, family in enumerate(shown)]
    columns += [Column(text("waits in"), wrap=True), Column(text("for"), right=True, notation=durations)]
    told = any(row.at is not None for row in rows)
    columns += [Column(pgettext("a place", "at"), wrap=True)] if told else []
    caption = text("Last issued / last completed on each group")
    if more := len(families[FAMILIES:]):
        caption = text("Last issued / last completed on each group ({more} more below)", more=more)
    cells = [
        [
            _who(same, blamed),
            *(_progress(same[0], family) for family in shown),
            _waits(same[0]),
            _for(same),
            *([_at(same[0].at)] if told else []),
        ]
        for same in folded
    ]
    return Table(caption, columns, cells, SHOWN, pgettext("more", "groups of ranks"))


def _telling(rows: Sequence[RankRow], families: Sequence[str]) -> list[str]:
    """Those on which most ranks have something to end come first; where there is nothing, they stay in their order."""
    open_ = Counter(
        family for row in rows for family, (issued, completed) in row.progress.items() if issued != completed
    )
    return sorted(families, key=lambda family: -open_[family])


def _short(family: str) -> str:
    name = family_words(family)
    return name if len(name) <= HEADING else f"{name[: HEADING - 1]}…"


def _interest(same: Sequence[RankRow], blamed: set[int]) -> tuple[bool, bool, int, int]:
    """Who is to blame first, then who does not wait while others do, then the smaller group."""
    first = same[0]
    return first.rank.rank not in blamed, first.pending is not None, len(same), first.rank.rank


def _who(same: Sequence[RankRow], blamed: set[int]) -> Span:
    bad = any(r.rank.rank in blamed for r in same)
    return Span(compact_ranks([r.rank.rank for r in same]), "bad" if bad else "strong")


def _progress(row: RankRow, family: str) -> Inline:
    if family not in row.progress:
        return DASH
    issued, completed = row.progress[family]
    words = f"{'?' if issued is None else issued} / {'?' if completed is None else completed}"
    return Span(words, value=issued)


def _waits(row: RankRow) -> Inline:
    call = row.pending
    if call is None:
        return DASH
    name = f"{call.op} #{call.sequence}"
    family, peer = family_words(family_of(row.rank, call.group)), call.peer
    if peer is None:
        words = text("{call} of {family}", call=PLACE, family=family)
    elif call.op == "recv":
        words = text("{call} from rank {peer} of {family}", call=PLACE, peer=peer, family=family)
    else:
        words = text("{call} to rank {peer} of {family}", call=PLACE, peer=peer, family=family)
    begun = [text(", begun")] if call.state == "started" else []
    return [*within(words, Span(name, "strong")), *begun]


def _for(same: Sequence[RankRow]) -> Span:
    """How long; of ranks that wait alike, the longest."""
    waits: list[Maybe[float]] = [r.rank.waiting_s for r in same if r.pending is not None]
    if not waits:
        return DASH
    known = [w for w in waits if not isinstance(w, NotAvailable) and not math.isnan(w)]
    return measured(max(known) if known else waits[0], duration)


def _at(place: str | None) -> Inline:
    return DASH if place is None else placed(place)


def _by_rank(rows: Sequence[RankRow]) -> Table:
    columns = [
        Column("rank", right=True),
        Column("pid", right=True),
        Column(text("waits in"), wrap=True),
        Column(pgettext("a place", "at"), wrap=True),
    ]
    cells: list[list[Inline]] = [
        [str(r.rank.rank), str(r.rank.pid) if r.rank.pid else DASH, _waits(r), _at(r.at)] for r in rows
    ]
    return Table(text("Every rank"), columns, cells, RANK_ROWS, pgettext("more", "ranks"))


# --- groups and calls ----------------------------------------------------------------------------------------------


def _groups(ranks: Sequence[RankCollectives], families: Sequence[str]) -> Table:
    found: dict[str, list[tuple[RankCollectives, Group]]] = {family: [] for family in families}
    for rank in ranks:
        for group in rank.groups:
            found[family_of_group(group)].append((rank, group))
    columns = [Column(text("group"), wrap=True), Column(text("backend")), Column(text("ranks"))]
    counts = (pgettext("calls", "issued"), pgettext("calls", "completed"), pgettext("ranks", "waiting"))
    columns += [Column(name, right=True) for name in counts]
    rows = [_group_row(f, members) for f, members in found.items()]
    return Table(text("Process groups"), columns, rows, SHOWN, pgettext("more", "groups"))


def _group_row(family: str, members: Sequence[tuple[RankCollectives, Group]]) -> list[Inline]:
    groups = {identity(g): g for _, g in members}
    several = text(" ({n} groups)", n=len(groups)) if len(groups) > 1 else ""
    names = {g.name for _, g in members}
    waiting = {r.rank for r, _ in members if any(c.group in names and c.state != DONE for c in r.calls)}
    return [
        Span(f"{family_words(family)}{several}", "strong"),
        ", ".join(sorted({g.backend for _, g in members if g.backend})) or DASH,
        _ranks_of(members),
        _range([g.last_issued for _, g in members]),
        _range([g.last_completed for _, g in members]),
        count(len(waiting)),
    ]


def _ranks_of(members: Sequence[tuple[RankCollectives, Group]]) -> str:
    """Of a group that met in a store of its own the ranks of this job, as others are in it."""
    known = compact_ranks(rank.rank for rank, _ in members)
    met_at = next((g.met_at for _, g in members if g.met_at), "")
    if met_at:
        return text("{ranks}, and whoever else met at {store}", ranks=known, store=met_at)
    told = {rank for _, g in members for rank in g.ranks}
    return compact_ranks(told) if told else known


def _range(numbers: Sequence[int | None]) -> Inline:
    """``57``, ``56 - 57``: least and greatest over the ranks."""
    known = [n for n in numbers if n is not None]
    if not known:
        return "?"
    low, high = min(known), max(known)
    return Span(str(low) if low == high else f"{low} - {high}", value=low)


def _numbers(ranks: Sequence[RankCollectives]) -> Iterator[Block]:
    """The last calls, number by number: who issued what, and who has it behind. Of each family the group in which most ranks wait."""
    waiting = Counter((family_of(r, c.group), c.group) for r in ranks for c in r.calls if c.state != DONE)
    shown: set[str] = set()
    for (family, name), _ in waiting.most_common():
        calls = [(r.rank, c) for r in ranks for c in r.calls if c.group == name and not c.p2p]
        if calls and family not in shown and len(shown) < FOLDS:
            shown.add(family)
            summary = text("the last calls of {family}, number by number", family=family_words(family))
            yield Fold(summary, [_calls(family, calls)])


def _calls(family: str, calls: Sequence[tuple[int, Collective]]) -> Table:
    last = set(sorted({c.sequence for _, c in calls})[-NUMBERS:])
    kept = [(rank, c) for rank, c in calls if c.sequence in last]
    folded = group_by(kept, lambda k: (k[1].sequence, k[1].op, _sizes(k[1]), k[1].state, k[1].at))
    folded.sort(key=lambda same: (-same[0][1].sequence, -len(same)))
    columns = [
        Column(pgettext("a call", "number"), right=True),
        Column(text("call")),
        Column(pgettext("a call", "what"), wrap=True),
        Column(text("ranks")),
        Column(text("state")),
    ]
    columns += [Column(pgettext("a place", "at"), wrap=True, spare=True)]
    rows: list[list[Inline]] = [
        [
            f"#{call.sequence}",
            call.op,
            _sizes(call) or DASH,
            compact_ranks([rank for rank, _ in same]),
            Span(_state(call.state), "good" if call.state == DONE else "warn"),
            _at(call.at),
        ]
        for same in folded
        for call in [same[0][1]]
    ]
    caption = text("Last calls of {family}", family=family_words(family))
    return Table(caption, columns, rows, SHOWN, pgettext("more", "calls"))


def _state(state: str) -> str:
    said = {
        "issued": pgettext("calls", "issued"),
        "started": pgettext("calls", "started"),
        DONE: pgettext("calls", "completed"),
    }
    return said.get(state, state)


def _sizes(call: Collective) -> str:
    """``[1000] Float``, as torch's recorder writes it; several tensors by their number."""
    sizes = call.input_sizes or call.output_sizes
    dtypes = ", ".join(dict.fromkeys(call.dtypes))
    shape = f"[{', '.join(map(str, sizes[0]))}]" if len(sizes) == 1 else ""
    if len(sizes) > 1:
        shape = text("{n:,} tensors", n=len(sizes))
    return f"{shape} {dtypes}".strip()


def _notes(result: Collectives, ranks: Sequence[RankCollectives]) -> Iterator[Block]:
    items: list[Inline] = []
    if result.missing:
        items.append(
            [Span(compact_ranks(result.missing), "warn"), text(": no record, and nothing that could be asked")]
        )
    wrapped = [r.rank for r in ranks if r.capacity_reached and not r.pending_only]
    pending = [r.rank for r in ranks if r.pending_only]
    if wrapped:
        items.append(
            [Span(compact_ranks(wrapped), "strong"), text(": the recorder has forgotten older calls (it is a ring)")]
        )
    if pending:
        items.append([Span(compact_ranks(pending), "strong"), text(": the dump has only the calls that are not done")])
    items += notes_of((r.rank, r.note) for r in ranks)
    if items:
        yield Items(items)
