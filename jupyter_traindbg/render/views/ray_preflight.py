"""What a `ConfigPreflight` says of a Ray cluster: its nodes, and the worker that was tried there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...language import text
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
        Column(text("node", "节点"), wrap=True),
        Column(text("Ray's CPUs, free", "Ray 的 CPU，空闲")),
        Column(text("cores", "核")),
        Column(text("memory, free", "内存，空闲")),
        Column("GPU"),
        Column(text("object store", "object store")),
        Column(text("other resources", "其他资源"), wrap=True),
    ]
    return Table(text("The cluster", "集群"), columns, [_node(one) for one in of], 40, text("nodes", "个节点"))


def _node(one: RayNode) -> list[Inline]:
    total = one.resources_total
    free = {} if isinstance(one.resources_available, NotAvailable) else one.resources_available
    known = not isinstance(one.resources_available, NotAvailable)
    own = [f"{name} {value:g}" for name, value in total.items() if _of_their_own(name)]

    def of(name: str) -> str:
        return f"{free.get(name, 0.0):g} / {total.get(name, 0.0):g}" if known else f"{total.get(name, 0.0):g}"

    return [
        [Span(one.name or one.ip, "strong"), text(" (head)", "（head）") if one.head else ""],
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
        Column(text("stage", "阶段")),
        Column(text("took", "用时"), right=True, notation=durations),
        Column(text("CPU time", "CPU 时间"), right=True, notation=durations),
        Column(text("resident memory", "常驻内存"), right=True, notation=sizes),
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
    yield Table(
        text("One worker of", "试启动一个") + f" {done.worker}{at}", columns, rows, 20, text("stages", "个阶段")
    )
    if done.failed_in:
        yield Line(Span(f"{done.failed_in}: {done.problem}", "bad"))
    yield Pairs(list(_sums(done, fits, start_s, workers)))


def _sums(
    done: RayWorkerTrial, fits: Mapping[str, int], start_s: Maybe[float], workers: Given[int] | None
) -> Iterator[Pair]:
    if done.peak_bytes:
        words = text(
            f"{size(done.peak_bytes)} at the peak, {size(done.own_bytes)} of it its own; {done.threads} threads",
            f"峰值 {size(done.peak_bytes)}，其中独占 {size(done.own_bytes)}；{done.threads} 个线程",
        )
        yield Pair(text("one takes", "每个占用"), [words])
    if fits:
        least = min(fits.values())
        each: list[Inline] = [
            [Span(f"{count}", "strong" if count == least else "plain"), f" ({name})"] for name, count in fits.items()
        ]
        yield Pair(text("so many fit", "可容纳"), each)
    if workers is not None:
        words = text(f"start of {workers.value}", f"启动 {workers.value} 个")
        yield Pair(words, [measured(start_s, lambda s: text(f"{duration(s)} at the least", f"至少 {duration(s)}"))])
    gone = Span(text("ended, and seen to be gone", "已结束并确认消失"), "good")
    yield Pair(
        text("afterwards", "之后"),
        [gone if done.cleaned else Span(text("not seen to have ended", "未能确认结束"), "warn")],
    )
