"""Turn the state of training objects into what ``torch.load(weights_only=True)`` reads: tensors, plain containers, numbers, text, None."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Callable, Dict, Set

from ..saying import Said, said

LEFT_OUT = object()
"""Stands for a value that has no plain form."""
MOST_DEPTH = 48

Note = Callable[[Said], None]


def plain(value: Any, path: str, note: Note) -> Any:
    """`value` rebuilt from plain parts, tensors as they are (not copied); `LEFT_OUT`, and a note naming `path`, where that cannot be.

    Calls none of the user's code: subclasses of the plain types become those types, NumPy's scalars and arrays numbers and lists, sets and
    deques lists. Inside a list what has no plain form becomes None, so that the places of the others stay; from a dict it is dropped.
    """
    return _Plainer(note).convert(value, path)


class _Plainer:
    def __init__(self, note: Note) -> None:
        self._note = note
        self._inside: Set[int] = set()

    def convert(self, value: Any, path: str) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        torch = sys.modules.get("torch")
        if torch is not None and issubclass(type(value), torch.Tensor):
            return value
        if type(value).__module__ == "numpy":
            return self._of_numpy(value, path)
        for base in (int, float, str):
            if issubclass(type(value), base):
                return base.__str__(value) if base is str else getattr(base, f"__{base.__name__}__")(value)
        if issubclass(type(value), (dict, list, tuple, set, frozenset, deque)):
            return self._container(value, path)
        return self._leave_out(value, path)

    def _container(self, value: Any, path: str) -> Any:
        if id(value) in self._inside or len(self._inside) > MOST_DEPTH:
            self._note(said("{path} is left out: it contains itself, or is nested too deeply", path=path))
            return LEFT_OUT
        self._inside.add(id(value))
        try:
            if issubclass(type(value), dict):
                return self._dict(value, path)
            parts = [self.convert(part, f"{path}[{i}]") for i, part in enumerate(list(value))]
            kept = [None if part is LEFT_OUT else part for part in parts]
            return tuple(kept) if issubclass(type(value), tuple) else kept
        finally:
            self._inside.discard(id(value))

    def _dict(self, value: Dict[Any, Any], path: str) -> Any:
        kept = {}
        for key, part in list(dict.items(value)):
            name = self.convert(key, f"a key of {path}")
            if name is LEFT_OUT or isinstance(name, (list, dict)):
                continue
            converted = self.convert(part, f"{path}.{name}")
            if converted is not LEFT_OUT:
                kept[name] = converted
        return kept

    def _of_numpy(self, value: Any, path: str) -> Any:
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        return value.tolist() if kind in "biufSU" and kind else self._leave_out(value, path)

    def _leave_out(self, value: Any, path: str) -> Any:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        self._note(said("{path} is left out: a {kind} has no plain form", path=path, kind=kind))
        return LEFT_OUT


def plain_dict(values: Dict[Any, Any], path: str, note: Note) -> Dict[Any, Any]:
    """`plain` for a dict; empty where it has no plain form."""
    converted = plain(values, path, note)
    return {} if converted is LEFT_OUT else converted
