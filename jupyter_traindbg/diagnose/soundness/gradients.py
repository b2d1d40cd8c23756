"""Gradients that are not finite, named by parameter, with the module that made the first NaN where one was caught; and zeros."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import later, text
from ...model import Finding, FirstNonFinite, GradStat, NotAvailable, RankGrads, Subject, rank_subjects, things
from ...step_numbers import read_after
from ...words.ranks import ranks_words
from ..hang.case import Case, Hit
from .seen import figure, seen, unseen

__all__ = ["CODES", "TOPIC", "VERB", "findings", "rule", "words"]

TOPIC = later("gradients")
VERB = "grads"
SAMPLES = 2
"""So many norms of zero besides say that it is so at every step."""
CODES = frozenset({"nonfinite_activation", "nonfinite_gradient", "zero_gradients"})


def findings(ranks: Sequence[RankGrads]) -> list[Finding]:
    """The module that made the first NaN where one was caught, then the parameters whose gradients are not finite, then all zeros."""
    return [*_first_module(ranks), *_not_finite(ranks), *_zero(ranks)]


def rule(case: Case) -> list[Hit]:
    """The same of what a diagnosis has read. Zeros at one step are none where other steps had gradients: a batch that taught nothing."""
    norms = {v.rank: [step.grad_norm for step in s.steps if step.grad_norm is not None] for v, s in seen(case)}
    ranks = [r for r in _read(case) if not _overflowed(r)]  # how often a scaler skips its own topic tells
    still = [r for r in ranks if not any(norms[r.rank])]
    always = all(len(norms[r.rank]) >= SAMPLES for r in still)
    found = [*_first_module(ranks), *_not_finite(ranks), *_zero(still, always=always)]
    return [Hit(f, f.ranks) for f in found]


def words(case: Case) -> str | NotAvailable:
    """How many there are, and their norm."""
    ranks = _read(case)
    if not ranks:
        reasons = [g.reason for _, s in seen(case) if isinstance(g := s.grads, NotAvailable)]
        return NotAvailable(reasons[0]) if reasons else unseen(case)
    grads = [g for g in ranks[0].grads if not isinstance(g.norm, NotAvailable)]
    if _overflowed(ranks[0]):
        return NotAvailable(text("they overflow with the scaler's factor in them"))
    if not grads:
        return NotAvailable(ranks[0].note or ranks[0].at)
    norm = "-" if isinstance(ranks[0].total_norm, NotAvailable) else figure(ranks[0].total_norm)
    unread = [v.rank for v, s in seen(case) if isinstance(s.grads, NotAvailable)]
    but = text("; not read on {unread}", unread=ranks_words(unread)) if unread else ""
    return text("{count}, all finite, norm {norm}", count=len(grads), norm=norm) + _when(ranks[0]) + but


def _when(rank: RankGrads) -> str:
    if rank.passes is None:
        return text(" at the step")
    return text(" at the end of a backward pass: no step had come")


def _read(case: Case) -> list[RankGrads]:
    return [s.grads for _, s in seen(case) if not isinstance(s.grads, NotAvailable)]


def _zero(ranks: Sequence[RankGrads], *, always: bool = False) -> list[Finding]:
    """`always`: not at this step alone."""
    blamed = [r for r in ranks if _all_zero(r)]
    if not blamed:
        return []
    when = text("nothing is learned") if always else text("this step teaches nothing")
    count = sum(not isinstance(g.norm, NotAvailable) for g in blamed[0].grads)
    return [
        Finding(
            code="zero_gradients",
            severity="critical" if always else "warning",
            title=text("All {count} gradients are zero: {when}", count=count, when=when),
            who=rank_subjects(r.rank for r in blamed),
            evidence=[
                text("rank {rank}: norm 0, {read_after}", rank=r.rank, read_after=read_after(r)) for r in blamed[:8]
            ],
            cause=text(
                "What reaches backward() does not depend on the parameters: a mask or labels that leave nothing "
                "to make a loss of, a loss multiplied by zero, saturated activations, equal rewards in every "
                "group."
            ),
            next_steps=[
                text(
                    "Look at one batch as the loss sees it: how many labels are left after masking, and the value of "
                    "the loss (`%steps`)."
                ),
                text(
                    "In reinforcement learning: the spread of the rewards within a group; where they are equal, "
                    "every advantage is zero."
                ),
            ],
        )
    ]


def _all_zero(rank: RankGrads) -> bool:
    norms = [g.norm for g in rank.grads if not isinstance(g.norm, NotAvailable)]
    return bool(norms) and not any(norms)


def _first_module(ranks: Sequence[RankGrads]) -> list[Finding]:
    hits = [(r, r.first) for r in ranks if r.first is not None and r.first.module is not None]
    if not hits:
        return []
    _, first = hits[0]
    return [
        Finding(
            code="nonfinite_activation",
            severity="critical",
            title=text(
                "The first non-finite output comes from module {module} ({kind})", module=first.module, kind=first.kind
            ),
            who=[*(Subject("rank", r.rank) for r, _ in hits), *things([str(first.module)])],
            evidence=[
                text(
                    "its inputs were {state}, its weights {state2}",
                    state=_state(first.inputs_finite),
                    state2=_state(first.weights_finite),
                ),
                text("{modules_seen} module calls were watched in execution order", modules_seen=first.modules_seen),
            ],
            cause=_cause(first),
            next_steps=[_step(first)],
        )
    ]


def _state(finite: bool | NotAvailable) -> str:
    if isinstance(finite, NotAvailable):
        return text("unknown")
    return text("finite") if finite else text("not finite")


def _cause(first: FirstNonFinite) -> str:
    if first.weights_finite is False:
        return text("Its weights are already damaged: an earlier optimizer step applied a non-finite gradient.")
    if first.inputs_finite is False:
        return text("Its inputs are already non-finite: look at the data, or at what runs before the first module.")
    return text(
        "The module itself produced it from finite inputs and weights: overflow, division by zero, log of zero."
    )


def _step(first: FirstNonFinite) -> str:
    if first.weights_finite is False:
        return text("Go back to a checkpoint before the damage; clip gradients and lower the learning rate from there.")
    if first.inputs_finite is False:
        return text("Check the batch for NaN/Inf before the forward pass.")
    return text("Compute this module in float32 or bfloat16, or add an epsilon where it divides or takes a logarithm.")


def _not_finite(ranks: Sequence[RankGrads]) -> list[Finding]:
    bad = [(r, g) for r in ranks for g in r.grads if g.nan_count or g.inf_count]
    if not bad:
        return []
    scaled = all(_overflowed(r) and (r.scale or 0.0) > 1 for r, _ in bad)  # a smaller factor overflows nothing
    names = list(dict.fromkeys(g.name for _, g in bad))
    more = text(" and {count} more", count=len(names) - 1, count2=len(names)) if len(names) > 1 else ""
    return [
        Finding(
            code="nonfinite_gradient",
            severity="warning" if scaled else "critical",
            title=text("The gradient of {names}{more} is not finite", names=names[0], more=more),
            who=[*(Subject("rank", n) for n in dict.fromkeys(r.rank for r, _ in bad)), *things(names[:20])],
            evidence=[_evidence(r, g) for r, g in bad[:10]],
            cause=_overflow(bad[0][0].scale)
            if scaled
            else text(
                "A non-finite loss or activation reached the backward pass, or the backward pass itself overflowed."
            ),
            next_steps=[
                text("Run `%grads --first-nan`: it names the first module whose output is not finite."),
                text("Under a GradScaler single overflows are normal: the scaler skips that step."),
            ],
        )
    ]


def _overflowed(rank: RankGrads) -> bool:
    """Whether gradients are not finite before a scaler has looked at them: it will skip that step."""
    return rank.scale is not None and any(g.nan_count or g.inf_count for g in rank.grads)


def _overflow(scale: float | None) -> str:
    factor = figure(scale)
    return text(
        "With the GradScaler's factor {factor} still in them they overflow: it skips this step, and "
        "halves the factor. Once in a while that is normal; `diagnose` tells whether it skips every step.",
        factor=factor,
    )


def _evidence(rank: RankGrads, grad: GradStat) -> str:
    return text(
        "rank {rank}, {name}: {nan_count} NaN, {inf_count} Inf, {read_after}",
        rank=rank.rank,
        name=grad.name,
        nan_count=grad.nan_count,
        inf_count=grad.inf_count,
        read_after=read_after(rank),
    )
