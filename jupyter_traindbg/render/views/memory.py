"""`Memory`: each rank in full where there are few; least, median, greatest and the largest ranks where there are many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...model import Memory, MemoryShare, NotAvailable, RankMemory
from ..blocks import Bar, Block, Column, Curve, Fold, Inline, Items, Line, Pair, Pairs, Part, Span, Table
from ..common import DASH, finite, measured, notes_of, spread
from ..grouping import compact_ranks, group_by
from ..units import plural, size

FEW = 4
LARGEST = 10
HOLDERS = (
    ("parameters", "parameters_bytes"),
    ("gradients", "gradients_bytes"),
    ("optimizer state", "optimizer_bytes"),
    ("buffers", "buffers_bytes"),
)
EARLIER = ("an earlier run's", "earlier_bytes")
"""Most processes have had none: shown where there is any."""
CUDA_WORDS = {
    "allocated_bytes.all.current": "allocated",
    "allocated_bytes.all.peak": "allocated at peak",
    "reserved_bytes.all.current": "reserved",
    "reserved_bytes.all.peak": "reserved at peak",
    "inactive_split_bytes.all.current": "free in split blocks (fragmentation)",
    "num_ooms": "out-of-memory errors",
    "num_alloc_retries": "allocations retried",
}


def view(result: Memory) -> Iterator[Block]:
    ranks = result.ranks
    total = sum(r.rss_bytes for r in ranks)
    yield Line(f"memory of {compact_ranks([r.rank for r in ranks])} · {size(total)} resident", title=True)
    if len(ranks) <= FEW:
        for rank in ranks:
            if len(ranks) > 1:
                yield Line(f"rank {rank.rank}, pid {rank.pid}", title=True)
            yield from _one(rank)
    else:
        yield from _many(ranks)
    notes = notes_of((r.rank, r.note) for r in ranks)
    if notes:
        yield Items(notes)


# --- one rank ------------------------------------------------------------------------------------------------------


def _one(rank: RankMemory) -> Iterator[Block]:
    yield Pairs(_figures(rank))
    yield from (_holders(share) for share in rank.shares)
    yield from _curves(rank)
    if isinstance(rank.cuda, NotAvailable):
        yield Line(["CUDA: not available", f" ({rank.cuda.reason})"])
    elif rank.cuda:
        yield _cuda(rank.cuda)
    if rank.children:
        yield _children(rank)


def _figures(rank: RankMemory) -> list[Pair]:
    pairs = [Pair("resident", [[Span(size(rank.rss_bytes), "strong"), f", {size(rank.peak_rss_bytes)} at peak"]])]
    if rank.children:
        below = sum(c.rss_bytes for c in rank.children)
        pairs.append(
            Pair(
                "children",
                [
                    f"{size(below)} in {plural(len(rank.children), 'process', 'processes')} (shared pages counted in each)"
                ],
            )
        )
    if rank.growth:
        pairs.append(Pair("growth", [rank.growth]))
    return pairs


def _holders(share: MemoryShare) -> Bar:
    """Who holds what. Where the whole is not known, shares are of what is."""
    held = [(name, float(getattr(share, field))) for name, field in HOLDERS]
    if share.earlier_bytes:
        held.append((EARLIER[0], float(share.earlier_bytes)))
    if not isinstance(share.rest_bytes, NotAvailable):
        held.append(("all else", float(share.rest_bytes)))
    whole = sum(finite(v for _, v in held)) or 1.0
    in_use = (
        "in use: not known" if isinstance(share.in_use_bytes, NotAvailable) else f"{size(share.in_use_bytes)} in use"
    )
    why = f" ({share.in_use_bytes.reason})" if isinstance(share.in_use_bytes, NotAvailable) else ""
    return Bar(f"{share.device}: {in_use}{why}", [Part(name, max(0.0, v) / whole, size(v)) for name, v in held])


def _curves(rank: RankMemory) -> Iterator[Block]:
    if len(rank.curve) > 1:
        yield _curve("resident", [float(rss) for _, rss, _ in rank.curve])
        cuda = [float(c) for _, _, c in rank.curve if c is not None]
        if cuda:
            yield _curve("CUDA allocated", cuda)


def _curve(label: str, values: Sequence[float]) -> Curve:
    known = finite(values)
    if not known:
        return Curve(label, values, "no finite value")
    words = f"from {size(values[0])} to {size(values[-1])}, greatest {size(max(known))}, {plural(len(values), 'step')}"
    return Curve(label, values, words)


def _cuda(cuda: Mapping[str, object]) -> Table:
    """`cuda` maps a figure to its value, or a device to such a mapping."""
    by_device = {str(k): v for k, v in cuda.items() if isinstance(v, Mapping)} or {"CUDA": cuda}
    names = list(dict.fromkeys(str(name) for figures in by_device.values() for name in figures))
    rows: list[list[Inline]] = [
        [
            Span(CUDA_WORDS.get(name, name), "strong"),
            *(_figure(name, figures.get(name)) for figures in by_device.values()),
        ]
        for name in names
    ]
    columns = [Column("figure", wrap=True), *(Column(device, right=True) for device in by_device)]
    return Table("CUDA allocator", columns, rows, 20, "figures")


def _figure(name: str, figure: object) -> Inline:
    if not isinstance(figure, (int, float)):
        return DASH
    return size(figure) if "bytes" in name else str(figure)


def _children(rank: RankMemory) -> Fold:
    rows: list[list[Inline]] = [
        [Span(str(c.pid), "strong"), c.name, size(c.rss_bytes)]
        for c in sorted(rank.children, key=lambda c: -c.rss_bytes)
    ]
    table = Table(
        "Child processes",
        [Column("pid"), Column("name", wrap=True), Column("resident", right=True)],
        rows,
        20,
        "children",
    )
    return Fold(plural(len(rows), "child process", "child processes"), [table])


# --- many ranks ----------------------------------------------------------------------------------------------------


def _many(ranks: Sequence[RankMemory]) -> Iterator[Block]:
    pairs = [
        Pair("resident", [spread([(r.rank, float(r.rss_bytes)) for r in ranks], size)]),
        Pair("at peak", [spread([(r.rank, float(r.peak_rss_bytes)) for r in ranks], size)]),
    ]
    below = [(r.rank, float(sum(c.rss_bytes for c in r.children))) for r in ranks]
    if any(total for _, total in below):
        pairs.append(Pair("children", [spread(below, size)]))
    for name, field in (*HOLDERS, EARLIER, ("all else", "rest_bytes")):
        held = [(r.rank, float(total)) for r in ranks if (total := _sum(r, field)) is not None]
        if any(total for _, total in held):
            pairs.append(Pair(name, [spread(held, size)]))
    growing: list[Inline] = [
        [Span(compact_ranks([r.rank for r in same]), "strong"), f": {same[0].growth}"] for same in _by_growth(ranks)
    ]
    if growing:
        more = [f"... and {len(growing) - 6} more that differ"] if len(growing) > 6 else []
        pairs.append(Pair("growth", [*growing[:6], *more]))
    yield Pairs(pairs)
    yield _largest(ranks)
    largest = max(ranks, key=lambda r: r.rss_bytes)
    yield Fold(f"rank {largest.rank}, the largest, in full", list(_one(largest)))
    without = group_by((r for r in ranks if isinstance(r.cuda, NotAvailable)), lambda r: str(r.cuda))
    yield from (Line([f"CUDA on {compact_ranks([r.rank for r in same])}: ", str(same[0].cuda)]) for same in without)


def _sum(rank: RankMemory, field: str) -> int | None:
    sizes = [getattr(share, field) for share in rank.shares]
    known = [s for s in sizes if not isinstance(s, NotAvailable)]
    return sum(known) if known else None


def _by_growth(ranks: Sequence[RankMemory]) -> list[list[RankMemory]]:
    return sorted(group_by((r for r in ranks if r.growth), lambda r: r.growth), key=len)


def _largest(ranks: Sequence[RankMemory]) -> Table:
    rows: list[list[Inline]] = [
        [
            Span(f"rank {r.rank}", "strong"),
            str(r.pid),
            size(r.rss_bytes),
            size(r.peak_rss_bytes),
            measured(_cuda_allocated(r), size),
            r.growth or DASH,
        ]
        for r in sorted(ranks, key=lambda r: (-r.rss_bytes, r.rank))
    ]
    columns = [
        Column("rank"),
        *(Column(n, right=True, spare=n == "pid") for n in ("pid", "resident", "at peak", "CUDA allocated")),
    ]
    return Table("Ranks, the largest first", [*columns, Column("growth", wrap=True)], rows, LARGEST, "ranks")


def _cuda_allocated(rank: RankMemory) -> int | NotAvailable | None:
    if isinstance(rank.cuda, NotAvailable):
        return None  # said once, below
    name = "allocated_bytes.all.current"
    figures = [
        v.get(name) if isinstance(v, Mapping) else v
        for k, v in rank.cuda.items()
        if isinstance(v, Mapping) or k == name
    ]
    known = [f for f in figures if isinstance(f, int)]
    return sum(known) if known else None
