"""Courses of jobs that are made up, and pictures of them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from feeds import BEGAN_S, Made, record

from jupyter_traindbg import pictures
from jupyter_traindbg.live import Feed
from jupyter_traindbg.model import Doing, Picture

__all__ = ["CHANGED", "course_feed", "doings", "falling", "picture_of_loss", "picture_of_lr"]

CHANGED = "learning rate: the schedule x 0.1"


def course_feed(
    losses: Sequence[float | None] | Mapping[int, Sequence[float | None]],
    *,
    lr: Sequence[float] = (),
    scheduled: Sequence[float] = (),
    own: int | None = 8000,
    doings: Sequence[Doing] = (),
) -> Feed:
    """A feed of one rank, or of several by number, with a loss for each step, and learning rates. `own`: what the optimizer had counted
    before; None: it keeps no count.
    """
    by_rank = losses if isinstance(losses, Mapping) else {0: losses}
    made = Made(len(by_rank))
    for rank, of_rank in by_rank.items():
        for step, loss in enumerate(of_rank, 1):
            others: dict[str, Any] = {} if own is None else {"optimizer_step": own + step}
            if scheduled:
                others["lr_scheduled"] = [scheduled[step - 1]]
            values = record(step, loss=0.0 if loss is None else loss, lr=lr[step - 1] if lr else 1e-3, **others)
            made.records[rank].append([None if loss is None and value == 0.0 else value for value in values])
        made.doings[rank] = list(doings)
    feed = Feed(made)
    feed.round()
    return feed


def falling(steps: int, seed: int = 1) -> list[float]:
    """Losses that fall from about 2.5 to 0.25, with noise."""
    noise = random.Random(seed)
    return [(2.3 * math.exp(-4 * step / steps) + 0.2) * noise.lognormvariate(0, 0.25) for step in range(1, steps + 1)]


def doings(steps: int) -> list[Doing]:
    return [
        Doing("lr", BEGAN_S + 50, steps // 2, CHANGED),
        Doing("checkpoint", BEGAN_S + 70, steps * 7 // 10, "/data/ann/rescue"),
    ]


def picture_of_loss(ranks: int = 1, steps: int = 700, *, bad: int | None = None) -> Picture:
    """The last rank's loss is NaN for 30 steps from step `bad` on."""
    losses: dict[int, Sequence[float | None]] = {rank: falling(steps, rank) for rank in range(ranks)}
    if bad is not None:
        last = list(losses[ranks - 1])
        last[bad - 1 : bad + 29] = [math.nan] * 30
        losses[ranks - 1] = last
    return pictures.of_feed("loss", course_feed(losses, doings=doings(steps)))


def picture_of_lr(steps: int = 700) -> Picture:
    """Warm-up and cosine; from the middle on a tenth of it is used."""
    scheduled = [
        0.1 * min(1.0, 10 * step / steps) * (0.5 + 0.5 * math.cos(math.pi * step / steps)) + 1e-4
        for step in range(1, steps + 1)
    ]
    used = [rate * (0.1 if step >= steps // 2 else 1.0) for step, rate in enumerate(scheduled, 1)]
    return pictures.of_feed("lr", course_feed(falling(steps), lr=used, scheduled=scheduled, doings=doings(steps)))
