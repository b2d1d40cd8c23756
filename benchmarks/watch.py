"""What watching costs: the kernel, per refresh; the wire, per refresh; the trainee, per step. Beside sending all points each time.

The kernel's side is measured with jobs that are made up (a million steps recorded, some new ones at each refresh), because 300
ranks do not fit on one machine: asking them is not in it, everything after that is: taking records in, judging, thinning, packing for
one page that shows everything. The naive way keeps the same figures in arrays and sends all of them. The trainee's side is a real
training, in windows with and without a feed at 4 Hz whose curves are packed as for a page, in turns.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from common import REPO, Row, Sample, Stamps, arguments, print_table, ratio_text, steady

import traindbg
from jupyter_traindbg.live import Feed
from jupyter_traindbg.live.series import COLUMNS
from jupyter_traindbg.widgets.curves import CurvesView
from jupyter_traindbg.widgets.wire import envelope, pack, size_bytes

sys.path.insert(0, str(REPO / "tests"))
from feeds import BEGAN_S, Made

NEW_STEPS = 5
PARTS = {
    "data_wait_s": 0.01,
    "forward_s": 0.02,
    "backward_s": 0.04,
    "optimizer_s": 0.02,
    "other_s": 0.01,
    "grad_norm": 1.0,
}
RATE_HZ = 4.0
SETTLE_S = 0.7
"""Left out after each attach and detach: bringing the agent in takes CPU, and is not what watching takes."""
REFRESH_MS_GOAL = 1000 / RATE_HZ * 0.1
"""A tenth of the time between two refreshes."""
WINDOW_S, ROUNDS = 2.0, 16
STEPS_MS = (5.0, 50.0)
"""Steps as short as a debugger's cost can be made to look large, and such as are usual."""
RATIO_GOAL = 1.01
HEAD = ("what", "ours", "all points each time", "ours against it", "goal")


@dataclass(frozen=True)
class Size:
    """How many ranks, and how many steps: every `each`-th of them is made, so that filling takes seconds and not hours."""

    ranks: int
    steps: int
    each: int


SIZES = (Size(1, 1_000_000, 1), Size(8, 1_000_000, 10), Size(300, 1_000_000, 250))
QUICK = (Size(1, 5000, 1), Size(8, 5000, 5), Size(300, 2000, 10))


class Host(Protocol):
    """What a view needs of its widget."""

    feed: Feed
    pages_unheard: bool

    def send(self, content: Mapping[str, Any], buffers: Any = (), to: str | None = None) -> None: ...


@dataclass
class Page:
    """A page in place of a browser: counts what comes."""

    feed: Feed
    pages_unheard: bool = False
    received: int = 0

    def send(self, content: Mapping[str, Any], buffers: Any = (), to: str | None = None) -> None:
        self.received += size_bytes(envelope("curves", content, to), list(buffers))


def open_page(feed: Feed) -> tuple[Page, CurvesView]:
    page = Page(feed)
    view = CurvesView(page)  # type: ignore[arg-type]
    view.opened()
    view.received({"kind": "want", "from": "page"}, [])
    return page, view


# -- the kernel and the wire --


class Numbered(Made):
    """A job that has been running for long: its steps go on from `size`.steps."""

    def __init__(self, size: Size) -> None:
        super().__init__(size.ranks)
        self._next = size.steps + 1

    def advance(self) -> None:
        for rank in self.records:
            self.records[rank] = []
        for rank, records in self.records.items():
            records += [_record(self._next + i, rank) for i in range(NEW_STEPS)]
        self._next += NEW_STEPS


def _record(step: int, rank: int) -> list[Any]:
    from feeds import record

    return record(step, loss=1.0 / step + rank * 1e-3, **PARTS)


