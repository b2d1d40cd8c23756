"""Gather what goes into a checkpoint: trees of plain data and live tensors, one per file. Nothing is copied and nobody's code is called."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ..attributes import attributes
from ..saying import Said, said
from . import named
from .others import Others
from .plain import LEFT_OUT, Note, plain, plain_dict

if TYPE_CHECKING:
    from ..core import Agent

REPLICATED, SHARDED = "replicated", "sharded"
FRAMEWORKS = (
    "torch",
    "numpy",
    "transformers",
    "lightning",
    "pytorch_lightning",
    "accelerate",
    "deepspeed",
    "datasets",
    "torchvision",
    "peft",
)


class Found:
    """The training objects of this process, held for as long as a checkpoint takes. Built on a client's thread: it may search."""

    def __init__(self, agent: Agent) -> None:
        objects = agent.objects.find()
        self.models = objects.models()
        self.optimizers, self.left_out = objects.optimizers(), objects.leftovers(in_reach=True)
        self.schedulers = [(s, i) for i, o in enumerate(self.optimizers) for s in objects.schedulers(o)]
        self.scalers = objects.scalers()
        self.names = objects.names()
        saved: List[Tuple[str, Sequence[Any]]] = [
            ("model", self.models),
            ("optimizer", self.optimizers),
            ("scheduler", [scheduler for scheduler, _ in self.schedulers]),
            ("scaler", self.scalers),
        ]
        self.others = Others(objects, saved)
        self.behind = 0
        """The steps that the program has queued and a GPU that hangs has not done."""

    @property
    def kind(self) -> str:
        """`SHARDED` where any parameter is a DTensor, on this rank only a part of what it stands for."""
        tensors = [p for o in self.optimizers for g in list(o.param_groups) for p in g["params"]]
        for model in self.models:
            tensors += named.state(model, _ignore).values()
        return SHARDED if any(hasattr(t, "_local_tensor") for t in tensors) else REPLICATED

    def parameter_names(self, optimizer: Any) -> List[List[str]]:
        """The names of each group's parameters; one that belongs to no model is called by its place."""
        index = next(i for i, o in enumerate(self.optimizers) if o is optimizer)
        return [
            [self.names.get(id(p), f"optimizer{index}.group{g}.{k}") for k, p in enumerate(list(group["params"]))]
            for g, group in enumerate(list(optimizer.param_groups))
        ]


class Contents:
    """The trees of this rank's files, with live tensors in them.

    `flat` has the keys of the distributed checkpoint, where this is a sharded one. `numbers` are places in the trees where a tensor of one
    element is to become a number once it has been copied to host memory.
    """

    def __init__(self) -> None:
        self.files: Dict[str, Any] = {}
        self.flat: Dict[str, Any] = {}
        self.numbers: List[Tuple[Dict[str, Any], str]] = []
        self.notes: List[Said] = []

    def note(self, text: Said) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def by_part(self) -> Dict[str, Dict[str, Any]]:
        """The tensors of models, optimizers and what is saved besides, by their names there."""
        found: Dict[str, Dict[str, Any]] = {}
        trees = [(name.partition(".")[0], "", tree) for name, tree in self.files.items()]
        for key, value in self.flat.items():
            part, _, name = key.partition(".")
            trees.append((part, name, value))
        for part, name, tree in trees:
            if part.partition("-")[0] in ("model", "optimizer", "other"):
                found.setdefault(part, {}).update(_tensors_below(tree, name))
        return found

    def tensors(self) -> List[Any]:
        """All tensors in the trees."""
        tensor = sys.modules["torch"].Tensor
        found: List[Any] = []
        stack: List[Any] = [*self.files.values(), self.flat]
        while stack:
            value = stack.pop()
            if issubclass(type(value), tensor):
                found.append(value)
            elif isinstance(value, dict):
                stack.extend(value.values())
            elif isinstance(value, (list, tuple)):
                stack.extend(value)
        return found


def _tensors_below(tree: Any, path: str) -> Iterator[Tuple[str, Any]]:
    if issubclass(type(tree), sys.modules["torch"].Tensor):
        yield path, tree
    elif isinstance(tree, (dict, list, tuple)):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _tensors_below(value, f"{path}.{key}" if path else str(key))


