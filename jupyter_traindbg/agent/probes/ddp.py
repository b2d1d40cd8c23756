"""The models in DistributedDataParallel: whether their next backward pass reduces, and which parameters have no gradient."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, Dict, List

from .. import reachable
from ..attributes import class_name
from ..objects import inner_optimizers, named_parameters
from ..own_count import step_of

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.1 ms to 10 ms: looks through the running frames; 2 us a parameter, reads none"
MOST_MODELS, MOST_PARAMETERS, MOST_NAMES = 4, 20_000, 2000


def run(agent: Agent) -> Dict[str, Any]:
    """``models``: of each its class, how many of its ``parameters`` get gradients, and the names, in their order and `MOST_NAMES` at most,
    of those ``without`` one, and of those that an optimizer has ``left_out`` of its last step, as it counts them for each parameter and on
    the CPU; ``synchronises``, False within ``no_sync()``; ``finds_unused``, as it was told.
    """
    wrapper = getattr(sys.modules.get("torch.nn.parallel.distributed"), "DistributedDataParallel", None)
    base = getattr(sys.modules.get("torch.optim.optimizer"), "Optimizer", None)
    if wrapper is None or base is None:
        return {"models": []}
    found = {id(o): o for o in reachable.from_frames() if issubclass(type(o), (wrapper, base))}
    models = (o for o in found.values() if issubclass(type(o), wrapper) and "module" in vars(o).get("_modules", ()))
    optimizers = [o for o in found.values() if issubclass(type(o), base)]
    optimizers = [o for o in optimizers if not any(id(inner) in found for inner in inner_optimizers(o))]
    return {"models": [_told(model, optimizers) for model in itertools.islice(models, MOST_MODELS)]}


def _told(model: Any, optimizers: List[Any]) -> Dict[str, Any]:
    held = vars(model)
    module = held["_modules"]["module"]
    some = itertools.islice(named_parameters(module), MOST_PARAMETERS)
    trained = [(name, parameter) for name, parameter in some if parameter.requires_grad]
    without: List[str] = [name for name, parameter in trained if parameter.grad is None]
    steps = {name: _step(optimizers, parameter) for name, parameter in trained}
    last = max(steps.values(), default=0)
    return {
        "class": class_name(module),
        "parameters": len(trained),
        "without": without[:MOST_NAMES],
        "left_out": [name for name, step in steps.items() if step < last][:MOST_NAMES],
        "synchronises": bool(held.get("require_backward_grad_sync", True)),
        "finds_unused": bool(held.get("find_unused_parameters", False)),
    }


def _step(optimizers: List[Any], parameter: Any) -> int:
    """0 where nobody counts."""
    return max((step_of(one, parameter) or 0 for one in optimizers), default=0)


__all__ = ["COST", "run"]
