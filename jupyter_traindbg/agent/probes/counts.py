"""How many steps the optimizers count for themselves: where a job stands that has not stepped since we came."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .. import reachable
from ..objects import inner_optimizers
from ..own_count import step_of

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.1 ms to 10 ms: looks through the running frames, never through the garbage collector's objects"


def run(agent: Agent) -> Dict[str, Any]:
    """``steps``: the count of each optimizer that keeps one, as Adam does and plain SGD does not. Never waits for a GPU."""
    base = getattr(sys.modules.get("torch.optim.optimizer"), "Optimizer", None)
    if base is None:
        return {"steps": []}
    found = {id(o): o for o in reachable.from_frames() if issubclass(type(o), base)}
    steps = [_own_step(o) for o in found.values() if not any(id(i) in found for i in inner_optimizers(o))]
    return {"steps": [step for step in steps if step is not None]}


def _own_step(optimizer: Any) -> Optional[int]:
    """The first parameter that is counted stands for all."""
    for group in _listed(vars(optimizer).get("param_groups")):
        for parameter in _listed(group.get("params")):
            step = step_of(optimizer, parameter)
            if step is not None:
                return step
    return None


def _listed(value: Any) -> List[Any]:
    """A copy: the training may change the list meanwhile."""
    return list(value) if isinstance(value, list) else []
