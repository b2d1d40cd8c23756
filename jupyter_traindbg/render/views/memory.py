"""`Memory`: each rank in full where there are few; least, median, greatest and the largest ranks where there are many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...language import counted, later, later_counted, named, pgettext, text
from ...model import Memory, MemoryShare, NotAvailable, RankMemory
from ...words.ranks import compact_ranks
from ..blocks import Answer, Bar, Block, Column, Curve, Fold, Inline, Items, Line, Pair, Pairs, Part, Span, Table
from ..common import DASH, finite, measured, notes_of, spread
from ..findings import tone
from ..grouping import group_by
from ..held import bytes_a_step, growth_pairs, growth_words, who_holds
from ..notations import sizes
from ..units import percent, size

FEW = 4
LARGEST = 10
HOLDERS = (
    (later("parameters"), "parameters_bytes"),
    (later("gradients"), "gradients_bytes"),
    (later("optimizer state"), "optimizer_bytes"),
    (later("buffers"), "buffers_bytes"),
)
EARLIER = (later("an earlier run's"), "earlier_bytes")
"""Most processes have had none: shown where there is any."""
REST = (later("all else"), "rest_bytes")
FULL = 0.9
"""A device of which more is in use is nearly full."""
TELLING = 0.01
"""Training objects that hold less of what is in use are not told of."""
ALLOCATED, OOMS = "allocated_bytes.all.current", "num_ooms"
CUDA_WORDS = {
    ALLOCATED: later("allocated"),
    "allocated_bytes.all.peak": later("allocated at peak"),
    "reserved_bytes.all.current": later("reserved"),
    "reserved_bytes.all.peak": later("reserved at peak"),
    "inactive_split_bytes.all.current": later("free in split blocks (fragmentation)"),
    OOMS: later("out-of-memory errors"),
    "num_alloc_retries": later("allocations retried"),
}


def view(result: Memory) -> Iterator[Block]:
    ranks = result.ranks
    yield _answer(result)
    yield from who_holds(ranks)
    if len(ranks) <= FEW:
        for rank in ranks:
            if len(ranks) > 1:
                yield Line(text("rank {rank}, pid {pid}", rank=rank.rank, pid=rank.pid), title=True)
            yield from _one(rank)
    else:
        yield from _many(ranks)
    notes = notes_of((r.rank, r.note) for r in ranks)
    if notes:
        yield Items(notes)


# --- the answer ------------------------------------------------------------------------------------------------------


def _answer(result: Memory) -> Answer:
    """The fullest device of all ranks; GPUs before the host's memory, where there are figures of any."""
    ranks = result.ranks
    if not ranks:
        return Answer(text("no rank told of its memory"), (), "warn")
    about = [compact_ranks([r.rank for r in ranks])]
    held = [_Held(r, s) for r in ranks for s in r.shares if s.in_use_bytes]
    of_gpus = [h for h in held if h.share.device != "cpu"]
    if of_gpus or len(ranks) > 1:
        total = size(sum(r.rss_bytes for r in ranks))
        about.append(
            text("{total} resident in all", total=total) if len(ranks) > 1 else text("{total} resident", total=total)
        )
    if shown := of_gpus or held:
        fullest = max(shown, key=lambda h: (h.filled, h.bytes, -h.rank.rank))
        words = _holds(fullest.rank.rank, [(h.bytes, h.rank.rank) for h in shown], _device(fullest)) + _part(fullest)
        nearly = fullest.filled > FULL
    else:
        figures = [(r.rss_bytes, r.rank) for r in ranks]
        most, rank = max(figures)
        words, nearly = _holds(rank, figures, size(most)), False
    failed = sum(_cuda_figure(r, OOMS) or 0 for r in ranks)
    if failed:
        words += counted("; {n:,} allocation failed", "; {n:,} allocations failed", failed)
    if any(finding.severity != "info" for finding in result.findings):
        words += text("; it keeps growing")
    worst = tone(result.findings)
    return Answer(words, about, worst if worst in ("bad", "warn") else "warn" if nearly or failed else "plain")


@dataclass(frozen=True)
class _Held:
    rank: RankMemory
    share: MemoryShare

    @property
    def bytes(self) -> int:
        return _in_use(self.share)

    @property
    def capacity(self) -> int:
        """0 where it is not known."""
        return 0 if isinstance(self.share.capacity_bytes, NotAvailable) else self.share.capacity_bytes

    @property
    def filled(self) -> float:
        return self.bytes / self.capacity if self.capacity else 0.0


def _in_use(share: MemoryShare) -> int:
    """0 where it is not known."""
    return 0 if isinstance(share.in_use_bytes, NotAvailable) else share.in_use_bytes


