"""Learning rates that cannot be meant: other ones on other ranks, zero for ever, or a thousand times what an optimizer can take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...language import later, text
from ...model import Finding, NotAvailable, OptimizerLr, RankLr, Soundness, Step, rank_subjects
from ...no_step import by_hand
from ...words.ranks import ranks_words
from ..hang.case import Case, Hit, View
from ..hang.words import alike
from .seen import at_step, figure, seen, unseen

__all__ = ["CODES", "EXPLAINS", "TOPIC", "VERB", "rule", "words"]

TOPIC = later("learning rate")
VERB = "lr"
CODES = frozenset({"lr_differs", "lr_zero", "lr_implausible"})
EXPLAINS = {"lr_implausible": ("nonfinite_loss", "nonfinite_gradient", "loss_diverging")}

LEAST_STEPS = 3
"""A warm-up may begin with a step of zero."""
COMPARED = 64
ADAM = frozenset(
    {"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Lion", "AdamW8bit", "Adam8bit", "FusedAdam", "DeepSpeedCPUAdam"}
)
"""Whose steps move each weight by about the learning rate, whatever the gradient. (Prodigy and D-Adaptation, which want 1, are others.)"""
MOST: Mapping[str, float] = {**dict.fromkeys(ADAM, 1.0), "SGD": 100.0}
"""From here on a learning rate cannot be meant. SGD with large batches and momentum goes up to some tens."""


def rule(case: Case) -> list[Hit]:
    """What cannot be meant on one rank, then what differs between ranks."""
    ranks = seen(case)
    return [*_implausible(ranks), *_zero(ranks), *_differs(ranks)]


def words(case: Case) -> str | NotAvailable:
    """The first group's on the first rank, and whether it was compared with that of all others."""
    ranks = seen(case)
    last = [(v.rank, rates) for v, s in ranks if (rates := _last_rates(s))]
    if not last:
        own = next((s for _, s in ranks if by_hand(s.steps)), None)
        return unseen(case) if own is None else NotAvailable(_own())
    rank, rates = last[0]
    many = text(", {count} groups", count=len(rates)) if len(rates) > 1 else ""
    return figure(rates[0]) + many + (_compared_words(ranks, rank) if len(case.views) > 1 else "")


def _own() -> str:
    return text("no optimizer of torch's: it is the program's own")


def _compared_words(ranks: Sequence[tuple[View, Soundness]], rank: int) -> str:
    stepped = [(v, s) for v, s in ranks if s.steps]
    alike_all = len(stepped) == len(ranks) > 1 and len({_shape(s) for _, s in stepped}) == 1
    if alike_all and _last_in_common(stepped) is not None:  # else there would be a finding
        return text(", the same on all ranks")
    return text(" on rank {rank}", rank=rank)


def _last_rates(sound: Soundness) -> Sequence[float | None]:
    """Those of the last step; before there was one, those that the optimizers have now."""
    if sound.steps:
        return sound.steps[-1].lr
    now = [g.effective_lr for o in _optimizers(sound) for g in o.groups]
    return [None if isinstance(rate, NotAvailable) else rate for rate in now]


# --- too large, and zero -------------------------------------------------------------------------------------------


def _implausible(ranks: Sequence[tuple[View, Soundness]]) -> list[Hit]:
    found = [
        (v, o, rate)
        for v, s in ranks
        for o in _optimizers(s)
        if (rate := _greatest(o)) >= MOST.get(o.optimizer, math.inf)
    ]
    if not found:
        return []
    _, optimizer, rate = max(found, key=lambda one: one[2])
    blamed = sorted({v.rank for v, _, _ in found})
    adam = optimizer.optimizer in ADAM
    cause = (
        text(
            "A step of this optimizer moves each weight by about the learning rate, whatever its gradient: "
            "weights of about 0.1 do not survive one such step."
        )
        if adam
        else text("No model takes steps of such a size: a unit or an exponent is wrong.")
    )
    finding = Finding(
        "lr_implausible",
        "critical",
        text("The learning rate of {optimizer} is {figure}", optimizer=optimizer.optimizer, figure=figure(rate)),
        rank_subjects(blamed),
        evidence=[
            text("rank {rank}: {optimizer} with {figure}", rank=v.rank, optimizer=o.optimizer, figure=figure(r))
            for v, o, r in found[:8]
        ],
        cause=cause,
        next_steps=[
            text(
                "Look for a wrong exponent, or a factor applied twice (world size, accumulation, batch size); "
                "usual is 1e-5 to 1e-3."
            ),
            text(
                "Start again from a checkpoint before it: what was trained with it is lost. `%lr 3e-4` sets it "
                "while the job runs."
            ),
        ],
    )
    return [Hit(finding, blamed)]


def _optimizers(sound: Soundness) -> Sequence[OptimizerLr]:
    return () if isinstance(sound.lr, NotAvailable) else sound.lr.optimizers


def _greatest(optimizer: OptimizerLr) -> float:
    rates = [g.effective_lr for g in optimizer.groups if not isinstance(g.effective_lr, NotAvailable)]
    return max(rates, default=0.0)


