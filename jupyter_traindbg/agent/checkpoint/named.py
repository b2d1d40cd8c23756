"""The tensors of a model under the names that its ``state_dict()`` gives them, read without calling it: users override and hook it."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from ..objects import WRAPPERS, _fsdp2_shards, join, walk
from ..saying import Text, said
from ..tensors import unreadable
from .plain import Note

FSDP1 = "FullyShardedDataParallel"
everything = walk
"""All modules, wrappers too, each once."""


def unwrapped(model: Any) -> Any:
    """`model` without the wrappers round it (DistributedDataParallel, a compiled module ...)."""
    while type(model).__name__ in WRAPPERS:
        inner = vars(model)["_modules"].get(WRAPPERS[type(model).__name__])
        if inner is None:
            return model
        model = inner
    return model


def class_of(model: Any) -> type:
    """The class that the user wrote: without wrappers, and without what FSDP2 makes of a class."""
    cls: type = type(unwrapped(model))
    made = [base.__name__ for base in cls.__bases__][:1] == ["FSDPModule"]
    return cls.__bases__[1] if made and len(cls.__bases__) > 1 else cls


def modules(root: Any) -> Iterator[Tuple[str, Any]]:
    """``(name, module)`` in the order of ``state_dict()``. A module that is registered twice comes twice, as there."""
    return _below("", root, set())


def _below(name: str, module: Any, above: Set[int]) -> Iterator[Tuple[str, Any]]:
    if module is None or id(module) in above:
        return
    inner = WRAPPERS.get(type(module).__name__)
    if inner is None:
        yield name, module
    for child, below in list(vars(module)["_modules"].items()):
        yield from _below(name if child == inner else join(name, child), below, above | {id(module)})


def state(model: Any, note: Note) -> Dict[str, Any]:
    """Parameters and persistent buffers by name, as live tensors: the keys and order of ``state_dict()`` of the unwrapped model.

    An OrderedDict with the modules' versions as ``_metadata``, as torch's own is. Under FSDP2 the tensors are this rank's shards, also
    while the modules show unsharded ones. What cannot be saved is left out, with a note.
    """
    root = unwrapped(model)
    shards = _shards(model)
    found: Dict[str, Any] = OrderedDict()
    found._metadata = OrderedDict()  # type: ignore[attr-defined]
    for prefix, module in modules(root):
        own = vars(module)
        found._metadata[prefix] = {"version": getattr(type(module), "_version", 1)}  # type: ignore[attr-defined]
        transient = own.get("_non_persistent_buffers_set", ())
        tensors = [
            *list(own["_parameters"].items()),
            *((n, b) for n, b in list(own["_buffers"].items()) if n not in transient),
        ]
        for name, tensor in tensors:
            shown = shards.get((id(module), name), tensor)
            why: Text = "" if shown is None else cannot_save(shown)
            if why:
                note(said("{name} is not in the checkpoint: {why}", name=join(prefix, name), why=why))
            elif shown is not None:
                found[join(prefix, name)] = shown
        _note_own_ways(prefix, module, note)
    return found


def cannot_save(tensor: Any) -> Text:
    """Why the values of `tensor` cannot be saved; empty where they can."""
    torch = sys.modules["torch"]
    why = unreadable(tensor)
    if why:
        return said("it is {why}", why=why)
    local = getattr(tensor, "_local_tensor", tensor)
    if local.is_quantized:
        return said("a quantised tensor of torch's old kind")
    if local.layout not in (torch.strided, torch.sparse_coo):
        return said("its layout is neither dense nor COO")
    own_dispatch = getattr(type(local), "__torch_dispatch__", None)
    if own_dispatch not in (None, torch.Tensor.__torch_dispatch__, torch._C._disabled_torch_dispatch_impl):
        return said("a {kind} keeps its values in ways of its own", kind=type(local).__qualname__)
    return ""


def statistics_kept(root: Any) -> int:
    """Modules whose running statistics the forward pass itself updates (BatchNorm and its kin)."""
    norms = getattr(sys.modules.get("torch.nn.modules.batchnorm"), "_NormBase", None)
    if norms is None:
        return 0
    return sum(1 for _, m in modules(root) if issubclass(type(m), norms) and m.track_running_stats and m.training)


def _shards(model: Any) -> Dict[Tuple[int, str], Any]:
    """What the optimizer holds instead of what FSDP2's modules show at the moment: (id of module, name) -> DTensor."""
    found: Dict[Tuple[int, str], Any] = {}
    seen: Set[int] = set()
    for _, module in modules(model):
        if id(module) in seen:
            continue
        seen.add(id(module))
        for owner, name, shard in _fsdp2_shards(module):
            found[id(owner), name] = shard
        for parameter in _fsdp2_parameters(module):
            info = parameter._module_info
            for owner, name in zip(getattr(info, "shared_modules", ()), getattr(info, "shared_param_names", ())):
                found[id(owner), name] = parameter.sharded_param
    return found


def _fsdp2_parameters(module: Any) -> List[Any]:
    state_of = getattr(type(module), "_get_fsdp_state", None)
    if state_of is None:
        return []
    held = state_of(module)
    groups = getattr(held, "_fsdp_param_groups", None) or [getattr(held, "_fsdp_param_group", None)]
    return [p for group in groups for p in getattr(group, "fsdp_params", ())]


def _note_own_ways(prefix: str, module: Any, note: Note) -> None:
    base = sys.modules["torch.nn.modules.module"].Module
    kind = type(module).__qualname__
    name = f"{prefix} ({kind})" if prefix else said("the model ({kind})", kind=kind)
    if getattr(type(module), "get_extra_state", None) is not base.get_extra_state:
        note(said("the extra state of {name} is not in the checkpoint: only its own code can tell it", name=name))
    hooks = [h for h in list(vars(module).get("_state_dict_hooks", {}).values()) if not _of_torch(h)]
    ways = [w for w in ("state_dict", "_save_to_state_dict") if not _of_torch(getattr(type(module), w, None))]
    if hooks or ways:
        note(
            said(
                "{name} has its own way to make a state_dict(), which was not called: its tensors are as torch keeps them",
                name=name,
            )
        )


def _of_torch(function: Optional[Any]) -> bool:
    function = getattr(function, "func", function)
    where = str(getattr(function, "__module__", None) or type(function).__module__)
    return where == "torch" or where.startswith("torch.")


__all__ = ["FSDP1", "cannot_save", "class_of", "everything", "modules", "state", "statistics_kept", "unwrapped"]
