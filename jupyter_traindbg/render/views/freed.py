"""`Freed`: memory of each rank before and after; of many ranks the sums and the extremes."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Freed, Maybe, NotAvailable, RankFreed
from ..blocks import Block, Column, Inline, Items, Line, Span, Table
from ..common import measured, notes_of
from ..grouping import compact_ranks
from ..units import duration, size

SHOWN = 20


def view(result: Freed) -> Iterator[Block]:
    ranks = result.ranks
    freed = sum(_less(r.rss_before_bytes, r.rss_after_bytes) for r in ranks)
    cuda = [
        _less(r.cuda_reserved_before_bytes, r.cuda_reserved_after_bytes) for r in ranks if r.cuda_reserved_after_bytes
    ]
    words = f"given back by {compact_ranks([r.rank for r in ranks])}: {size(freed)} of resident memory"
    if cuda:
        words += f", {size(sum(cuda))} of CUDA memory"
    yield Line([Span(words, "strong"), _gradients(result)], title=True)
    columns = [Column("rank"), Column("resident", right=True)]
    columns += [Column("CUDA in use", right=True), Column("CUDA reserved", right=True)] if cuda else []
    columns += [Column("objects collected", right=True), Column("pause", right=True), Column("when", wrap=True)]
    if ranks:
        yield Table("before → after", columns, [_row(r, bool(cuda)) for r in ranks], SHOWN, "ranks")
    if ranks and not cuda:
        yield Line(["CUDA: ", measured(ranks[0].cuda_reserved_after_bytes, size)])
    notes = notes_of((r.rank, r.note) for r in ranks)
    if notes:
        yield Items(notes)


def _gradients(result: Freed) -> str:
    dropped = [r.rank for r in result.ranks if r.gradients_dropped]
    if not dropped:
        return " · gradients were left" if result.zero_grad else ""
    return " · gradients dropped" + (f" on {compact_ranks(dropped)}" if len(dropped) < len(result.ranks) else "")


def _row(r: RankFreed, cuda: bool) -> list[Inline]:
    cells: list[Inline] = [Span(str(r.rank), "strong"), _change(r.rss_before_bytes, r.rss_after_bytes)]
    if cuda:
        cells.append(_change(r.cuda_allocated_before_bytes, r.cuda_allocated_after_bytes))
        cells.append(_change(r.cuda_reserved_before_bytes, r.cuda_reserved_after_bytes))
    return [*cells, f"{r.objects:,}", duration(r.took_s), r.at]


def _change(before: Maybe[int], after: Maybe[int]) -> Inline:
    if isinstance(before, NotAvailable) or isinstance(after, NotAvailable):
        return measured(before, size)
    return f"{size(before)} → {size(after)}"


def _less(before: Maybe[int], after: Maybe[int]) -> int:
    """What was given back; resident memory may also grow meanwhile."""
    if isinstance(before, NotAvailable) or isinstance(after, NotAvailable):
        return 0
    return max(0, before - after)
