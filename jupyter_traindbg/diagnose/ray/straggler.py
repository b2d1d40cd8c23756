"""A worker that works, or cannot be seen to stand still, and takes far longer than its peers took for the same call."""

from __future__ import annotations

from ...language import text
from ...model import RayWorker
from ...words.durations import time_words
from .case import Hit, RayCase, hit
from .peers import call_name, in_words, waiting_for
from .stuck_in_method import unlike_peers
from .words import short

__all__ = ["rule"]

LEAST_S, FACTOR = 30.0, 5.0
UNSEEN_FACTOR = 10.0
"""Where nobody has looked at its process."""


def rule(case: RayCase) -> list[Hit]:
    return [found for row in case.states("running") if (found := _late(case, row)) is not None]


def _late(case: RayCase, row: RayWorker) -> Hit | None:
    seen, pace = case.doing(row), case.pace(row)
    unseen = pace == "not known" or (pace == "still" and (seen is None or seen.users is None))
    if row.kind == "train" or case.waits_on_ray(row) or case.waits_for_ranks(row) or not (pace == "moving" or unseen):
        return None
    unlike = unlike_peers(case, row)
    if unlike is None or unlike.factor is None or unlike.since_s < LEAST_S:
        return None
    if unlike.factor < (UNSEEN_FACTOR if unseen else FACTOR):
        return None
    waits = waiting_for(case, [row])
    if not waits:  # nobody is kept waiting: it may have more to do than the others
        return None
    at = short(case.where(row))
    named = row.method or call_name(row)
    return hit(
        "ray_straggler",
        "warning",
        text(
            "{who} is far behind its peers: {since_s} in {named}, now at {at}",
            who=row.who,
            since_s=time_words(unlike.since_s),
            named=named,
            at=at,
        ),
        [row],
        case.where(row),
        evidence=[unlike.words, in_words(case, row) if not unseen else row.words, *waits],
        cause=text("It still computes: it has more to do than the others, or runs in a loop that does not end.")
        if not unseen
        else text(
            "Whether it still works could not be seen from outside (an async method, or no stacks of that node)."
        ),
        next_steps=[
            text(
                "Watch whether it gets on: `traindbg ray-workers --progress NAME` with a counter of {class_name}.",
                class_name=row.class_name or named,
            ),
            text(
                "In the driver: go on with those that are done (`ray.wait(..., num_returns=, timeout=)`), and "
                "hand out smaller pieces of work."
            ),
        ],
        confidence="medium",
    )
