"""Every optimizer and param group: learning rate and weight decay as scheduled and as effective, momentum or betas, scheduler and what
it will set next; and the changes of ours that are in force."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ..adjust import LR, WEIGHT_DECAY, in_time, number
from ..by_hand import no_optimizer
from ..next_lr import never_stepped, upcoming
from ..own_count import latest_of_each
from ..recorder import OPTIMIZER_STEP, STEP
from ..runs import Turn
from ..saying import said
from ..tensors import NO_TORCH

if TYPE_CHECKING:
    from ..core import Agent

COST = "microseconds a group, plus one search for the objects (0.1 ms to 100 ms)"
NEXT = 5


def run(agent: Agent) -> Dict[str, Any]:
    """``lr`` and ``weight_decay`` of a group are what the schedule has set, ``effective_...`` what the next step uses
    (``scheduled`` is ``lr`` by another name)."""
    if "torch" not in sys.modules:
        return {"optimizers": [], "note": NO_TORCH, "in_force": [], "log": []}
    objects = agent.objects.find()
    latest = latest_of_each(agent.recorder)
    turns = agent.recorder.turns()
    optimizers = []
    for optimizer in objects.optimizers():
        its = agent.recorder.number_of(optimizer)
        turn = None if its is None else turns.get(its)
        optimizers.append({**_optimizer(agent, optimizer, turn), **_step(latest.get(its))})
    note = "" if optimizers else no_optimizer(agent.recorder)
    return {"optimizers": optimizers, "note": note, **agent.tuning.report()}


def _step(record: Optional[List[Any]]) -> Dict[str, Any]:
    """The latest step of an optimizer: since the agent came, and by its own count."""
    if record is None:
        return {"step": None, "optimizer_step": None}
    return {"step": record[STEP], "optimizer_step": record[OPTIMIZER_STEP]}


def _optimizer(agent: Agent, optimizer: Any, turn: Optional[Turn]) -> Dict[str, Any]:
    schedulers = agent.objects.schedulers(optimizer)
    names = [type(s).__name__ for s in schedulers]
    if len(schedulers) == 1 and turn is not None and turn.last > turn.first and never_stepped(schedulers[0], optimizer):
        following: Any = said("{scheduler} has not been stepped so far", scheduler=names[0])
    elif len(schedulers) == 1:
        following = upcoming(schedulers[0], optimizer, NEXT)
    else:
        several = said("{count} schedulers act on one optimizer: {names}", count=len(names), names=", ".join(names))
        following = several if schedulers else said("no scheduler")
    return {
        "optimizer": type(optimizer).__name__,
        "scheduler": " + ".join(names) or None,
        "scheduler_step": getattr(schedulers[0], "last_epoch", None) if schedulers else None,
        "groups": [_group(agent, optimizer, i, following) for i in range(len(optimizer.param_groups))],
    }


def _group(agent: Agent, optimizer: Any, index: int, following: Any) -> Dict[str, Any]:
    tuning, group = agent.tuning, optimizer.param_groups[index]
    betas = group.get("betas")
    ends = in_time()
    lr = number(tuning.scheduled(optimizer, index, LR), ends)
    return {
        "index": index,
        "lr": lr,
        "scheduled": lr,
        "effective_lr": number(tuning.effective(optimizer, index, LR), ends),
        "weight_decay": number(tuning.scheduled(optimizer, index, WEIGHT_DECAY), ends),
        "effective_weight_decay": number(tuning.effective(optimizer, index, WEIGHT_DECAY), ends),
        "momentum": number(group.get("momentum"), ends),
        "betas": [number(b, ends) for b in betas] if isinstance(betas, (list, tuple)) else None,
        "parameters": len(group["params"]),
        "elements": sum(p.numel() for p in group["params"]),
        "next_lr": [values[index] for values in following] if isinstance(following, list) else following,
    }


__all__: List[str] = ["COST", "run"]
