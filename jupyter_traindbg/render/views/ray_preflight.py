"""What a `ConfigPreflight` says of a Ray cluster: its nodes, and the worker that was tried there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...language import pgettext, text
from ...model import Given, Maybe, NotAvailable, RayNode, RayWorkerTrial
from ...words.durations import duration
from ..blocks import Block, Column, Inline, Line, Pair, Pairs, Span, Table
from ..common import DASH, measured
from ..notations import durations, sizes
from ..units import size

__all__ = ["nodes", "trial"]

BYTES = ("memory", "object_store_memory")


def nodes(of: Sequence[RayNode]) -> Table:
    columns = [
        Column(text("node"), wrap=True),
        Column(text("Ray's CPUs, free")),
        Column(text("cores")),
        Column(text("memory, free")),
        Column("GPU"),
        Column(text("object store")),
        Column(text("other resources"), wrap=True),
    ]
    return Table(text("The cluster"), columns, [_node(one) for one in of], 40, pgettext("more", "nodes"))


def _node(one: RayNode) -> list[Inline]:
    total = one.resources_total
    free = {} if isinstance(one.resources_available, NotAvailable) else one.resources_available
    known = not isinstance(one.resources_available, NotAvailable)
    own = [f"{name} {value:g}" for name, value in total.items() if _of_their_own(name)]

    def of(name: str) -> str:
        return f"{free.get(name, 0.0):g} / {total.get(name, 0.0):g}" if known else f"{total.get(name, 0.0):g}"

    return [
        [Span(one.name or one.ip, "strong"), text(" (head)") if one.head else ""],
        of("CPU"),
        measured(one.cpus, str),
        _memory(one),
        of("GPU") if total.get("GPU") else DASH,
        measured(total.get("object_store_memory") or None, size),
        ", ".join(own) or DASH,
    ]


def _of_their_own(name: str) -> bool:
    return name not in ("CPU", "GPU", *BYTES) and not name.startswith("node:")


def _memory(one: RayNode) -> Inline:
    total, used = one.memory_total_bytes, one.memory_used_bytes
    if isinstance(total, NotAvailable) or isinstance(used, NotAvailable):
        return measured(total, size)
    return Span(f"{size(total - used)} / {size(total)}", value=total - used)


def trial(
    done: RayWorkerTrial, fits: Mapping[str, int], start_s: Maybe[float], workers: Given[int] | None
) -> Iterator[Block]:
    columns = [
        Column(text("stage")),
        Column(text("took"), right=True, notation=durations),
        Column(text("CPU time"), right=True, notation=durations),
        Column(text("resident memory"), right=True, notation=sizes),
    ]
    rows: list[list[Inline]] = [
        [
            Span(stage.name, "strong"),
            measured(stage.took_s, duration),
            measured(stage.cpu_s, duration),
            measured(stage.rss_bytes, size),
        ]
        for stage in done.stages
    ]
    at = f", {done.node}, pid {done.pid}" if done.pid else ""
    yield Table(text("One worker of") + f" {done.worker}{at}", columns, rows, 20, pgettext("more", "stages"))
    if done.failed_in:
        yield Line(Span(f"{done.failed_in}: {done.problem}", "bad"))
    yield Pairs(list(_sums(done, fits, start_s, workers)))


def _sums(
    done: RayWorkerTrial, fits: Mapping[str, int], start_s: Maybe[float], workers: Given[int] | None
) -> Iterator[Pair]:
    if done.peak_bytes:
        words = text(
            "{size} at the peak, {size2} of it its own; {threads} threads",
            size=size(done.peak_bytes),
            size2=size(done.own_bytes),
            threads=done.threads,
        )
        yield Pair(text("one takes"), [words])
    if fits:
        least = min(fits.values())
        each: list[Inline] = [
            [Span(f"{count}", "strong" if count == least else "plain"), f" ({name})"] for name, count in fits.items()
        ]
        yield Pair(text("so many fit"), each)
    if workers is not None:
        words = text("start of {value}", value=workers.value)
        yield Pair(words, [measured(start_s, lambda s: text("{s} at the least", s=duration(s)))])
    gone = Span(text("ended, and seen to be gone"), "good")
    yield Pair(
        text("afterwards"),
        [gone if done.cleaned else Span(text("not seen to have ended"), "warn")],
    )
