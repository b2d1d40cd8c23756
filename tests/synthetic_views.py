"""A job that is none, which answers for 300 ranks what a recorded one did: whether its views can still be read."""

from __future__ import annotations

from typing import Any

from render_scenes import collectives, grads, lr_in_force, stacks
from render_scenes_diagnosis import stuck
from synthetic import Synthetic

from jupyter_traindbg.model import Collectives, Diagnosis, Grads, LearningRates, Stacks

__all__ = ["Answering"]


class Answering(Synthetic):
    """Rank 17 holds the others up."""

    def __init__(self, ranks: int = 300) -> None:
        super().__init__(ranks, hz=2.0, before=200)
        self._many = ranks

    def diagnose(self, *, timeout: float) -> Diagnosis:
        return stuck(self._many, odd=17)

    def stacks(self, *, timeout: float) -> Stacks:
        return stacks(self._many, odd=17)

    def collectives(self, *, timeout: float) -> Collectives:
        return collectives(self._many, late=17)

    def grads(self, *, timeout: float, **_: Any) -> Grads:
        return grads(self._many, 400, bad_rank=7)

    def lr(self, *, timeout: float) -> LearningRates:
        return lr_in_force(self._many)
