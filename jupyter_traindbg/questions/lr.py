"""Show learning rate, weight decay, momentum or betas of every param group, and its schedule."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from .. import evidence
from ..model import LearningRates, RankLr, RankSteps, Setting, Silent
from ..schedules import agree
from . import steps
from .base import DEADLINE_S, InReport, Ranks, Whom

WHOM = Whom.AGENTS
IN_REPORT = InReport("Learning rates", 45)
LOOKS = 3
LATEST = 16
"""So many steps tell at what the training's own code clips: each of several optimizers has made one of them."""


def ask(job: Ranks, *, setting: Setting = "lr", timeout: float = DEADLINE_S) -> LearningRates:
    """Learning rate, weight decay, momentum or betas of every param group, and its schedule. `setting` is what is shown first."""
    return _with_own_clips(job, LearningRates(*_settled(job, timeout), setting), timeout)


def _settled(job: Ranks, timeout: float) -> tuple[Sequence[RankLr], Sequence[Silent]]:
    """What the ranks use, asked again where they seem to be on other schedules: a step may have come while one of them was read. All
    within `timeout`.
    """
    ends = time.monotonic() + timeout
    ranks, silent = job.ask_agents("lr", {}, timeout, evidence.lr)
    for _ in range(LOOKS - 1):
        left_s = ends - time.monotonic()
        if silent or agree(ranks) or left_s < timeout / 2:
            break
        ranks, silent = job.ask_agents("lr", {}, left_s, evidence.lr)
    return ranks, silent


def _with_own_clips(job: Ranks, rates: LearningRates, timeout: float) -> LearningRates:
    """`rates`, and where clipping was asked about also what the training's own code does, by its last steps.

    Nothing is known of ranks on which clipping of ours is in force: the norm that a step was clipped at may then be ours.
    """
    free = {r.rank: r for r in rates.ranks if all(a.setting != "clip_norm" for a in r.in_force)}
    if rates.setting != "clip_norm" or rates.silent or not free:
        return rates
    latest = steps.ask(job, last=LATEST, timeout=timeout).ranks
    norms = {norm for rank in latest if rank.rank in free for norm in _own_clips(free[rank.rank], rank)}
    return replace(rates, own_clip_norms=tuple(sorted(norms)))


def _own_clips(rates: RankLr, seen: RankSteps) -> set[float]:
    """What the latest step of each optimizer was clipped at; those before the last change of clipping do not count."""
    since = max((e.step for e in rates.log if any(g.setting == "clip_norm" for g in e.groups)), default=0)
    latest = {step.optimizer: step.clip_norm for step in seen.steps if step.step >= since}
    return {norm for norm in latest.values() if norm is not None}