def collect(agent: Agent, found: Found, *, kind: str, weights: bool, boundary: Optional[Dict[str, Any]]) -> Contents:
    """What this rank writes. `weights`: also what only the lowest rank writes. `boundary`: the boundary that it belongs to.

    About 20 us a tensor. Parameters, buffers and optimizer states are only looked up: this may run on any thread.
    """
    contents = Contents()
    for optimizer in found.left_out:
        contents.note(
            said(
                "left out: an optimizer of an earlier run ({kind}), which has not stepped since this one began; should the program "
                "step it again, it is missing",
                kind=type(optimizer).__name__,
            )
        )
    if kind == SHARDED:
        _flat(agent, found, contents)
    elif weights:
        for i, model in enumerate(found.models):
            contents.files[_numbered("model", i)] = _as_of_boundary(agent, named.state(model, contents.note))
        for i, optimizer in enumerate(found.optimizers):
            contents.files[_numbered("optimizer", i)] = _packed(agent, found, optimizer, contents.note)
    for text in found.others.left_out:
        contents.note(text)
    if weights:
        others = _others(agent, found, contents)
        contents.files["training.pt"] = _training(agent, found, contents)
        contents.files.update(others)
    rank, world_size = place()
    contents.files[f"rank-{rank}.pt"] = {
        "rank": rank,
        "world_size": world_size,
        "step": agent.recorder.step,
        "boundary": _boundary(boundary, contents.note) if boundary is not None else None,
    }
    for tree in contents.files.values():
        _drop_unsavable(tree, contents.note)
    return contents


def place() -> Tuple[int, int]:
    """This process's rank and the number of ranks."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 0, 1
    return int(distributed.get_rank()), int(distributed.get_world_size())


def own_steps(agent: Agent, found: Found) -> List[Optional[int]]:
    """How many steps each optimizer counts for itself; None where it keeps no count. Never waits for a GPU: there the record is asked.

    Without those that a GPU has still to do, where there is one optimizer: which of several they belong to is not known.
    """
    behind = found.behind if len(found.optimizers) == 1 else 0
    counted = [_own_step(agent, i, optimizer) for i, optimizer in enumerate(found.optimizers)]
    return [None if step is None else max(0, step - behind) for step in counted]


def _own_step(agent: Agent, index: int, optimizer: Any) -> Optional[int]:
    tensor = sys.modules["torch"].Tensor
    for group in list(optimizer.param_groups):
        for parameter in list(group["params"]):
            step = (optimizer.state.get(parameter) or {}).get("step")
            if isinstance(step, (int, float)):
                return int(step)
            if isinstance(step, tensor) and not hasattr(step, "_local_tensor"):
                return int(step.item()) if step.device.type == "cpu" else _recorded_step(agent, index)
    return None


def _recorded_step(agent: Agent, index: int) -> Optional[int]:
    later = 0
    for record in reversed(agent.recorder.since(agent.recorder.step - 64)):
        if record[3] == index:
            if record[4] is not None:
                return int(record[4]) + later
            later += 1  # its count is still on its way from the GPU
    return None


def versions() -> Dict[str, str]:
    """Of Python, torch and the frameworks that this process has imported."""
    known = {"python": sys.version.split()[0]}
    for name in FRAMEWORKS:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            known[name] = str(version)
    return known


def command() -> List[str]:
    return [str(word) for word in getattr(sys, "orig_argv", sys.argv)]


def working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def describe(agent: Agent, found: Found, kind: str) -> Dict[str, Any]:
    """The manifest's part that one rank can tell; JSON-ready."""
    steps = own_steps(agent, found)
    rank, world_size = place()
    step = next((s for s in steps if s is not None), None)
    return {
        "format": "traindbg-checkpoint",
        "version": 1,
        "kind": kind,
        "created_s": time.time(),
        "world_size": world_size,
        "ranks": [rank],
        "step": step,
        "steps": {str(rank): step},
        "mixed": False,
        "exact": False,
        "versions": versions(),
        "command": command(),
        "cwd": working_directory(),
        "counters": agent.boundary.counters(),
        "models": described_models(found),
        "optimizers": [
            {"class": _class(o), "file": _numbered("optimizer", i), "groups": len(o.param_groups)}
            for i, o in enumerate(found.optimizers)
        ],
        "schedulers": [{"class": _class(s), "optimizer": i} for s, i in found.schedulers],
        "others": described_others(found),
        "actions": plain(actions_in_force(agent), "the actions in force", _ignore),
    }


def described_models(found: Found) -> List[Dict[str, Any]]:
    """Class, file, number of tensors and of parameters of each model."""
    described = []
    for i, model in enumerate(found.models):
        tensors = named.state(model, _ignore)
        sizes = {id(t): int(t.numel()) for t in tensors.values()}
        described.append(
            {
                "class": _full_name(named.class_of(model)),
                "file": _numbered("model", i),
                "tensors": len(tensors),
                "parameters": sum(sizes.values()),
            }
        )
    return described


def described_others(found: Found) -> List[Dict[str, Any]]:
    """Name, class and file of what is saved besides; whether it is a module."""
    return [
        {
            "name": o.name,
            "class": _full_name(named.class_of(o.thing) if o.is_module else type(o.thing)),
            "file": _numbered("other", i),
            "module": o.is_module,
        }
        for i, o in enumerate(found.others.saved)
    ]


