"""Tensors out of a directory of torch.distributed.checkpoint, cut as the live ones are; with or without a process group."""

from __future__ import annotations

import inspect
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import BadCheckpoint
from ..language import text
from . import saved

PARAM_GROUPS = "param_groups"


class Sharded:
    """`resume.weights.Source` of a sharded checkpoint. Loading is done by all ranks at the same time."""

    def __init__(self, path: Path) -> None:
        saved.check_metadata(path)
        from torch.distributed.checkpoint import FileSystemReader

        self._path = path
        self._entries: Mapping[str, Any] = FileSystemReader(str(path)).read_metadata().state_dict_metadata

    def shapes(self, role: str, index: int) -> Mapping[str, tuple[int, ...]]:
        prefix = _prefix(role, index)
        return {
            n.removeprefix(prefix): tuple(e.size)
            for n, e in self._entries.items()
            if n.startswith(prefix) and hasattr(e, "size")
        }

    def tensors(self, role: str, index: int, live: Mapping[str, Any]) -> Mapping[str, Any]:
        import torch

        prefix = _prefix(role, index)
        values = self._load({f"{prefix}{name}": torch.empty_like(t.detach()) for name, t in live.items()})
        return {name.removeprefix(prefix): value for name, value in values.items()}

    def optimizer(self, index: int, parameters: Mapping[str, Any]) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
        prefix = _prefix("optimizer", index)
        wanted: dict[str, Any] = {f"{prefix}{PARAM_GROUPS}": None}
        owners: dict[str, tuple[str, str]] = {}
        for key, entry in self._entries.items():
            name, state_key = (
                _split(key.removeprefix(f"{prefix}state."), parameters)
                if key.startswith(f"{prefix}state.")
                else ("", "")
            )
            if name:
                owners[key] = (name, state_key)
                wanted[key] = _room(entry, parameters[name])
        values = self._load(wanted)
        states: dict[Any, Any] = {}
        for key, (name, state_key) in owners.items():
            states.setdefault(name, {})[state_key] = values[key]
        return states, values[f"{prefix}{PARAM_GROUPS}"]

    def _load(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """The values of `wanted`: tensors are filled in place, other values replaced. No restraint of torch's own is relied on."""
        import torch
        import torch.distributed as dist
        from torch.distributed import checkpoint as dcp
        from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader

        class Planner(DefaultLoadPlanner):  # type: ignore[misc]
            def load_bytes(self, read_item: Any, value: io.BytesIO) -> None:
                name = read_item.dest_index.fqn
                self.original_state_dict[name] = torch.load(value, map_location="cpu", weights_only=True)

        alone = not (dist.is_available() and dist.is_initialized())
        how = {"no_dist": True} if alone and "no_dist" in inspect.signature(dcp.load).parameters else {}
        try:
            dcp.load(
                wanted,
                storage_reader=FileSystemReader(str(self._path)),
                planner=Planner(flatten_state_dict=False),
                **how,
            )
        except Exception as e:  # one rank's failure comes to all as torch's CheckpointException, whatever it was
            raise BadCheckpoint(
                text(
                    "{path} cannot be loaded: {why}",
                    path=self._path,
                    why=(str(e).strip().splitlines() or [type(e).__name__])[-1][:200],
                )
            ) from e
        return wanted


def _prefix(what: str, index: int) -> str:
    return f"{what}." if index == 0 else f"{what}-{index}."


def _split(key: str, parameters: Mapping[str, Any]) -> tuple[str, str]:
    """``layer.weight.exp_avg`` -> (layer.weight, exp_avg); names may hold dots, and so may keys."""
    parts = key.split(".")
    for n in range(len(parts) - 1, 0, -1):
        if ".".join(parts[:n]) in parameters:
            return ".".join(parts[:n]), ".".join(parts[n:])
    return "", ""


def _room(entry: Any, parameter: Any) -> Any:
    """A tensor to load `entry` into: cut like its parameter where it has that shape."""
    import torch

    if not hasattr(entry, "size"):
        return None
    dtype = entry.properties.dtype
    if tuple(entry.size) == tuple(parameter.shape) and len(entry.size):
        return torch.empty_like(parameter.detach(), dtype=dtype)
    return torch.empty(tuple(entry.size), dtype=dtype)
