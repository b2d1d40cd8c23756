"""`Steps`: the latest steps of one rank; medians and the slowest of many."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from ...model import RankSteps, Step, Steps
from ..blocks import Bar, Block, Column, Curve, Fold, Inline, Items, Line, Part, Span, Table, spans
from ..common import DASH, clock, finite, measured, median, notes_of, spread, value
from ..grouping import compact_ranks
from ..units import duration, number, percent, plural, size, steady

LAST = 8
FEW = 4
PARTS = (
    ("data wait", "data_wait_s"),
    ("forward", "forward_s"),
    ("backward", "backward_s"),
    ("optimizer", "optimizer_s"),
    ("other", "other_s"),
)
SLOWER = 1.02
"""A rank is called slow when its median step takes this many times the median of all ranks."""


def view(result: Steps) -> Iterator[Block]:
    stepped = [r for r in result.ranks if r.steps]
    yield Line(_title(result, stepped), title=True)
    if len(result.ranks) == 1:
        for rank in stepped:
            yield from _one(rank)
    elif stepped:
        yield _summary(result.ranks)
        if len(result.ranks) > FEW:
            paces = [(r.rank, p) for r in stepped if (p := median(s.duration_s for s in r.steps)) is not None]
            yield Line(["median step: ", *spans(spread(paces, duration))])
        if len(result.ranks) <= FEW:
            yield from (Fold(f"latest steps of rank {r.rank}", list(_one(r))) for r in stepped)
        else:
            first = stepped[0]
            yield from (c for c in [_loss(first, f"loss of rank {first.rank}")] if c)
    notes = notes_of((r.rank, r.note) for r in result.ranks)
    if notes:
        yield Items(notes)


def _title(result: Steps, stepped: Sequence[RankSteps]) -> str:
    who = compact_ranks([r.rank for r in result.ranks])
    if not stepped:
        return f"no step recorded yet · {who}"
    lasts = [r.steps[-1].step for r in stepped]
    at = f"step {max(lasts)}" if min(lasts) == max(lasts) else f"steps {min(lasts)} to {max(lasts)}"
    middle = median(s.duration_s for r in stepped for s in r.steps)
    pace = "" if middle is None else f" · median {duration(middle)} a step"
    return f"{at} since the attach · {who}{pace}"


# --- one rank ------------------------------------------------------------------------------------------------------


def _one(rank: RankSteps) -> Iterator[Block]:
    curve = _loss(rank, "loss")
    if curve:
        yield curve
    yield from _split(rank)
    yield _latest(rank)


def _loss(rank: RankSteps, label: str) -> Curve | None:
    losses = [s.loss for s in rank.steps if s.loss is not None]
    if not losses:
        return None
    known = finite(losses)
    words = f"latest {steady(losses[-1])}"
    if known:
        words += f", least {steady(min(known))}, greatest {steady(max(known))}"
    if len(known) < len(losses):
        words += f", {len(losses) - len(known)} not finite (first at step {_first_bad(rank)})"
    return Curve(label, losses, f"{words}, {plural(len(losses), 'step')}")


def _first_bad(rank: RankSteps) -> int:
    return next(s.step for s in rank.steps if s.loss is not None and not math.isfinite(s.loss))


def _split(rank: RankSteps) -> Iterator[Block]:
    shares = _shares(rank)
    if shares:
        parts = [Part(name, share, percent(share)) for (name, _), share in zip(PARTS, shares, strict=True)]
        yield Bar("where the time of a step goes (medians)", parts)


def _shares(rank: RankSteps) -> list[float]:
    """The share of each part in a step, from the medians of the parts; empty where no step was timed."""
    middles = [median(getattr(s, field) for s in rank.steps) for _, field in PARTS]
    whole = sum(finite(middles))
    return [(m or 0.0) / whole for m in middles] if whole > 0 else []


def _latest(rank: RankSteps) -> Table:
    steps = rank.steps[-LAST:]
    fields: list[tuple[Column, Callable[[Step], Inline]]] = [
        (Column("step", right=True), lambda s: str(s.step)),
        (Column("at", right=True, spare=True), lambda s: clock(s.time_s)),
        (Column("took", right=True), lambda s: measured(s.duration_s, duration)),
        (Column("loss", right=True), lambda s: value(s.loss)),
        (Column("gradient norm", right=True), lambda s: value(s.grad_norm)),
        (Column("lr", right=True), lambda s: _lrs(s.lr)),
        (Column("data wait", right=True, spare=True), _waited),
        (Column("resident", right=True, spare=True), lambda s: size(s.rss_bytes)),
    ]
    if any(s.cuda_allocated_bytes is not None for s in steps):
        fields.append((Column("CUDA", right=True), lambda s: measured(s.cuda_allocated_bytes, size)))
        fields.append((Column("CUDA peak", right=True), lambda s: measured(s.cuda_peak_bytes, size)))
    if any(s.micro_batches > 1 for s in steps):
        fields.append((Column("batches", right=True), lambda s: str(s.micro_batches)))
    if len({s.optimizer for s in steps}) > 1:
        fields.append((Column("optimizer", right=True), lambda s: str(s.optimizer)))
    rows = [[show(s) for _, show in fields] for s in reversed(steps)]
    return Table("Latest steps, newest first", [column for column, _ in fields], rows, LAST, "steps")


def _lrs(lrs: Sequence[float | None]) -> Inline:
    different = list(dict.fromkeys("–" if lr is None else number(lr) for lr in lrs))
    if not different:
        return DASH
    return ", ".join(different[:3]) + (f", ... ({len(different)})" if len(different) > 3 else "")


def _waited(step: Step) -> Inline:
    if step.data_wait_s is None or not step.duration_s:
        return DASH
    return percent(step.data_wait_s / step.duration_s)


# --- many ranks ----------------------------------------------------------------------------------------------------


def _summary(ranks: Sequence[RankSteps]) -> Table:
    paces = {r.rank: median(s.duration_s for s in r.steps) for r in ranks}
    known = finite(paces.values())
    usual = statistics.median(known) if known else math.inf
    slowest = max(known, default=math.inf)
    furthest = max((r.steps[-1].step for r in ranks if r.steps), default=0)

    def remark(r: RankSteps) -> Inline:
        words: list[str | Span] = []
        pace = paces[r.rank]
        if not r.steps:
            return Span("no step yet", "warn")
        if pace is not None and pace == slowest and pace > usual * SLOWER:
            words.append(Span(f"slowest, {number(pace / usual)} x the median", "warn"))
        if r.steps[-1].step < furthest:
            words.append(Span(f"{plural(furthest - r.steps[-1].step, 'step')} behind", "warn"))
        loss = r.steps[-1].loss
        if loss is not None and not math.isfinite(loss):
            words.append(Span("loss is not finite", "bad"))
        return [part for i, word in enumerate(words) for part in ((", ", word) if i else (word,))]

    def row(r: RankSteps) -> list[Inline]:
        shares = _shares(r)
        last = r.steps[-1] if r.steps else None
        return [
            Span(f"rank {r.rank}", "strong"),
            str(last.step) if last else DASH,
            measured(paces[r.rank], duration),
            percent(shares[0]) if shares else DASH,
            value(last.loss if last else None),
            _lrs(last.lr if last else ()),
            remark(r),
        ]

    remarkable = (
        sorted(ranks, key=lambda r: (not remark(r), -(paces[r.rank] or 0.0), r.rank)) if len(ranks) > 20 else ranks
    )
    columns = [Column("rank")] + [
        Column(n, right=True) for n in ("last step", "median step", "data wait", "last loss", "lr")
    ]
    caption = "Ranks, the remarkable and the slowest first" if len(ranks) > 20 else "Ranks"
    return Table(
        caption,
        [*columns, Column("remark", wrap=True)],
        [row(r) for r in remarkable],
        20 if len(ranks) <= 20 else 12,
        "ranks",
    )
