"""Who this process is: rank, versions, frameworks, step, errors of our own hooks."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING, Any, Dict

if TYPE_CHECKING:
    from ..core import Agent

COST = "microseconds"
FRAMEWORKS = ("transformers", "lightning", "pytorch_lightning", "accelerate", "deepspeed", "ray", "jax", "tensorflow")


def run(agent: Agent) -> Dict[str, Any]:
    rank, world_size = _rank()
    torch = sys.modules.get("torch")
    return {
        "pid": os.getpid(),
        "rank": rank,
        "world_size": world_size,
        "python": platform.python_version(),
        "torch": str(torch.__version__) if torch is not None and hasattr(torch, "__version__") else None,
        "frameworks": [name for name in FRAMEWORKS if name in sys.modules],
        "step": agent.recorder.step,
        "usual_step_s": agent.safepoints.usual_step_s(),
        "since_last_step_s": agent.safepoints.since_last_step_s(),
        "started_s": agent.started_s,
        "keep": agent.keep,
        "failures": list(agent.safepoints.failures),
    }


def _rank() -> tuple[int, int]:
    """From the process group where there is one; else from the launcher's environment; else a single process."""
    distributed = sys.modules.get("torch.distributed")
    initialized = getattr(
        distributed, "is_initialized", None
    )  # not there yet while torch is being imported, or never without c10d
    if distributed is not None and initialized is not None and initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1