def _holds(rank: int, figures: Sequence[tuple[int, int]], what: str) -> str:
    """``rank 0 holds`` so much; of several ranks, whose bytes `figures` are, ``each of 8 ranks``, or what the others hold at least."""
    (least, modest), (most, _) = min(figures), max(figures)
    several = len({rank for _, rank in figures})
    if several > 1 and size(least) == size(most):
        return text("each of {several} ranks holds {what}", several=several, what=what)
    words = text("rank {rank} holds {what}", rank=rank, what=what)
    if several > 1:
        words += text(" (the least: {size}, rank {modest})", size=size(least), modest=modest)
    return words


def _device(held: _Held) -> str:
    """``61 GiB of cuda:0's 80 GiB (76 %)``."""
    used, device = size(held.bytes), "" if held.share.device == "cpu" else held.share.device
    if not held.capacity:
        return text("{used} on {device}", used=used, device=device) if device else used
    there, filled = size(held.capacity), percent(held.filled)
    if not device:
        return text("{used} of {there} ({filled})", used=used, there=there, filled=filled)
    return text("{used} of {device}'s {there} ({filled})", used=used, device=device, there=there, filled=filled)


def _part(held: _Held) -> str:
    """What most of it is, where that is of the training; else how much is. Nothing where no such objects are there."""
    found = [(getattr(held.share, field), name) for name, field in (*HOLDERS, EARLIER)]
    (most, name), known = max(found), sum(v for v, _ in found)
    if known < TELLING * held.bytes or most <= 0:
        return ""
    if most > held.bytes / 2:
        return text(", most of it {name} ({size})", name=text(name), size=size(most))
    return text(", {size} of it weights, gradients and optimizer state", size=size(known))


# --- one rank ------------------------------------------------------------------------------------------------------


def _one(rank: RankMemory) -> Iterator[Block]:
    yield Pairs(_figures(rank))
    yield from (_holders(share) for share in rank.shares if _telling(share))
    yield from _curves(rank)
    if isinstance(rank.cuda, NotAvailable):
        yield Line(text("CUDA: not available ({reason})", reason=rank.cuda.reason))
    elif rank.cuda:
        yield _cuda(rank.cuda)
    if rank.children:
        yield _children(rank)


def _figures(rank: RankMemory) -> list[Pair]:
    at_peak = text(", {size} at peak", size=size(rank.peak_rss_bytes))
    pairs = [Pair(text("resident"), [[Span(size(rank.rss_bytes), "strong"), at_peak]])]
    if rank.children:
        below = sum(c.rss_bytes for c in rank.children)
        words = later_counted(
            "{size} in {n:,} process (shared pages counted in each)",
            "{size} in {n:,} processes (shared pages counted in each)",
        )
        pairs.append(Pair(text("children"), [counted(*words, len(rank.children), size=size(below))]))
    return [*pairs, *growth_pairs(rank)]


def _telling(share: MemoryShare) -> bool:
    """Whether there is more to show than that it is in use."""
    known = sum(getattr(share, field) for _, field in (*HOLDERS, EARLIER))
    return share.device != "cpu" or known > TELLING * _in_use(share)


def _holders(share: MemoryShare) -> Bar:
    """Who holds what. Where the whole is not known, shares are of what is."""
    held = [(text(name), float(v)) for name, field in (*HOLDERS, EARLIER) if (v := getattr(share, field))]
    if not isinstance(share.rest_bytes, NotAvailable):
        held.append((text(REST[0]), float(share.rest_bytes)))
    whole = sum(finite(v for _, v in held)) or 1.0
    device, in_use = share.device, share.in_use_bytes
    if isinstance(in_use, NotAvailable):
        label = text("{device}: in use: not known ({reason})", device=device, reason=in_use.reason)
    else:
        label = text("{device}: {size} in use", device=device, size=size(in_use))
    return Bar(label, [Part(name, max(0.0, v) / whole, size(v)) for name, v in held])


def _curves(rank: RankMemory) -> Iterator[Block]:
    if len(rank.curve) > 1:
        yield _curve(text("resident"), [float(rss) for _, rss, _ in rank.curve])
        cuda = [float(c) for _, _, c in rank.curve if c is not None]
        if cuda:
            yield _curve(text("CUDA allocated"), cuda)


def _curve(label: str, values: Sequence[float]) -> Curve:
    known = finite(values)
    if not known:
        return Curve(label, values, text("no finite value"))
    words = counted(
        "from {first} to {last}, greatest {most}, {n:,} step",
        "from {first} to {last}, greatest {most}, {n:,} steps",
        len(values),
        first=size(values[0]),
        last=size(values[-1]),
        most=size(max(known)),
    )
    return Curve(label, values, words)


def _cuda(cuda: Mapping[str, object]) -> Table:
    """`cuda` maps a figure to its value, or a device to such a mapping."""
    by_device = {str(k): v for k, v in cuda.items() if isinstance(v, Mapping)} or {"CUDA": cuda}
    names = list(dict.fromkeys(str(name) for figures in by_device.values() for name in figures))
    rows: list[list[Inline]] = [
        [
            Span(named(CUDA_WORDS, name), "strong"),
            *(_figure(name, figures.get(name)) for figures in by_device.values()),
        ]
        for name in names
    ]
    columns = [Column(text("figure"), wrap=True)]
    columns += [Column(device, right=True, notation=sizes) for device in by_device]
    return Table(text("CUDA allocator"), columns, rows, 20, pgettext("more", "figures"))


