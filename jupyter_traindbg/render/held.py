"""What grows from step to step and who holds it, as rows: what is the same on several ranks in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..frames.whose import short_place
from ..language import counted, pgettext, text
from ..model import Holder, MemoryLook, RankMemory
from ..words.durations import duration
from ..words.ranks import compact_ranks
from .blocks import Block, Column, Inline, Line, Pair, Span, Table
from .common import DASH
from .grouping import group_by
from .notations import counts, sizes
from .units import size

__all__ = ["bytes_a_step", "growth_pairs", "growth_words", "who_holds"]

SHOWN = 12


@dataclass(frozen=True)
class _Held:
    rank: int
    holder: Holder

    @property
    def key(self) -> object:
        holder = self.holder
        return holder.kind, holder.name, holder.within, holder.where, holder.of


def bytes_a_step(rank: RankMemory) -> float:
    """What a step leaves behind on the host and on its GPU, by the books, where it is known what keeps it; else 0."""
    look = rank.look
    if not isinstance(look, MemoryLook) or not (look.holders or look.unexplained_bytes_a_step):
        return 0.0
    return look.host_bytes_a_step + look.cuda_bytes_a_step


def growth_words(rank: RankMemory) -> str:
    """What the books say of its growth where that is known to last, for they see it long before the curve shows it; else the curve."""
    look = rank.look
    if not isinstance(look, MemoryLook) or not bytes_a_step(rank):
        return rank.growth
    return counted(
        "{rate} at each step (over {n:,} step)", "{rate} at each step (over {n:,} steps)", look.steps, rate=_rates(look)
    )


def growth_pairs(rank: RankMemory) -> list[Pair]:
    """Its growth, and what a look at single steps has told beside that."""
    words, look = growth_words(rank), rank.look
    pairs = [Pair(text("growth"), [words])] if words else []
    if not isinstance(look, MemoryLook) or bytes_a_step(rank):
        return pairs
    rates = _rates(look)
    if look.note and rates:
        said = text("{rates} now; what keeps it is not known: {note}", rates=rates, note=look.note)
    elif look.note and not look.looked:
        said = text("not known: {note}", note=look.note)
    elif rates:  # garbage that waits for the collector, or what our own questions took
        said = counted("nothing that stays (over {n:,} step)", "nothing that stays (over {n:,} steps)", look.steps)
    else:
        said = counted("nothing (over {n:,} step)", "nothing (over {n:,} steps)", look.steps)
    return [*pairs, Pair(text("grows at each step"), [said])]


def _rates(look: MemoryLook) -> str:
    rates = [(look.host_bytes_a_step, ""), (look.cuda_bytes_a_step, " CUDA")]
    return ", ".join(f"{size(rate)}{device}" for rate, device in rates if rate > 0)


def who_holds(ranks: Sequence[RankMemory]) -> Iterator[Block]:
    """The table of who holds what grows, of all ranks; nothing where nothing does."""
    looks = [(rank, rank.look) for rank in ranks if isinstance(rank.look, MemoryLook) and rank.look.looked]
    rows = [_Held(rank.rank, holder) for rank, look in looks for holder in look.holders]
    if not rows:
        return
    groups = sorted(group_by(rows, lambda one: one.key), key=lambda same: -same[0].holder.bytes_a_step)
    several = len(ranks) > 1
    columns = [
        Column(text("who holds it"), wrap=True),
        Column(text("of"), wrap=True, spare=True),
        Column(text("holds"), wrap=True),
        Column(text("how many"), right=True, notation=counts),
        Column(text("more a step"), right=True),
        Column(text("bytes a step"), right=True, notation=sizes),
        Column(text("in all"), right=True, notation=sizes, spare=True),
        Column(text("where"), wrap=True),
    ]
    if several:
        columns.insert(0, Column(text("ranks")))
    yield Table(
        text("what grows, and who holds it"),
        columns,
        [_row(same, several) for same in groups],
        SHOWN,
        pgettext("more", "holders"),
    )
    longest = max(max(look.pauses_s, default=0.0) for _, look in looks)
    objects = max(look.objects for _, look in looks)
    said = text(
        "{objects:,} things were measured again and again, in {count} pauses of the training of {longest} at most",
        objects=objects,
        count=max(len(look.pauses_s) for _, look in looks),
        longest=duration(longest),
    )
    notes = sorted({look.note for _, look in looks if look.note})
    yield Line(Span("; ".join([said, *notes]), "muted"))


def _row(same: Sequence[_Held], several: bool) -> list[Inline]:
    holder = max(same, key=lambda one: one.holder.bytes_a_step).holder
    bound = (
        text(" (up to {bound:,})", bound=holder.bound)
        if holder.bound is not None and holder.bound >= holder.count
        else ""
    )
    row: list[Inline] = [
        Span(holder.name, "code") if holder.name else text("nobody: garbage") if holder.kind == "cycle" else DASH,
        holder.within or DASH,
        _what(holder),
        [Span(f"{holder.count:,}", value=holder.count), bound],
        Span(f"{holder.a_step:.3g}", value=holder.a_step),
        Span(size(holder.bytes_a_step), value=holder.bytes_a_step),
        Span(size(holder.held_bytes), value=holder.held_bytes),
        DASH if holder.where is None else Span(short_place(holder.where), "code", link=holder.where),
    ]
    return [compact_ranks([one.rank for one in same]), *row] if several else row


def _what(holder: Holder) -> str:
    if holder.kind == "graph":
        return text("nodes of its graph")
    shape = "" if not holder.shape else f" ({', '.join(map(str, holder.shape))})"
    graph = text(", with graph") if holder.kind == "graphs" else ""
    return f"{holder.of}{shape}{graph}"