def filled(size: Size) -> tuple[Numbered, Feed]:
    """A feed that has seen `size` steps of all ranks."""
    job = Numbered(size)
    feed = Feed(job)
    feed.round()
    numbers = np.arange(1, size.steps + 1, size.each)
    names = ["loss", "lr", "lr_effective", "step_s", "rss_bytes", *PARTS]
    for part in np.array_split(numbers, max(1, len(numbers) * size.ranks // 200_000)):
        steps = np.tile(part, size.ranks)
        table = np.full((len(steps), len(COLUMNS)), np.nan)
        table[:, 0] = BEGAN_S + 0.1 * (steps - 1)
        for name in names:
            table[:, COLUMNS.index(name)] = np.sin(steps * 0.01) + 2.0
        feed.history.add(np.repeat(np.arange(size.ranks), len(part)), steps, table, np.zeros(table.shape, bool))
    for track in feed._tracks.values():
        track.step = track.agent_step = size.steps
    return job, feed


def kernel(size: Size, rounds: int) -> list[Row]:
    job, feed = filled(size)
    page, view = open_page(feed)
    first = page.received
    whole_ms = _cpu_ms(lambda: _redraw(feed))
    refresh, wire, naive = [], [], []
    for i in range(rounds):
        job.advance()
        before = page.received
        refresh.append(_cpu_ms(lambda: _refresh(feed, view)))
        wire.append((page.received - before) / 1e3)
        if i < 3:
            naive.append(_naive_ms(feed, size))
    series = len(feed.series)
    naive_kb = 4 * series * size.steps * size.ranks / 1e3
    ours, theirs = Sample(tuple(refresh)), Sample(tuple(naive))
    sent = Sample(tuple(wire))
    who = f"{size.ranks} rank{'s' * (size.ranks > 1)}"
    met = ours.median <= REFRESH_MS_GOAL
    return [
        Row(
            f"{who}: ms of CPU a refresh", str(ours), f"{theirs.median:.0f} (packing alone)",
            f"1/{theirs.median / ours.median:.0f}", f"<= {REFRESH_MS_GOAL:g}", met,
        ),
        Row(f"{who}: KB on the wire a refresh", str(sent), f"{naive_kb:.0f}", f"1/{naive_kb / sent.median:.0f}"),
        Row(f"{who}: KB for a page that is new", f"{first / 1e3:.0f}", f"{naive_kb:.0f}", f"1/{naive_kb * 1e3 / first:.0f}"),
        Row(f"{who}: ms of CPU for all curves anew", f"{whole_ms:.1f}"),
        Row(f"{who}: MB kept in memory", f"{feed.history.memory_bytes / 1e6:.0f}", f"{naive_kb * 2 / 1e3:.0f}"),
    ]  # fmt: skip


def _refresh(feed: Feed, view: CurvesView) -> None:
    feed.round()
    view.refreshed()


def _redraw(feed: Feed) -> None:
    for series in feed.series:
        feed.curve(series.name, points=600)


def _naive_ms(feed: Feed, size: Size) -> float:
    """Packing every point of one series as float32, for all series. Of many ranks at most 16 million points are really packed."""
    steps = min(size.steps, 16_000_000 // size.ranks)
    values = np.ones((size.ranks, steps))
    return _cpu_ms(lambda: pack(list(values), "<f4")) * len(feed.series) * size.steps / steps


def _cpu_ms(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return (time.thread_time() - began) * 1e3


# -- the trainee --


@dataclass(frozen=True)
class Window:
    """A stretch of time: milliseconds a step by the clock (mean: it sees the few steps in which a question was answered), and of CPU.

    `added`: the CPU of threads that came with us, as a share of what the others took.
    """

    clock_ms: float
    cpu_ms: float
    added: float


@dataclass
class Pairs:
    """Windows with a feed, each beside the windows before and after it."""

    ours: list[Window] = field(default_factory=list)
    before: list[Window] = field(default_factory=list)
    after: list[Window] = field(default_factory=list)

    def row(self, step_ms: float, what: str, of: Callable[[Window], float]) -> Row:
        without = [(of(a) + of(b)) / 2 for a, b in zip(self.before, self.after, strict=True)]
        ratios = [of(w) / other for w, other in zip(self.ours, without, strict=True)]
        return Row(
            f"1 rank, real, {step_ms:g} ms steps, watched at {RATE_HZ:g} Hz: {what}",
            f"{statistics.median(map(of, self.ours)):.3f}",
            f"not watched: {statistics.median(without):.3f}",
            ratio_text(ratios),
            f"<= {RATIO_GOAL}",
            statistics.median(ratios) <= RATIO_GOAL,
        )

    def added(self, step_ms: float) -> Row:
        """What the agent's threads take, beside what the training's own do: where CPUs change their speed it alone is steady."""
        shares = [1 + w.added for w in self.ours]
        return Row(
            f"1 rank, real, {step_ms:g} ms steps, watched at {RATE_HZ:g} Hz: CPU of the agent's threads",
            f"{1e3 * (statistics.median(shares) - 1):.2f} ms a second",
            "the training's own threads: 1 s",
            ratio_text(shares),
            f"<= {RATIO_GOAL}",
            statistics.median(shares) <= RATIO_GOAL,
        )


def trainee(step_ms: float, window_s: float, rounds: int) -> list[Row]:
    """CPU is of the whole process, the agent's threads in it: it tells what watching takes also where others keep the machine busy."""
    pairs = Pairs()
    with steady("torch", step_ms) as (process, stamps):
        own = frozenset(_cpu_ns(process.pid))
        before = _window(process.pid, stamps, window_s, own)
        for _ in range(rounds):
            with traindbg.attach(process.pid) as job:
                page, view = open_page(job.feed(rate_hz=RATE_HZ))
                leave = page.feed.subscribe(view.refreshed)
                time.sleep(SETTLE_S)
                ours = _window(process.pid, stamps, window_s, own)
                leave()
            time.sleep(SETTLE_S)
            after = _window(process.pid, stamps, window_s, own)
            pairs.ours.append(ours)
            pairs.before.append(before)
            pairs.after.append(after)
            before = after
    figures: dict[str, Callable[[Window], float]] = {"ms": lambda w: w.clock_ms, "ms of CPU": lambda w: w.cpu_ms}
    rows = [pairs.row(step_ms, f"{what} a step", of) for what, of in figures.items()]
    return [*rows, pairs.added(step_ms)]


def _window(pid: int, stamps: Stamps, seconds: float, own: frozenset[str]) -> Window:
    began, cpu = time.perf_counter(), _cpu_ns(pid)
    time.sleep(seconds)
    ended, now = time.perf_counter(), _cpu_ns(pid)
    spent = {tid: now[tid] - cpu.get(tid, 0) for tid in now}
    spent_ns = sum(spent.values())
    steps_ms = [s * 1e3 for s in stamps.durations_s(began, ended)]
    if len(steps_ms) < 3:
        raise SystemExit("the program made no steps")
    mean_ms = statistics.fmean(steps_ms)
    added_ns = sum(ns for tid, ns in spent.items() if tid not in own)
    return Window(mean_ms, spent_ns / 1e6 / ((ended - began) * 1e3 / mean_ms), added_ns / max(1, spent_ns - added_ns))


def _cpu_ns(pid: int) -> dict[str, int]:
    """By thread."""
    tasks = Path(f"/proc/{pid}/task")
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()}


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=["kernel", "trainee"], help="one side only")
    args = parser.parse_args()
    rounds = 4 if args.quick else 40
    rows: list[Row] = []
    if args.only != "trainee":
        rows += [row for size in (QUICK if args.quick else SIZES) for row in kernel(size, rounds)]
    if args.only != "kernel":
        for step_ms in (5,) if args.quick else STEPS_MS:
            rows += trainee(step_ms, 0.6, 1) if args.quick else trainee(step_ms, WINDOW_S, ROUNDS)
    sizes = QUICK if args.quick else SIZES
    made = ", ".join(f"{s.ranks} x {s.steps:,} (every {s.each}.)" for s in sizes)
    notes = [
        f"Made up: {made} steps, {NEW_STEPS} new ones a rank and refresh; asking the ranks is not in it. n = {rounds} refreshes.",
        "All points each time: bytes by arithmetic (4 a value), CPU of packing float32 alone, of 16 million points at most, in proportion.",
    ]
    print_table("Watching", HEAD, rows, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
