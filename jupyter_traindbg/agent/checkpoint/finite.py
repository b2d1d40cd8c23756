"""Whether what is written is finite, looked at as it passes through: a model of NaNs is saved like any other, and its owner told."""

from __future__ import annotations

import math
import sys
from typing import Any, Dict, Iterator, List, Set, Tuple

from .archive import Pieces
from .layout import Layout, Store

CHUNK = 32768
"""Elements at a time: torch starts no threads for so few, which would be in the training's way."""

DTYPES = ("float32", "bfloat16", "float16", "float64", "complex64", "complex128")
"""What has infinities, and a sum on every version of torch: a checkpoint must not fail because it is looked at."""
Part = Tuple[str, str]
"""What a tensor belongs to (``"model"``, ``"optimizer"``), and its name there."""


class Finite:
    """Which tensors of these parts hold a NaN or an infinity, once their bytes have gone through `watched`.

    About 0.1 s a GB (bfloat16: 0.25 s), on the thread that writes.
    """

    def __init__(self, parts: Dict[str, Dict[str, Any]], layout: Layout) -> None:
        self._of: Dict[int, List[Part]] = {}
        self._count: Dict[str, int] = {part: len(tensors) for part, tensors in parts.items()}
        self._bad: Set[int] = set()
        for part, tensors in parts.items():
            for name, tensor in tensors.items():
                leaf = layout.leaves.get(id(tensor))
                if leaf is not None and _can_be_infinite(leaf.store):
                    self._of.setdefault(id(leaf.store), []).append((part, name))

    def watched(self, pieces: Pieces) -> Pieces:
        """`pieces`, looked at before they are handed on."""

        def through(store: Store) -> Iterator[memoryview]:
            for piece in pieces(store):
                if id(store) in self._of and id(store) not in self._bad and not _finite(piece, store.dtype):
                    self._bad.add(id(store))
                yield piece

        return through

    def found(self) -> List[Dict[str, Any]]:
        """By part: ``part``, how many ``tensors`` of it are not finite, ``of`` how many, and the ``first`` one's name; JSON-ready."""
        bad: Dict[str, List[str]] = {}
        for store, members in self._of.items():
            for part, name in members if store in self._bad else ():
                bad.setdefault(part, []).append(name)
        return [
            {"part": part, "tensors": len(names), "of": self._count[part], "first": names[0]}
            for part, names in bad.items()
        ]


def _can_be_infinite(store: Store) -> bool:
    torch = sys.modules["torch"]
    return any(store.dtype is getattr(torch, name) for name in DTYPES)


def _finite(piece: memoryview, dtype: Any) -> bool:
    torch = sys.modules["torch"]
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        values = torch.frombuffer(piece, dtype=dtype)
        values = torch.view_as_real(values).flatten() if dtype.is_complex else values
        total = torch.float64 if values.dtype == torch.float64 else torch.float32
        for start in range(0, values.numel(), CHUNK):
            chunk = values[start : start + CHUNK]
            # a sum is finite only where all are, and takes a tenth of asking each; large ones may overflow
            if not math.isfinite(chunk.sum(dtype=total).item()) and not bool(chunk.isfinite().all()):
                return False
    return True


__all__ = ["Finite"]
