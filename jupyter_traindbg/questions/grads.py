"""Scan the gradients, parameter by parameter: norms, NaN and Inf, zeros; or catch the first module that makes a NaN."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .. import evidence
from ..actions.matching import Matched, match
from ..diagnose.soundness.gradients import findings
from ..language import text
from ..model import NA, Grads, Maybe, NotAvailable, RankGrads
from ..step_numbers import same_step
from .base import DEADLINE_S, Ranks, Whom

EXAMPLES = (
    ("", "norms, NaN and zeros after one step, the same on all ranks"),
    ("--first-nan", "wait for the first module that makes a NaN, and name it"),
    ("--detail", "greatest value and zeros of every gradient"),
)
WHOM = Whom.AGENTS
OPTIONS = {
    "detail": "greatest value and zeros of every gradient, also the finite ones",
    "first_nan": "watch one step and name the first module, in execution order, whose output is not finite",
}
MATCH_SHARE, MATCH_S = 0.25, 2.5
"""How long steps that all ranks share are waited for, as a share of the whole time and at most: the rest is for reading."""
ATTEMPTS = 2
"""A rank that prepares for long (it looks for its objects for the first time) may come too late once."""
ENOUGH_S = 1.0
"""With less time left there is no second attempt."""


def ask(job: Ranks, *, detail: bool = False, first_nan: bool | int = False, timeout: float = DEADLINE_S) -> Grads:
    """Every parameter's gradient, read at the next safe point, or straight away (and said so) where the job does not step.

    Several ranks are read after the same optimizer step, where it can be told which that is: only then can they be compared. Each says
    where it is, a step a little ahead of all of them is chosen, and each reads when it gets there; where that does not work out (the
    ranks share no step, or do not step at all) they are read as they come. `Grads.same_step` says whether it did.

    Norms of all; counts, greatest value and zeros of those that are not finite, or of all with `detail`. `first_nan` arms one
    step (a number: so many at most, until it fires) and names the first module whose output is not finite. Costs the training
    thread one pass over the gradients.
    """
    ends = time.monotonic() + timeout
    params: dict[str, Any] = {"detail": detail, "first_nan": int(first_nan)}
    matched: Maybe[Matched] = NA("each rank was watched for the first NaN, and read when that was over")
    if job.several and not first_nan:
        matched = match(job.ask_agents, ends, min(MATCH_S, timeout * MATCH_SHARE))
    for attempt in range(ATTEMPTS):
        left_s = max(0.05, ends - time.monotonic())
        target = None if isinstance(matched, NotAvailable) or len(matched.paces) < 2 else matched.target(attempt)
        found, silent = job.ask_agents(
            "grads", {**params, "deadline_s": left_s * 0.9}, left_s, evidence.grads, of_rank=target
        )
        same = _same_step(found, matched)
        stepping = all(rank.safe_point for rank in found)
        if target is None or same or silent or not stepping or ends - time.monotonic() < ENOUGH_S:
            break
        matched = match(job.ask_agents, ends, 0.0)
    return Grads(found, silent, tuple(findings(found)), same)


def _same_step(ranks: Sequence[RankGrads], matched: Maybe[Matched]) -> Maybe[bool]:
    """Whether all were read after one step: by the steps that were found to be the same, or by the optimizers' own counts."""
    after = [rank.after_step for rank in ranks]
    if not all(rank.safe_point for rank in ranks):
        return NA("not all ranks were read at a safe point")
    if not isinstance(matched, NotAvailable) and all(rank.rank in matched.shift for rank in ranks):
        shift = [matched.shift[rank.rank] for rank in ranks]
        return (
            len({step - by for step, by in zip(after, shift, strict=True) if not isinstance(step, NotAvailable)}) <= 1
        )
    same = same_step([rank.number for rank in ranks])
    if same is None:
        return NA(matched.reason if isinstance(matched, NotAvailable) else text(evidence.NO_COUNT))
    return same
