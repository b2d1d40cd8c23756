"""`Freed`: what was given back, then memory of each rank before and after."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import pgettext, text
from ...model import Freed, Maybe, NotAvailable, RankFreed
from ...words.durations import duration
from ...words.ranks import compact_ranks
from ..blocks import Answer, Block, Column, Inline, Items, Line, Span, Table
from ..common import measured, notes_of
from ..notations import durations, sizes
from ..units import size

SHOWN = 20


def view(result: Freed) -> Iterator[Block]:
    ranks = sorted(result.ranks, key=lambda r: (-_given_back(r), r.rank)) if len(result.ranks) > SHOWN else result.ranks
    yield _answer(result)
    cuda = any(not isinstance(r.cuda_reserved_after_bytes, NotAvailable) for r in ranks)
    memory = (text("resident"), *((text("CUDA in use"), text("CUDA reserved")) if cuda else ()))
    columns = [Column("rank"), *(Column(name, right=True, notation=sizes) for name in memory)]
    columns += [Column(text("objects collected"), right=True), Column(text("pause"), right=True, notation=durations)]
    columns += [Column(text("when"), wrap=True)]
    if ranks:
        many = len(ranks) > SHOWN
        caption = text("before → after, the most given back first") if many else text("before → after")
        yield Table(caption, columns, [_row(r, cuda) for r in ranks], SHOWN, pgettext("more", "ranks"))
    if ranks and not cuda:
        yield Line(["CUDA: ", measured(ranks[0].cuda_reserved_after_bytes, size)])
    notes = notes_of((r.rank, r.note) for r in ranks)
    if notes:
        yield Items(notes)


def _answer(result: Freed) -> Answer:
    ranks = result.ranks
    if not ranks:
        return Answer(text("no rank has given memory back"), (), "warn")
    resident, cuda = sum(map(_resident, ranks)), sum(map(_cuda, ranks))
    there = [
        text("{freed} of resident memory", freed=size(resident)) if resident else "",
        text("{freed} of CUDA memory", freed=size(cuda)) if cuda else "",
    ]
    freed = pgettext("list", " and ").join(filter(None, there))
    words = text("{freed} given back", freed=freed) if freed else text("no memory was given back")
    gradients, left = _gradients(result)
    about = [compact_ranks([r.rank for r in ranks])]
    return Answer(words + gradients, about, "warn" if left else "good" if freed else "plain")


def _gradients(result: Freed) -> tuple[str, bool]:
    """What became of gradients that were to be dropped; and whether some were left."""
    if not result.zero_grad:
        return "", False
    left = [r.rank for r in result.ranks if not r.gradients_dropped]
    if not left:
        return text("; gradients dropped"), False
    if len(left) == len(result.ranks):
        return text("; gradients were left"), True
    return text("; gradients were left on {where}", where=compact_ranks(left)), True


def _row(r: RankFreed, cuda: bool) -> list[Inline]:
    cells: list[Inline] = [Span(str(r.rank), "strong"), _change(r.rss_before_bytes, r.rss_after_bytes)]
    if cuda:
        cells.append(_change(r.cuda_allocated_before_bytes, r.cuda_allocated_after_bytes))
        cells.append(_change(r.cuda_reserved_before_bytes, r.cuda_reserved_after_bytes))
    return [*cells, f"{r.objects:,}", measured(r.took_s, duration), r.at]


def _change(before: Maybe[int], after: Maybe[int]) -> Inline:
    if isinstance(before, NotAvailable) or isinstance(after, NotAvailable):
        return measured(before if isinstance(before, NotAvailable) else after, size)
    return [measured(before, size), " → ", measured(after, size)]


def _given_back(r: RankFreed) -> int:
    return _resident(r) + _cuda(r)


def _resident(r: RankFreed) -> int:
    return _less(r.rss_before_bytes, r.rss_after_bytes)


def _cuda(r: RankFreed) -> int:
    return _less(r.cuda_reserved_before_bytes, r.cuda_reserved_after_bytes)


def _less(before: Maybe[int], after: Maybe[int]) -> int:
    """What was given back; resident memory may also grow meanwhile."""
    if isinstance(before, NotAvailable) or isinstance(after, NotAvailable):
        return 0
    return max(0, before - after)