def _boundary(boundary: Dict[str, Any], note: Note) -> Any:
    """As it stays on the disk: its notes in English."""
    return plain({**boundary, "notes": [str(text) for text in boundary["notes"]]}, "the boundary", note)


def actions_in_force(agent: Agent) -> List[Any]:
    return list(agent.tuning.export()) if agent.tuning.active else []


# -- the parts --


def _packed(agent: Agent, found: Found, optimizer: Any, note: Note) -> Dict[str, Any]:
    """What ``optimizer.state_dict()`` gives, with the values that the schedule set, whatever action is in force.

    The numbering is torch's (`Optimizer.state_dict`): parameters are counted through all groups, one that comes twice has its first number.
    """
    path = f"optimizer {next(i for i, o in enumerate(found.optimizers) if o is optimizer)}"
    numbers: Dict[int, int] = {}
    groups, at = [], 0
    for i, (scheduled, group) in enumerate(zip(agent.tuning.scheduled_groups(optimizer), list(optimizer.param_groups))):
        parameters = list(group["params"])
        for k, parameter in enumerate(parameters):
            numbers.setdefault(id(parameter), at + k)
        at += len(parameters)
        packed = plain_dict(scheduled, f"{path}, group {i}", note)
        packed["params"] = [numbers[id(p)] for p in parameters]
        groups.append(packed)
    state = {}
    tensor = sys.modules["torch"].Tensor
    for key, entry in list(optimizer.state.items()):
        number = numbers.get(id(key)) if isinstance(key, tensor) else plain(key, f"a key of {path}", note)
        if number is None or number is LEFT_OUT:
            note(said("{path} keeps state for a parameter that is in none of its groups; it is left out", path=path))
            continue
        state[number] = plain(_done(found, entry), f"{path}, state of parameter {number}", note)
    return {"state": state, "param_groups": groups}


def _done(found: Found, entry: Any) -> Any:
    """The state of one parameter with its count, where that is kept in host memory, put back to what the GPU has done."""
    step = entry.get("step") if isinstance(entry, dict) else None
    if not found.behind or len(found.optimizers) > 1 or step is None or getattr(step, "is_cuda", False):
        return entry
    return {**entry, "step": step - found.behind}


def _training(agent: Agent, found: Found, contents: Contents) -> Dict[str, Any]:
    note = contents.note
    steps = own_steps(agent, found)
    training = {
        "step": next((s for s in steps if s is not None), None),
        "own_steps": steps,
        "models": described_models(found),
        "optimizers": [
            {"class": _class(o), "parameters": [list(names) for names in found.parameter_names(o)]}
            for o in found.optimizers
        ],
        "schedulers": [
            {"class": _class(s), "optimizer": i, "state": _scheduler_state(found, s, f"{type(s).__name__}", note)}
            for s, i in found.schedulers
        ],
        "others": described_others(found),
        "scalers": [{"state": _scaler_state(s, contents)} for s in found.scalers],
        "actions": plain(actions_in_force(agent), "the actions in force", note),
        "counters": agent.boundary.counters(),
        "versions": versions(),
        "command": command(),
        "cwd": working_directory(),
    }
    if not contents.flat:
        training["loose"] = _loose(found, note)
    return training


def _loose(found: Found, note: Note) -> Dict[str, Any]:
    """Parameters that an optimizer holds and no model, by the names of `Found.parameter_names`."""
    loose: Dict[str, Any] = {}
    for optimizer in found.optimizers:
        for names, group in zip(found.parameter_names(optimizer), list(optimizer.param_groups)):
            for name, parameter in zip(names, list(group["params"])):
                if id(parameter) not in found.names:
                    loose[name] = parameter
    if loose:
        note(
            said(
                "{count} parameters of optimizers belong to no model that was found; they are kept as 'loose' ones",
                count=len(loose),
            )
        )
    return loose


def _others(agent: Agent, found: Found, contents: Contents) -> Dict[str, Any]:
    """The files of what is saved besides; a module whose tensors are DTensors goes into the distributed checkpoint instead."""
    files: Dict[str, Any] = {}
    states = [(other, found.others.state(other, contents.note)) for other in found.others.saved]
    states = [(o, _as_of_boundary(agent, state) if o.is_module else state) for o, state in states if state is not None]
    found.others.saved = [other for other, _ in states]
    for i, (other, state) in enumerate(states):
        if other.is_module and any(hasattr(tensor, "_local_tensor") for tensor in state.values()):
            prefix = _numbered("other", i)[: -len(".pt")]
            contents.flat.update({f"{prefix}.{name}": tensor for name, tensor in state.items()})
        else:
            files[_numbered("other", i)] = state
    return files