def _figure(name: str, figure: object) -> Inline:
    if not isinstance(figure, (int, float)):
        return DASH
    return measured(figure, size) if "bytes" in name else str(figure)


def _children(rank: RankMemory) -> Fold:
    rows: list[list[Inline]] = [
        [Span(str(c.pid), "strong"), c.name, measured(c.rss_bytes, size)]
        for c in sorted(rank.children, key=lambda c: -c.rss_bytes)
    ]
    table = Table(
        text("Child processes"),
        [Column("pid"), Column(text("name"), wrap=True), Column(text("resident"), right=True, notation=sizes)],
        rows,
        20,
        pgettext("more", "children"),
    )
    return Fold(counted("{n:,} child process", "{n:,} child processes", len(rows)), [table])


# --- many ranks ----------------------------------------------------------------------------------------------------


def _many(ranks: Sequence[RankMemory]) -> Iterator[Block]:
    pairs = [
        Pair(text("resident"), [spread([(r.rank, float(r.rss_bytes)) for r in ranks], size)]),
        Pair(text("at peak"), [spread([(r.rank, float(r.peak_rss_bytes)) for r in ranks], size)]),
    ]
    below = [(r.rank, float(sum(c.rss_bytes for c in r.children))) for r in ranks]
    if any(total for _, total in below):
        pairs.append(Pair(text("children"), [spread(below, size)]))
    for name, field in (*HOLDERS, EARLIER, REST):
        held = [(r.rank, float(total)) for r in ranks if (total := _sum(r, field)) is not None]
        if any(total for _, total in held):
            pairs.append(Pair(text(name), [spread(held, size)]))
    growing: list[Inline] = [
        [Span(compact_ranks([r.rank for r in same]), "strong"), text(": "), same[0].growth]
        for same in _by_growth(ranks)
    ]
    if growing:
        more = [text("... and {n} more that differ", n=len(growing) - 6)] if len(growing) > 6 else []
        pairs.append(Pair(text("growth"), [*growing[:6], *more]))
    leaving = [(r.rank, bytes_a_step(r)) for r in ranks]
    if any(left for _, left in leaving):
        pairs.append(Pair(text("grows at each step"), [spread(leaving, size)]))
    yield Pairs(pairs)
    yield _largest(ranks)
    largest = max(ranks, key=lambda r: r.rss_bytes)
    yield Fold(text("rank {rank}, the largest, in full", rank=largest.rank), list(_one(largest)))
    without = group_by((r for r in ranks if isinstance(r.cuda, NotAvailable)), lambda r: str(r.cuda))
    for same in without:
        ranks_ = compact_ranks([r.rank for r in same])
        yield Line(text("CUDA on {ranks}: {reason}", ranks=ranks_, reason=same[0].cuda))


def _sum(rank: RankMemory, field: str) -> int | None:
    sizes = [getattr(share, field) for share in rank.shares]
    known = [s for s in sizes if not isinstance(s, NotAvailable)]
    return sum(known) if known else None


def _by_growth(ranks: Sequence[RankMemory]) -> list[list[RankMemory]]:
    """By what their curves say, where the books do not say more."""
    return sorted(group_by((r for r in ranks if r.growth and not bytes_a_step(r)), lambda r: r.growth), key=len)


def _largest(ranks: Sequence[RankMemory]) -> Table:
    rows: list[list[Inline]] = [
        [
            Span(f"rank {r.rank}", "strong"),
            str(r.pid),
            measured(r.rss_bytes, size),
            measured(r.peak_rss_bytes, size),
            measured(_cuda_figure(r, ALLOCATED), size),
            growth_words(r) or DASH,
        ]
        for r in sorted(ranks, key=lambda r: (-r.rss_bytes, r.rank))
    ]
    columns = [
        Column("rank"),
        Column("pid", right=True, spare=True),
        *(
            Column(name, right=True, notation=sizes)
            for name in (text("resident"), text("at peak"), text("CUDA allocated"))
        ),
        Column(text("growth"), wrap=True),
    ]
    return Table(text("Ranks, the largest first"), columns, rows, LARGEST, pgettext("more", "ranks"))


def _cuda_figure(rank: RankMemory, name: str) -> int | None:
    """Of all its devices; None where there is none, which is said once, below."""
    if isinstance(rank.cuda, NotAvailable):
        return None
    figures = [
        v.get(name) if isinstance(v, Mapping) else v
        for k, v in rank.cuda.items()
        if isinstance(v, Mapping) or k == name
    ]
    known = [f for f in figures if isinstance(f, int)]
    return sum(known) if known else None
