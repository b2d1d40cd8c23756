"""Where this rank is: its step, and marks that tell which steps of other ranks are the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict

from .. import cuda

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.3 ms; nothing on the training thread"


def run(agent: Agent) -> Dict[str, Any]:
    """``marks``: see `Boundary.marks`."""
    return {
        "step": agent.recorder.step,
        "marks": agent.boundary.marks(),
        "usual_step_s": agent.safepoints.usual_step_s(),
        "mean_step_s": agent.safepoints.mean_step_s(),
        "since_last_step_s": agent.safepoints.since_last_step_s(),
        "gpu_busy": cuda.busy(),
        "updating": agent.boundary.updating(),
        "directory": agent.directory,
        "time_s": time.time(),
    }
