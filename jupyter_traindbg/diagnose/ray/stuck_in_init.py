"""An actor that does not come out of its ``__init__``: it stands still there, while others of its class were up long ago."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import RayWorker
from ...words.durations import time_words
from ..hang.doing import phrase
from ..hang.words import alike
from .case import Hit, RayCase, hit
from .peers import in_words, init_durations, longest, waiting_for
from .words import names, short

LEAST_S, FACTOR, SLACK_S = 3.0, 2.0, 5.0
"""Too long is more than this, and so many times, or so many seconds more than, what the slowest of its class took."""
ALONE_S = 60.0
"""Where nobody of its class is up, to compare with."""


def rule(case: RayCase) -> list[Hit]:
    """One finding for all that stand at the same line."""
    bad = [r for r in _still(case) if (case.since_s(r) or 0.0) > _limit_s(case, r)]
    return [_hit(case, same) for same in alike(bad, lambda r: (r.job_id, r.class_name, case.where(r)))]


def settles_in_s(case: RayCase) -> float | None:
    """In how many seconds it will show of the next one that stands still whether that is too long; None where it has shown of all."""
    left = (_limit_s(case, r) - (case.since_s(r) or 0.0) for r in _still(case))
    return min((s for s in left if s > 0), default=None)


def _still(case: RayCase) -> list[RayWorker]:
    rows = case.states("in __init__")
    return [r for r in rows if case.pace(r) == "still" and not case.waits_on_ray(r) and case.since_s(r) is not None]


def _limit_s(case: RayCase, row: RayWorker) -> float:
    took = init_durations(case, row)
    if not took:
        return ALONE_S
    slowest = longest(took)
    return max(LEAST_S, min(FACTOR * slowest, slowest + SLACK_S))


def _hit(case: RayCase, same: Sequence[RayWorker]) -> Hit:
    first = same[0]
    since = max(case.since_s(r) or 0.0 for r in same)
    seen, at, took = case.doing(first), short(case.where(first)), init_durations(case, first)
    many = len(same) > 1
    have = "have" if many else "has"
    does = phrase(seen) if seen is not None else ""
    if took:
        compared = text(
            "{count} others of {class_name} were up after {least} to {most} in __init__",
            count=len(took),
            class_name=first.class_name,
            least=time_words(min(took)),
            most=time_words(max(took)),
        )
    else:
        compared = text(
            "none of {class_name} is up yet, and nothing moved while they were watched", class_name=first.class_name
        )
    return hit(
        "ray_stuck_in_init",
        "critical" if took else "warning",
        text(
            "{names} {have} been stuck in __init__ for {since} at {at}",
            names=names(same),
            have=have,
            since=time_words(since),
            at=at,
        ),
        same,
        case.where(first),
        evidence=[*(in_words(case, r) for r in same[:4]), compared, *waiting_for(case, same)],
        cause=text(
            "The constructor does not return: it {does}. Whoever needs this actor waits with it.",
            does=does or text("stands still"),
        ),
        next_steps=[
            text("See what {at} waits for, and put a time-out there that raises; Ray has none for __init__.", at=at),
            text(
                "To go on now: `traindbg ray-rescue --kill-actor {who}` ends it; its calls then raise "
                "RayActorError in the driver.",
                who=first.who,
            ),
        ],
        confidence="high" if took else "medium",
    )
