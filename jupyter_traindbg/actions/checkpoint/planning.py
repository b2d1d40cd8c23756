"""What a checkpoint would be, before anybody asks for one: where it goes, how much, for how long all stands still. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...attach.base import Link
from ...language import text
from ...model import NA, CheckpointPlan, Maybe
from ...spoken import spoken
from . import place as places
from . import ranks

__all__ = ["plan"]

COPIED_PER_S = 8e9
"""Bytes of its state that a training copies in a second while it stands still (measured: 1.2 GB in 0.11 s on one host with DDR4)."""
AT_LEAST_S = 0.02
"""What all that is not copying takes: finding the objects, agreeing on the step."""
SPARE_SHARE, SPARE_BYTES = 0.05, 1 << 20
"""So much more than the state itself has to be free; the agent asks for the same."""


def plan(links: Sequence[Link], directory: str, timeout: float) -> CheckpointPlan:
    """What `save` would write to `directory`, and what is against it.

    Takes what one question to every rank takes. Raises the `ActionRefused` that `save` would raise for these ranks and this place.
    """
    found = ranks.survey(links, timeout)
    ranks.refuse(found)
    place = places.find(directory, found.links)
    answers = found.answers
    paces = {rank: ranks.pace_of(answer) for rank, answer in answers.items()}
    still = tuple(rank for rank, pace in paces.items() if pace == "still")
    needed = int(found.bytes * (1 + SPARE_SHARE)) + SPARE_BYTES
    free = place.free_bytes()
    own = answers[found.lowest]["own_steps"]
    return CheckpointPlan(
        directory=place.directory,
        kind=found.kind,
        bytes=found.bytes,
        needed_bytes=needed,
        free_bytes=NA(text("{place} is not there, or its disk does not answer", place=os.path.dirname(place.directory)))
        if free is None
        else free,
        there=place.there(),
        pause_s=_pause_s(found, still),
        still=still,
        step=next((int(step) for step in own if step is not None), None),
        world_size=found.world_size,
        ranks=tuple(sorted(answers)),
        missing=found.missing,
        note=spoken(place.note),
    )


def _pause_s(found: ranks.Survey, still: Sequence[int]) -> Maybe[float]:
    if still:
        return NA(text("it makes no steps anyway"))
    return AT_LEAST_S + max(int(answer["bytes"]) for answer in found.answers.values()) / COPIED_PER_S
