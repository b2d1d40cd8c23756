"""Every optimizer and param group: scheduled learning rate, weight decay, momentum or betas, scheduler and its next values."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .. import cuda
from ..next_lr import upcoming

if TYPE_CHECKING:
    from ..core import Agent

COST = "microseconds a group, plus one search for the objects (0.1 ms to 100 ms)"
NEXT = 5
GPU_WAIT_S = 2.0


def run(agent: Agent) -> Dict[str, Any]:
    if "torch" not in sys.modules:
        return {"optimizers": [], "note": "torch has not been imported in this process"}
    objects = agent.objects.find()
    optimizers = [_optimizer(agent, o) for o in objects.optimizers()]
    return {"optimizers": optimizers, "note": "" if optimizers else "no optimizer was found"}


def _optimizer(agent: Agent, optimizer: Any) -> Dict[str, Any]:
    schedulers = agent.objects.schedulers(optimizer)
    names = [type(s).__name__ for s in schedulers]
    if len(schedulers) == 1:
        following = upcoming(schedulers[0], optimizer, NEXT)
    else:
        following = (
            "no scheduler"
            if not schedulers
            else f"{len(schedulers)} schedulers act on one optimizer: {', '.join(names)}"
        )
    return {
        "optimizer": type(optimizer).__name__,
        "scheduler": " + ".join(names) or None,
        "scheduler_step": getattr(schedulers[0], "last_epoch", None) if schedulers else None,
        "groups": [_group(i, g, following) for i, g in enumerate(optimizer.param_groups)],
    }


def _group(index: int, group: Dict[str, Any], following: Any) -> Dict[str, Any]:
    betas = group.get("betas")
    return {
        "index": index,
        "lr": _number(group.get("lr")),
        "weight_decay": _number(group.get("weight_decay")),
        "momentum": _number(group.get("momentum")),
        "betas": [_number(b) for b in betas] if isinstance(betas, (list, tuple)) else None,
        "parameters": len(group["params"]),
        "elements": sum(p.numel() for p in group["params"]),
        "next_lr": [values[index] for values in following] if isinstance(following, list) else following,
    }


def _number(value: Any) -> Optional[float]:
    """A hyper-parameter as a float, be it a number or a tensor; None where it is neither, or lies on a GPU that does not answer."""
    if isinstance(value, bool) or value is None:
        return None
    if hasattr(value, "detach"):
        return cuda.soon(value.detach(), GPU_WAIT_S) if value.numel() == 1 else None
    return float(value) if isinstance(value, (int, float)) else None


__all__: List[str] = ["COST", "run"]