def _zero(ranks: Sequence[tuple[View, Soundness]]) -> list[Hit]:
    blamed = [(v, s) for v, s in ranks if _stands_at_zero(s)]
    if not blamed:
        return []
    sound = blamed[0][1]
    last = sound.steps[-1]
    scheduler = next((str(o.scheduler) for o in _optimizers(sound) if not isinstance(o.scheduler, NotAvailable)), "")
    finding = Finding(
        "lr_zero",
        "critical",
        text("The learning rate is 0 at {at_step}, and has been: no weight moves", at_step=at_step(last)),
        rank_subjects(v.rank for v, _ in blamed),
        evidence=[
            text("rank {rank}: 0 in every group at the last {zeros} steps", rank=v.rank, zeros=_zeros(s))
            for v, s in blamed[:8]
        ]
        + ([text("its scheduler is {scheduler}", scheduler=scheduler)] if scheduler else []),
        cause=text(
            "The schedule has run out: it was made for fewer steps than are trained. Or a warm-up counts "
            "something that does not advance."
        ),
        next_steps=[
            text(
                "Compare the schedule's number of steps with the trainer's (accumulation and world size count "
                "differently)."
            ),
            text("`%lr VALUE` trains on with that rate, from the next step."),
        ],
    )
    return [Hit(finding, [v.rank for v, _ in blamed])]


def _stands_at_zero(sound: Soundness) -> bool:
    """At all of the last steps, and no scheduler will change it soon."""
    following = [g.next_lr for o in _optimizers(sound) for g in o.groups if not isinstance(g.next_lr, NotAvailable)]
    return _zeros(sound) >= LEAST_STEPS and not any(any(rates) for rates in following)


def _zeros(sound: Soundness) -> int:
    """At how many of the last steps every rate was zero."""
    count = 0
    for step in reversed(sound.steps):
        if not step.lr or any(rate != 0 for rate in step.lr):
            break
        count += 1
    return count


# --- not the same on all ranks -------------------------------------------------------------------------------------


def _differs(ranks: Sequence[tuple[View, Soundness]]) -> list[Hit]:
    """Among ranks that train the same: with as many groups, of as many elements. The fewer are blamed."""
    hits = []
    for same in alike([(v, s) for v, s in ranks if s.steps], lambda one: _shape(one[1])):
        if len(same) > 1 and (step := _last_in_common(same)) is not None:
            hits += _compared(same, step)
    return hits


def _shape(sound: Soundness) -> tuple[object, ...]:
    groups = tuple(tuple(g.elements for g in o.groups) for o in _optimizers(sound))
    return groups or (len(sound.steps[-1].lr),)


def _key(step: Step) -> tuple[int, int] | None:
    if step.optimizer is None or step.optimizer_step is None:
        return None
    return step.optimizer, step.optimizer_step


def _rates(sound: Soundness) -> dict[tuple[int, int], Step]:
    return {key: s for s in sound.steps[-COMPARED:] if (key := _key(s)) is not None}


def _last_in_common(same: Sequence[tuple[View, Soundness]]) -> dict[int, Step] | None:
    """By rank the record of the latest step that all of them have, as their optimizers count. Of optimizers that do not count, the last
    ones, where the rate has been the same at all steps of each.
    """
    by_rank = {v.rank: _rates(s) for v, s in same}
    common = set.intersection(*(set(found) for found in by_rank.values()))
    if common:
        key = max(common, key=lambda k: k[1])
        return {rank: found[key] for rank, found in by_rank.items()}
    constant = all(len({tuple(step.lr) for step in s.steps[-COMPARED:]}) == 1 for _, s in same)
    uncounted = not any(by_rank.values())
    return {v.rank: s.steps[-1] for v, s in same} if constant and uncounted else None


def _compared(same: Sequence[tuple[View, Soundness]], at: Mapping[int, Step]) -> list[Hit]:
    groups = alike(sorted(at), lambda rank: _rounded(at[rank].lr))
    if len(groups) < 2:
        return []
    most = max(groups, key=len) if len({len(g) for g in groups}) > 1 else groups[0]
    odd = sorted(rank for g in groups if g is not most for rank in g)
    counted = _key(at[most[0]]) is not None
    where = text("at {at_step}", at_step=at_step(at[most[0]])) if counted else text("at every step seen")
    finding = Finding(
        "lr_differs",
        "critical",
        (
            text(
                "{odd} train with another learning rate than {most}",
                odd=ranks_words(odd).capitalize(),
                most=ranks_words(most),
                odd2=ranks_words(odd),
            )
            if len(odd) > 1
            else text(
                "{odd} trains with another learning rate than {most}",
                odd=ranks_words(odd).capitalize(),
                most=ranks_words(most),
                odd2=ranks_words(odd),
            )
        ),
        rank_subjects(odd),
        evidence=[f"{ranks_words(g)}: {', '.join(figure(r) for r in at[g[0]].lr)}, {where}" for g in groups[:8]]
        + _in_force(same),
        cause=text(
            "Ranks that share their gradients but not their steps drift apart: from here on each trains another model."
        ),
        next_steps=[
            text("Set one rate on all ranks, at the same step: `%lr VALUE`."),
            text(
                "Find what makes the rates: a schedule that counts batches of its own rank, an option read on "
                "one rank only."
            ),
            text("The weights have drifted already: broadcast those of one rank, or go back to a checkpoint."),
        ],
    )
    return [Hit(finding, odd)]


def _rounded(rates: Sequence[float | None]) -> tuple[float | None, ...]:
    """Equal for rates that differ by rounding only."""
    return tuple(None if r is None else float(f"{r:.5g}") for r in rates)


def _in_force(same: Sequence[tuple[View, Soundness]]) -> list[str]:
    changed = [v.rank for v, s in same if isinstance(s.lr, RankLr) and s.lr.in_force]
    if not changed:
        return []
    return [text("a change of ours is in force on {changed}", changed=ranks_words(changed))]
