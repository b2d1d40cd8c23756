"""`Steps`: how fast, and where the loss goes; the latest steps of one rank, medians and the slowest of many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ...model import RankSteps, Step, Steps
from ...no_step import by_hand, by_hand_words, seen, why
from ...step_parts import PARTS
from ...words.durations import duration
from ...words.ranks import compact_ranks
from ..blocks import Bar, Block, Column, Curve, Fold, Inline, Items, Line, Part, Span, Table, spans
from ..common import DASH, clock, finite, measured, median, notes_of, setting, spread, step_columns, value
from ..grouping import group_by
from ..notations import durations, printouts, settings, sizes
from ..step_answer import answer, behind_by_rank, first_bad, late_ranks, shares_of, slowest, worth_a_look
from ..units import number, percent, plural, printed, size

LAST = 8
FEW = 4


def view(result: Steps) -> Iterator[Block]:
    stepped = [r for r in result.ranks if r.steps]
    yield answer(result, stepped)
    yield from _ended(result.ranks)
    yield from _without_steps(result.ranks)
    if len(result.ranks) == 1:
        for rank in stepped:
            yield from _one(rank)
    elif stepped:
        worst = worth_a_look(stepped)
        yield _summary(result.ranks)
        if len(result.ranks) > FEW:
            paces = [(r.rank, p) for r in stepped if (p := median(s.duration_s for s in r.steps)) is not None]
            yield Line(["median step: ", *spans(spread(paces, duration))])
        if len(result.ranks) <= FEW:
            yield from (Fold(f"latest steps of rank {r.rank}", list(_one(r))) for r in stepped)
        else:
            yield from (c for c in [_loss(worst, f"loss of rank {worst.rank}")] if c)
        yield Line(["one rank's history: ", Span(f"%steps --rank {worst.rank}", "code")])
    notes = notes_of((r.rank, note) for r in result.ranks for note in (r.note, _earlier(r)))
    if notes:
        yield Items(notes)


def _ended(ranks: Sequence[RankSteps]) -> Iterator[Line]:
    """Whose steps these are the last of; of one rank the answer has told it."""
    for same in group_by([r for r in ranks if r.ended and len(ranks) > 1], lambda r: r.ended):
        who = Span(compact_ranks([r.rank for r in same]), "strong")
        yield Line([who, ": ", Span(same[0].ended, "warn"), "; its last known steps are shown"])


def _without_steps(ranks: Sequence[RankSteps]) -> Iterator[Line]:
    """What was seen where no step has come for long, or never; and where backward passes are the steps."""
    for same in group_by(late_ranks(ranks), lambda one: tuple(why(one[1]))):
        who: list[str | Span] = (
            [Span(compact_ranks([r.rank for r, _ in same]), "strong"), ": ", seen(same[0][1]), "; "]
            if len(ranks) > 1
            else []
        )
        yield Line([*who, "; ".join(why(same[0][1]))])
    if any(by_hand(r.steps) for r in ranks):
        yield Line([Span(by_hand_words(), "muted")])


def _earlier(rank: RankSteps) -> str:
    before = rank.run_began - 1
    return f"{plural(before, 'step')} before these were an earlier run's; --since 0 shows them, too" if before else ""


# --- one rank ------------------------------------------------------------------------------------------------------


def _one(rank: RankSteps) -> Iterator[Block]:
    curve = _loss(rank, "loss")
    if curve:
        yield curve
        if how := _loss_kind(rank.steps):
            yield Line([Span(f"loss: {how}", "muted")])
    yield from _split(rank)
    yield _latest(rank)


def _loss(rank: RankSteps, label: str) -> Curve | None:
    losses = [s.loss for s in rank.steps if s.loss is not None]
    if not losses:
        return None
    known = finite(losses)
    words = f"latest {printed(losses[-1])}"
    if known:
        words += f", least {printed(min(known))}, greatest {printed(max(known))}"
    if len(known) < len(losses):
        words += f", {len(losses) - len(known)} not finite (first at {first_bad(rank)})"
    return Curve(label, losses, f"{words}, {plural(len(losses), 'step')}")


def _loss_kind(steps: Sequence[Step]) -> str:
    """What the loss of a step is, where a step has several; nothing where it has one."""
    last = next((s for s in reversed(steps) if s.micro_batches > 1), None)
    if last is None:
        return ""
    n = last.micro_batches
    if last.loss_kind == "evaluated":
        return f"the first of {n} evaluations in the step, as step(closure) returns it"
    if last.loss_kind == "given":
        return f"the mean of what backward() was given, {n} times a step; whether it had been divided is not known"
    return f"the mean over the {n} micro-batches of a step"


def _split(rank: RankSteps) -> Iterator[Block]:
    shares = shares_of(rank)
    if not shares:
        return
    seen = any(s.forward_seen for s in rank.steps)
    names = {"forward_s": "forward"} if seen else {"forward_s": "forward and all before it"}
    parts = [Part(names.get(part.field, part.name), share, percent(share)) for part, share in shares]
    yield Bar("where the time of a step goes (medians)", parts)
    shown = {part.field for part, _ in shares}
    for part in PARTS:
        took = [v for s in rank.steps if (v := getattr(s, part.field)) is not None]
        if part.field not in shown and took:
            yield Line(
                f"besides: {part.name}, {duration(sum(took))} in {len(took)} of {plural(len(rank.steps), 'step')}"
            )


def _latest(rank: RankSteps) -> Table:
    steps = rank.steps[-LAST:]
    fields: list[tuple[Column, Callable[[Step], Inline]]] = [
        *((column, lambda s, show=show: show(s.number)) for column, show in step_columns(s.number for s in steps)),
        (Column("at", right=True, spare=True), lambda s: clock(s.time_s)),
        (Column("took", right=True, notation=durations), lambda s: measured(s.duration_s, duration)),
        (Column("loss", right=True, notation=printouts), lambda s: value(s.loss, printed)),
        (Column("gradient norm", right=True, notation=printouts), lambda s: value(s.grad_norm, printed)),
        (Column("lr", right=True, notation=settings), lambda s: _lrs(s.lr)),
        (Column("data wait", right=True, spare=True), _waited),
        (Column("resident", right=True, spare=True, notation=sizes), lambda s: measured(s.rss_bytes, size)),
    ]
    if any(s.cuda_allocated_bytes is not None for s in steps):
        fields += [
            (Column("CUDA", right=True, notation=sizes), lambda s: measured(s.cuda_allocated_bytes, size)),
            (Column("CUDA peak", right=True, notation=sizes), lambda s: measured(s.cuda_peak_bytes, size)),
        ]
    if any(s.micro_batches > 1 for s in steps):
        column = Column("last batch's", right=True, notation=printouts)
        fields.insert(_after(fields, "loss"), (column, lambda s: value(s.loss_last, printed)))
        fields.append((Column("batches", right=True), lambda s: str(s.micro_batches)))
    if any(s.clip_norm is not None for s in steps):
        column = Column("clipped to", right=True, notation=printouts)
        fields.insert(_after(fields, "gradient norm"), (column, lambda s: value(s.grad_norm_clipped, printed)))
    if len({s.optimizer for s in steps}) > 1:
        fields.append((Column("optimizer", right=True), lambda s: str(s.optimizer)))
    rows = [[show(s) for _, show in fields] for s in reversed(steps)]
    return Table("Latest steps, newest first", [column for column, _ in fields], rows, LAST, "steps")


def _after(fields: Sequence[tuple[Column, Callable[[Step], Inline]]], name: str) -> int:
    return next(i for i, (column, _) in enumerate(fields) if column.name == name) + 1


def _lrs(lrs: Sequence[float | None]) -> Inline:
    if len(set(lrs)) == 1:
        return setting(lrs[0])
    different = list(dict.fromkeys("–" if lr is None else number(lr) for lr in lrs))
    return ", ".join(different[:3]) + (f", ... ({len(different)})" if len(different) > 3 else "") or DASH


def _waited(step: Step) -> Inline:
    if step.data_wait_s is None or not step.duration_s:
        return DASH
    return measured(step.data_wait_s / step.duration_s, percent)


# --- many ranks ----------------------------------------------------------------------------------------------------


def _summary(ranks: Sequence[RankSteps]) -> Table:
    paces = {r.rank: median(s.duration_s for s in r.steps) for r in ranks}
    slow = slowest(ranks)
    late = behind_by_rank(ranks)

    def remark(r: RankSteps) -> Inline:
        words: list[str | Span] = []
        if r.ended:
            return Span("ended", "bad")
        if not r.steps:
            return Span("no step yet", "warn")
        if slow is not None and r.rank == slow[0]:
            words.append(Span(f"slowest, {number(slow[1])} x the median", "warn"))
        if r.rank in late:
            words.append(Span(f"{plural(late[r.rank], 'step')} behind", "warn"))
        loss = r.steps[-1].loss
        if loss is not None and not math.isfinite(loss):
            words.append(Span("loss is not finite", "bad"))
        return [part for i, word in enumerate(words) for part in ((", ", word) if i else (word,))]

    remarked = any(map(remark, ranks))
    numbered = step_columns([r.steps[-1].number for r in ranks if r.steps], "last step")

    def row(r: RankSteps) -> list[Inline]:
        shares = shares_of(r)
        last = r.steps[-1] if r.steps else None
        return [
            Span(f"rank {r.rank}", "strong"),
            *(show(last.number) if last else DASH for _, show in numbered),
            measured(paces[r.rank], duration),
            measured(shares[0][1] if shares else None, percent),
            value(last.loss if last else None, printed),
            _lrs(last.lr if last else ()),
            *([remark(r)] if remarked else []),
        ]

    remarkable = (
        sorted(ranks, key=lambda r: (not remark(r), -(paces[r.rank] or 0.0), r.rank)) if len(ranks) > 20 else ranks
    )
    columns = [Column("rank"), *(column for column, _ in numbered)]
    columns += [Column("median step", right=True, notation=durations), Column("data wait", right=True)]
    columns += [Column("last loss", right=True, notation=printouts), Column("lr", right=True, notation=settings)]
    caption = "Ranks, the remarkable and the slowest first" if len(ranks) > 20 else "Ranks"
    return Table(
        caption,
        [*columns, *([Column("remark", wrap=True)] if remarked else [])],
        [row(r) for r in remarkable],
        20 if len(ranks) <= 20 else 12,
        "ranks",
    )
