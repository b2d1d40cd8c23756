"""`Steps`: how fast, and where the loss goes; the latest steps of one rank, medians and the slowest of many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ...language import counted, later_counted, pgettext, text
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
from ..units import number, percent, printed, size

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
            yield Line([text("median step: "), *spans(spread(paces, duration))])
        if len(result.ranks) <= FEW:
            yield from (Fold(text("latest steps of rank {rank}", rank=r.rank), list(_one(r))) for r in stepped)
        else:
            yield from (c for c in [_loss(worst, text("loss of rank {rank}", rank=worst.rank))] if c)
        yield Line([text("one rank's history: "), Span(f"%steps --rank {worst.rank}", "code")])
    notes = notes_of((r.rank, note) for r in result.ranks for note in (r.note, _earlier(r)))
    if notes:
        yield Items(notes)


def _ended(ranks: Sequence[RankSteps]) -> Iterator[Line]:
    """Whose steps these are the last of; of one rank the answer has told it."""
    for same in group_by([r for r in ranks if r.ended and len(ranks) > 1], lambda r: r.ended):
        who = Span(compact_ranks([r.rank for r in same]), "strong")
        yield Line([who, text(": "), Span(same[0].ended, "warn"), text("; its last known steps are shown")])


def _without_steps(ranks: Sequence[RankSteps]) -> Iterator[Line]:
    """What was seen where no step has come for long, or never; and where backward passes are the steps."""
    for same in group_by(late_ranks(ranks), lambda one: tuple(why(one[1]))):
        who: list[str | Span] = (
            [Span(compact_ranks([r.rank for r, _ in same]), "strong"), text(": "), seen(same[0][1]), text("; ")]
            if len(ranks) > 1
            else []
        )
        yield Line([*who, text("; ").join(why(same[0][1]))])
    if any(by_hand(r.steps) for r in ranks):
        yield Line([Span(by_hand_words(), "muted")])


def _earlier(rank: RankSteps) -> str:
    before = rank.run_began - 1
    words = later_counted(
        "{n:,} step before these were an earlier run's; --since 0 shows them, too",
        "{n:,} steps before these were an earlier run's; --since 0 shows them, too",
    )
    return counted(*words, before) if before else ""


# --- one rank ------------------------------------------------------------------------------------------------------


def _one(rank: RankSteps) -> Iterator[Block]:
    curve = _loss(rank, text("loss"))
    if curve:
        yield curve
        if how := _loss_kind(rank.steps):
            yield Line([Span(text("loss: {how}", how=how), "muted")])
    yield from _split(rank)
    yield _latest(rank)


def _loss(rank: RankSteps, label: str) -> Curve | None:
    losses = [s.loss for s in rank.steps if s.loss is not None]
    if not losses:
        return None
    known = finite(losses)
    words = [text("latest {loss}", loss=printed(losses[-1]))]
    if known:
        words.append(text("least {least}, greatest {most}", least=printed(min(known)), most=printed(max(known))))
    if len(known) < len(losses):
        n = len(losses) - len(known)
        words.append(text("{n} not finite (first at {step})", n=n, step=first_bad(rank)))
    words.append(counted("{n:,} step", "{n:,} steps", len(losses)))
    return Curve(label, losses, text(", ").join(words))


def _loss_kind(steps: Sequence[Step]) -> str:
    """What the loss of a step is, where a step has several; nothing where it has one."""
    last = next((s for s in reversed(steps) if s.micro_batches > 1), None)
    if last is None:
        return ""
    n = last.micro_batches
    if last.loss_kind == "evaluated":
        return text("the first of {n} evaluations in the step, as step(closure) returns it", n=n)
    if last.loss_kind == "given":
        return text(
            "the mean of what backward() was given, {n} times a step; whether it had been divided is not known", n=n
        )
    return text("the mean over the {n} micro-batches of a step", n=n)


def _split(rank: RankSteps) -> Iterator[Block]:
    shares = shares_of(rank)
    if not shares:
        return
    seen = any(s.forward_seen for s in rank.steps)
    names = {} if seen else {"forward_s": text("forward and all before it")}
    parts = [Part(names.get(part.field, text(part.name)), share, percent(share)) for part, share in shares]
    yield Bar(text("where the time of a step goes (medians)"), parts)
    shown = {part.field for part, _ in shares}
    for part in PARTS:
        took = [v for s in rank.steps if (v := getattr(s, part.field)) is not None]
        if part.field not in shown and took:
            yield Line(
                counted(
                    "besides: {part}, {took} in {some} of {n:,} step",
                    "besides: {part}, {took} in {some} of {n:,} steps",
                    len(rank.steps),
                    part=text(part.name),
                    took=duration(sum(took)),
                    some=len(took),
                )
            )


def _latest(rank: RankSteps) -> Table:
    steps = rank.steps[-LAST:]
    fields: list[tuple[Column, Callable[[Step], Inline]]] = [
        *((column, lambda s, show=show: show(s.number)) for column, show in step_columns(s.number for s in steps)),
        (Column(pgettext("a time", "at"), right=True, spare=True), lambda s: clock(s.time_s)),
        (Column(text("took"), right=True, notation=durations), lambda s: measured(s.duration_s, duration)),
        (Column(text("loss"), right=True, notation=printouts), lambda s: value(s.loss, printed)),
        (Column(text("gradient norm"), right=True, notation=printouts), lambda s: value(s.grad_norm, printed)),
        (Column(pgettext("heading", "lr"), right=True, notation=settings), lambda s: _lrs(s.lr)),
        (Column(text("data wait"), right=True, spare=True), _waited),
        (Column(text("resident"), right=True, spare=True, notation=sizes), lambda s: measured(s.rss_bytes, size)),
    ]
    if any(s.cuda_allocated_bytes is not None for s in steps):
        fields += [
            (Column("CUDA", right=True, notation=sizes), lambda s: measured(s.cuda_allocated_bytes, size)),
            (Column(text("CUDA peak"), right=True, notation=sizes), lambda s: measured(s.cuda_peak_bytes, size)),
        ]
    if any(s.micro_batches > 1 for s in steps):
        column = Column(text("last batch's"), right=True, notation=printouts)
        fields.insert(_after(fields, text("loss")), (column, lambda s: value(s.loss_last, printed)))
        fields.append((Column(text("batches"), right=True), lambda s: str(s.micro_batches)))
    if any(s.clip_norm is not None for s in steps):
        column = Column(text("clipped to"), right=True, notation=printouts)
        fields.insert(_after(fields, text("gradient norm")), (column, lambda s: value(s.grad_norm_clipped, printed)))
    if len({s.optimizer for s in steps}) > 1:
        fields.append((Column(text("optimizer"), right=True), lambda s: str(s.optimizer)))
    rows = [[show(s) for _, show in fields] for s in reversed(steps)]
    return Table(
        text("Latest steps, newest first"), [column for column, _ in fields], rows, LAST, pgettext("more", "steps")
    )


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
            return Span(text("ended"), "bad")
        if not r.steps:
            return Span(text("no step yet"), "warn")
        if slow is not None and r.rank == slow[0]:
            words.append(Span(text("slowest, {times} x the median", times=number(slow[1])), "warn"))
        if r.rank in late:
            words.append(Span(counted("{n:,} step behind", "{n:,} steps behind", late[r.rank]), "warn"))
        loss = r.steps[-1].loss
        if loss is not None and not math.isfinite(loss):
            words.append(Span(text("loss is not finite"), "bad"))
        return [part for i, word in enumerate(words) for part in ((text(", "), word) if i else (word,))]

    remarked = any(map(remark, ranks))
    numbered = step_columns([r.steps[-1].number for r in ranks if r.steps], text("last step"))

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
    columns += [Column(text("median step"), right=True, notation=durations), Column(text("data wait"), right=True)]
    columns += [Column(text("last loss"), right=True, notation=printouts)]
    columns += [Column(pgettext("heading", "lr"), right=True, notation=settings)]
    caption = text("Ranks, the remarkable and the slowest first") if len(ranks) > 20 else text("Ranks")
    return Table(
        caption,
        [*columns, *([Column(text("remark"), wrap=True)] if remarked else [])],
        [row(r) for r in remarkable],
        20 if len(ranks) <= 20 else 12,
        pgettext("more", "ranks"),
    )
