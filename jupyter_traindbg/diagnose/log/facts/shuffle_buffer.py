"""``shuffle_buffer_filling``: a log that ends while tf.data fills its shuffle buffer, and by its own pace will do so for long.

Every healthy run fills it, at the start of each epoch; no step comes before it is full.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....model import LogEvidence, LogLine
from . import Fact

__all__ = ["facts"]

_FILLING = re.compile(r"Filling up shuffle buffer \(this may take a while\): (\d{1,12}) of (\d{1,12})")
_STEPS = re.compile(r"(?i)Shuffle buffer filled|\bEpoch \d{1,9}|\b(?:loss|step) *[:=]|\d/step")
EVERY_S = 10.0
"""At most so often TensorFlow prints such a line (tensorflow/core/kernels/data/shuffle_dataset_op.cc)."""
LEAST, LONG_S = 3, 120.0


def facts(evidence: LogEvidence) -> list[Fact]:
    """With `filled_count`, `buffer_count` (elements) and `left_s`, of the first source that ends so."""
    found = (_filling(tail) for tail in evidence.tails.values())
    return [fact for fact in found if fact is not None][:1]


def _filling(tail: Sequence[LogLine]) -> Fact | None:
    begun = max((i + 1 for i, line in enumerate(tail) if _STEPS.search(line.text)), default=0)
    seen = [(line, int(found[1]), int(found[2])) for line in tail[begun:] if (found := _FILLING.search(line.text))]
    if len(seen) < LEAST:
        return None
    (first, before, _), (last, now, whole) = seen[0], seen[-1]
    passed = EVERY_S * (len(seen) - 1)
    if first.time_s is not None and last.time_s is not None and last.time_s > first.time_s:
        passed = last.time_s - first.time_s
    if now <= before:  # another buffer, or none that gets on
        return None
    left = (whole - now) * passed / (now - before)
    if left < LONG_S:
        return None
    values: dict[str, float | str] = {"filled_count": float(now), "buffer_count": float(whole), "left_s": left}
    return Fact("shuffle_buffer_filling", last, values, last.rank)