def _scheduler_state(found: Found, scheduler: Any, path: str, note: Note) -> Dict[str, Any]:
    """``scheduler.state_dict()`` of torch's own classes, or as far as it can be read; of others the plain ones among their variables."""
    members = [scheduler, *getattr(scheduler, "_schedulers", ())]
    if all(type(m).__module__ == "torch.optim.lr_scheduler" for m in members):
        return plain_dict(scheduler.state_dict(), path, note)
    state = found.others.scheduler_state(scheduler)
    if isinstance(state, dict):
        inner = [m for m in attributes(scheduler).values() if type(m).__module__ == "torch.optim.lr_scheduler"]
        for member in inner:
            kind = type(member).__name__
            note(
                said("{path} keeps a {kind} inside, of which its state_dict() tells only a part", path=path, kind=kind)
            )
        return plain_dict(state, path, note)
    state = {key: value for key, value in list(vars(scheduler).items()) if key not in ("optimizer", "_schedulers")}
    packed = plain_dict(state, path, note)
    if "_schedulers" in vars(scheduler):
        packed["_schedulers"] = [
            _scheduler_state(found, m, f"{path}[{i}]", note) for i, m in enumerate(scheduler._schedulers)
        ]
    return packed


def _scaler_state(scaler: Any, contents: Contents) -> Dict[str, Any]:
    """``GradScaler.state_dict()`` without reading from a GPU: scale and tracker are copied like every other tensor."""
    own = vars(scaler)
    if not own.get("_enabled"):
        return {}
    state = {
        "scale": own["_init_scale"] if own["_scale"] is None else own["_scale"],
        "growth_factor": own["_growth_factor"],
        "backoff_factor": own["_backoff_factor"],
        "growth_interval": own["_growth_interval"],
        "_growth_tracker": own["_init_growth_tracker"] if own["_growth_tracker"] is None else own["_growth_tracker"],
    }
    state = plain_dict(state, "the GradScaler", contents.note)
    tensor = sys.modules["torch"].Tensor
    contents.numbers += [(state, key) for key in ("scale", "_growth_tracker") if isinstance(state.get(key), tensor)]
    return state


def _as_of_boundary(agent: Agent, live: Dict[str, Any]) -> Dict[str, Any]:
    """`live` with the running statistics of the last boundary, where they are known: a forward pass under way has changed the live ones."""
    kept = agent.boundary.statistics.as_of_boundary()
    for name, tensor in live.items():
        live[name] = kept.get(id(tensor), tensor)
    return live


def _flat(agent: Agent, found: Found, contents: Contents) -> None:
    """The flat state dict of a distributed checkpoint: ``model.NAME``, ``optimizer.state.NAME.KEY``, ``optimizer.param_groups``."""
    for i, model in enumerate(found.models):
        prefix = "model" if i == 0 else f"model-{i}"
        live = _as_of_boundary(agent, named.state(model, contents.note))
        contents.flat.update({f"{prefix}.{name}": t for name, t in live.items()})
    for i, optimizer in enumerate(found.optimizers):
        prefix = "optimizer" if i == 0 else f"optimizer-{i}"
        names = found.parameter_names(optimizer)
        groups = []
        for k, (scheduled, own) in enumerate(zip(agent.tuning.scheduled_groups(optimizer), names)):
            groups.append({**plain_dict(scheduled, f"{prefix}, group {k}", contents.note), "params": list(own)})
        contents.flat[f"{prefix}.param_groups"] = groups
        for group, own in zip(list(optimizer.param_groups), names):
            for parameter, name in zip(list(group["params"]), own):
                entry = plain_dict(
                    _done(found, dict(optimizer.state.get(parameter) or {})),
                    f"{prefix}, state of {name}",
                    contents.note,
                )
                contents.flat.update({f"{prefix}.state.{name}.{key}": value for key, value in entry.items()})
    contents.flat.update({f"loose.{name}": parameter for name, parameter in _loose(found, contents.note).items()})
    _drop_unsavable(contents.flat, contents.note)


def _drop_unsavable(tree: Any, note: Note, path: str = "") -> None:
    """Remove from the dicts of `tree`, and replace in its lists, tensors that cannot be saved."""
    tensor = sys.modules["torch"].Tensor
    entries = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree))
    for key, value in entries:
        where = f"{path}.{key}" if path else str(key)
        if issubclass(type(value), tensor):
            why = named.cannot_save(value)
            if why:
                note(said("{path} is left out: {why}", path=where, why=why))
                if isinstance(tree, dict):
                    del tree[key]
                elif isinstance(tree, list):
                    tree[key] = None
        elif isinstance(value, (dict, list)):
            _drop_unsavable(value, note, where)


def _numbered(name: str, index: int) -> str:
    return f"{name}.pt" if index == 0 else f"{name}-{index}.pt"


def _class(thing: Any) -> str:
    return _full_name(type(thing))


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _ignore(text: Said) -> None:
    """For those who only look."""
