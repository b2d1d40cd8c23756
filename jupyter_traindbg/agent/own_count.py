"""The optimizer's own number of a step that the agent has counted."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

from .recorder import OF_OPTIMIZER, OPTIMIZER_STEP, STEP, Recorder
from .safepoint import SafePoints

__all__ = ["latest_of_each", "next_count", "own_count", "step_of"]


def own_count(recorder: Recorder, step: int) -> Optional[int]:
    """The optimizer's own count at step number `step`; None where it keeps none, or that step is not recorded. On a client's thread."""
    record = next(iter(recorder.since(step - 1)), None)
    own: Optional[int] = record[OPTIMIZER_STEP] if record is not None and record[STEP] == step else None
    return own


def next_count(recorder: Recorder, safepoints: SafePoints) -> Optional[int]:
    """What the step that comes next will be by its optimizer's own count; None where that cannot be told. On any thread."""
    last = recorder.last
    if last is None or last[OPTIMIZER_STEP] is None or len(safepoints.optimizers) != 1:
        return None
    return int(last[OPTIMIZER_STEP]) + 1


def step_of(optimizer: Any, parameter: Any) -> Optional[int]:
    """How often `optimizer` has stepped that parameter, as it counts for each, like Adam; None where it does not, or counts on a GPU."""
    step = (optimizer.state.get(parameter) or {}).get("step")
    if isinstance(step, (int, float)):
        return int(step)
    if isinstance(step, sys.modules["torch"].Tensor) and not hasattr(step, "_local_tensor"):
        return int(step.item()) if step.device.type == "cpu" else None
    return None


def latest_of_each(recorder: Recorder) -> Dict[Optional[int], List[Any]]:
    """By the number that the recorder gives an optimizer, its latest record. On a client's thread."""
    return {record[OF_OPTIMIZER]: record for record in recorder.since(0)}
