"""What a checkpoint of this rank would be: how much, of what, at which step, and what is against it. Changes nothing."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ..saying import Said, packed, said
from ..tensors import shard
from . import named
from .collect import SHARDED, Found, actions_in_force, collect, describe, own_steps, place
from .layout import Layout
from .plain import plain

if TYPE_CHECKING:
    from ..core import Agent

NOTHING = said("no model and no optimizer was found in this process")
OF_NO_MODULE = said(
    "what is trained here are tensors of no module and no optimizer: only the program knows which of its variables to save"
)
NO_TORCH = said("this process has not imported torch")
FRAMEWORKS = {
    "deepspeed": said("DeepSpeed keeps each rank's part of the optimizer in buffers of its own"),
    "megatron": said("Megatron's distributed optimizer keeps each rank's part in buffers of its own"),
    "fairscale": said("fairscale keeps each rank's part of the optimizer in buffers of its own"),
    "colossalai": said("Colossal-AI keeps each rank's part of the optimizer in buffers of its own"),
    "apex.contrib.optimizers": said("Apex's distributed optimizers keep each rank's part in buffers of their own"),
}


def survey(agent: Agent) -> Dict[str, Any]:
    """What would be saved, in JSON-ready form. Milliseconds, after a search for the training's objects (see `Objects.find`).

    ``bytes``: what this rank would write as the lowest rank; ``bytes_of_others``: as another one. ``fingerprint``: a hash over kind, names,
    shapes and dtypes, the same on all ranks of one training. ``unsupported``: why it cannot be saved, or null.
    """
    rank, world_size = place()
    answer: Dict[str, Any] = {
        "rank": rank,
        "world_size": world_size,
        "step": agent.recorder.step,
        "updating": agent.boundary.updating(),
        "marks": agent.boundary.marks(),
        "boundary": _boundary(agent),
        "since_last_step_s": agent.safepoints.since_last_step_s(),
        "usual_step_s": agent.safepoints.usual_step_s(),
    }
    if "torch" not in sys.modules:
        return {**answer, **_nothing(NO_TORCH)}
    found = Found(agent)
    found.behind, _ = agent.gpu_steps.behind()
    if not found.models and not found.optimizers:
        return {**answer, **_nothing(NOTHING if agent.safepoints.by_hand is None else OF_NO_MODULE)}
    kind = found.kind
    contents = collect(agent, found, kind=kind, weights=True, boundary=None)
    nbytes = Layout(contents.tensors()).nbytes
    described = describe(agent, found, kind)
    return {
        **answer,
        "kind": kind,
        "unsupported": unsupported(agent, found),
        "bytes": nbytes,
        "bytes_of_others": nbytes if kind == SHARDED else 0,
        "own_steps": own_steps(agent, found),
        "fingerprint": fingerprint(found, kind),
        "models": described["models"],
        "optimizers": described["optimizers"],
        "schedulers": described["schedulers"],
        "actions": plain(actions_in_force(agent), "the actions in force", lambda text: None),
        "notes": [packed(note) for note in contents.notes],
    }


def _nothing(why: Said) -> Dict[str, Any]:
    empty: Dict[str, Any] = {
        name: [] for name in ("own_steps", "models", "optimizers", "schedulers", "actions", "notes")
    }
    return {**empty, "kind": None, "unsupported": why, "bytes": 0, "bytes_of_others": 0, "fingerprint": ""}


def _boundary(agent: Agent) -> Optional[Dict[str, Any]]:
    place = agent.boundary.place()
    return None if place is None else dict(zip(("step", "where"), place))


def unsupported(agent: Agent, found: Found) -> Optional[Said]:
    """Why a checkpoint of this training would not be whole, in words; None where nothing is against it."""
    for model in found.models:
        for name, module in named.everything(model):
            if type(module).__name__ == named.FSDP1:
                return said(
                    "{name} is wrapped in FullyShardedDataParallel (FSDP1): its flat parameters cannot be told apart without its own "
                    "collectives; FSDP2 (fully_shard) is supported",
                    name=name or said("the model"),
                )
    for optimizer in agent.objects.all_optimizers():
        why = _of_optimizer(optimizer)
        if why:
            return why
    return _foreign_parameters(found) or _meshes(found)


def _of_optimizer(optimizer: Any) -> Optional[Said]:
    for cls in type(optimizer).__mro__:
        if cls.__name__ == "ZeroRedundancyOptimizer":
            return said(
                "the optimizer is a ZeroRedundancyOptimizer: each rank holds the state of a part of the parameters, and only its own "
                "collectives put them together"
            )
        for prefix, words in FRAMEWORKS.items():
            if cls.__module__ == prefix or cls.__module__.startswith(prefix + "."):
                return said("{keeps}; use its own save_checkpoint", keeps=words)
    return None


def _foreign_parameters(found: Found) -> Optional[Said]:
    """An optimizer none of whose parameters is a model's: it keeps copies, often of a part (a distributed optimizer)."""
    for i, optimizer in enumerate(found.optimizers):
        parameters = [p for g in list(optimizer.param_groups) for p in list(g["params"])]
        if not found.models or any(id(p) in found.names for p in parameters):
            continue
        held = sum(int(p.numel()) for p in parameters)
        needed = sum(m["parameters"] for m in describe_sizes(found))
        if held != needed:
            return said(
                "optimizer {number} ({kind}) holds {held} numbers which are no parameters of a model found here ({needed} numbers): "
                "a distributed optimizer, whose parts only its own code can put together",
                number=i,
                kind=type(optimizer).__qualname__,
                held=held,
                needed=needed,
            )
    return None


def describe_sizes(found: Found) -> List[Dict[str, int]]:
    sizes = []
    for model in found.models:
        parameters = {id(p): p for p in named.state(model, lambda text: None).values() if p.requires_grad}
        sizes.append({"parameters": sum(int(p.numel()) for p in parameters.values())})
    return sizes


def _meshes(found: Found) -> Optional[Said]:
    """DTensors that are partial sums: their values exist on no rank."""
    for model in found.models:
        for name, tensor in named.state(model, lambda text: None).items():
            if any(p.is_partial() for p in getattr(tensor, "placements", ())):
                return said("{name} is a DTensor of partial sums, whose values no rank holds", name=name)
    return None


def fingerprint(found: Found, kind: str) -> str:
    """The same on every rank of one training, whatever part it holds."""
    digest = hashlib.sha256(kind.encode())
    for model in found.models:
        for name, tensor in named.state(model, lambda text: None).items():
            digest.update(f"{name} {tuple(tensor.shape)} {shard(tensor).dtype}\n".encode())
    for optimizer in found.optimizers:
        digest.update(f"{type(optimizer).__qualname__} {found.parameter_names(optimizer)}\n".encode())
    return digest.hexdigest()
