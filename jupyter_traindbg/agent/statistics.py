"""Running statistics (BatchNorm's and its kin's) as they were at the last boundary: they alone are changed by the forward pass itself.

A job that hangs behind a BatchNorm has statistics that are an iteration ahead of its parameters. So they are copied at each boundary: only
those of modules whose batch count has moved, about 1 us a tensor, and nothing where there is no such module.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .objects import walk

MOST_TENSORS = 4096
MOST_BYTES = 8 * 1024**2


class Statistics:
    """`watch` finds the modules, on any thread; `copy` runs at boundaries; `as_of_boundary` is what a checkpoint takes."""

    def __init__(self) -> None:
        self.kept: List[_Kept] = []
        """Nothing, in a program without such modules."""

    def watch(self, models: Iterable[Any]) -> None:
        """From the next boundary on, keep the statistics of `models`. Nothing is kept where they are too many, or too large."""
        base = getattr(sys.modules.get("torch.nn.modules.batchnorm"), "_NormBase", None)
        if base is None:
            return
        known = {id(kept.module()) for kept in self.kept}
        found = [
            _Kept(m) for model in models for _, m in walk(model) if issubclass(type(m), base) and id(m) not in known
        ]
        kept = [k for k in self.kept if k.module() is not None] + list({id(k.module()): k for k in found}.values())
        buffers = [b for k in kept for b in k.buffers().values()]
        if len(buffers) > MOST_TENSORS or sum(b.numel() * b.element_size() for b in buffers) > MOST_BYTES:
            kept = []
        self.kept = kept

    def copy(self) -> None:
        """Copy what has changed. On the training thread, not while a CUDA graph is captured."""
        torch = sys.modules["torch"]
        copies: List[Any] = []
        sources: List[Any] = []
        with torch.no_grad():
            for kept in self.kept:
                kept.changed(torch, copies, sources)
            if sources:
                torch._foreach_copy_(copies, sources)

    def as_of_boundary(self) -> Dict[int, Any]:
        """``id`` of a live buffer -> its value at the boundary, for as many as are kept."""
        return {id(live): copy for kept in self.kept for live, copy in kept.pairs()}

    def covers(self, model: Any) -> bool:
        """True where all statistics of `model` that a forward pass changes are kept."""
        base = getattr(sys.modules.get("torch.nn.modules.batchnorm"), "_NormBase", None)
        known = {id(kept.module()) for kept in self.kept if kept.pairs()}
        return base is None or all(
            id(m) in known for _, m in walk(model) if issubclass(type(m), base) and m.training and _buffers(m)
        )

    def clear(self) -> None:
        self.kept = []


class _Kept:
    """One module."""

    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        self._version: Optional[Tuple[int, int]] = None
        self._copies: Dict[str, Tuple[Any, Any]] = {}

    def buffers(self) -> Dict[str, Any]:
        module = self.module()
        return {} if module is None else _buffers(module)

    def changed(self, torch: Any, copies: List[Any], sources: List[Any]) -> None:
        """Add what is to be copied: everything, where the module has seen a batch since."""
        buffers = self.buffers()
        counted = buffers.get("num_batches_tracked")
        version = None if counted is None else (id(counted), counted._version)
        if version == self._version and version is not None:
            return
        self._version = version
        for name, live in buffers.items():
            old = self._copies.get(name)
            if old is None or old[0] is not live or old[1].shape != live.shape or old[1].dtype != live.dtype:
                old = (live, torch.empty_like(live))
            self._copies[name] = old
            copies.append(old[1])
            sources.append(live)

    def pairs(self) -> List[Tuple[Any, Any]]:
        return list(self._copies.values())


def _buffers(module: Any) -> Dict[str, Any]:
    plain = (sys.modules["torch"].Tensor,)
    return {name: b for name, b in list(vars(module)["_buffers"].items()) if type(b) in plain}
