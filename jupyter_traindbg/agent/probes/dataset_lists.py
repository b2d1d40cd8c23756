"""The large lists and dicts of Python objects that datasets of DataLoaders have: a forked worker copies their pages when it reads them."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, Dict, List

from ..attributes import MISSING, attribute, attributes, class_name, classes, is_library
from ..growth import lines

if TYPE_CHECKING:
    from ..core import Agent

COST = "microseconds an attribute; on a client's thread"
LEAST_OBJECTS = 10_000
DEPTH, MOST_ATTRIBUTES = 3, 200
BASES = (list, dict, tuple, set)


def run(agent: Agent) -> Dict[str, Any]:
    """``lists``: each with its ``path`` from the dataset on, how many ``objects`` it has and of which ``kind``; the longest first.
    ``datasets``: the classes, with the place of their ``__getitem__``.
    """
    found: List[Dict[str, Any]] = []
    datasets = []
    for loader in agent.objects.find().loaders() if "torch" in sys.modules else []:
        dataset = attribute(loader, "dataset")
        if dataset is not MISSING:
            datasets.append(
                {"name": class_name(dataset), "workers": attribute(loader, "num_workers"), "place": _reads(dataset)}
            )
            _look(dataset, class_name(dataset), DEPTH, found)
    return {"lists": sorted(found, key=lambda one: -one["objects"])[:8], "datasets": datasets}


def _look(value: Any, path: str, depth: int, found: List[Dict[str, Any]]) -> None:
    for name, held in itertools.islice(list(attributes(value).items()), MOST_ATTRIBUTES):
        base = next((base for base in BASES if issubclass(type(held), base)), None)
        if base is None:
            if depth and attributes(held):
                _look(held, f"{path}.{name}", depth - 1, found)
        elif base.__len__(held) >= LEAST_OBJECTS:
            first = next(iter(base.__iter__(held)), None)
            told = {
                "path": f"{path}.{name}",
                "kind": base.__name__,
                "of": class_name(first),
                "objects": base.__len__(held),
            }
            filled = lines.find(lines.Wanted(name, stores=True), lines.of_class(type(value)), [])
            found.append({**told, "lines": [list(place) for place in filled]})


def _reads(dataset: Any) -> List[Any]:
    """Where its ``__getitem__`` or ``__iter__`` is, of the program's own; nothing of a library's."""
    for cls in classes(dataset):
        for name in ("__getitem__", "__getitems__", "__iter__"):
            code = getattr(type.__dict__["__dict__"].__get__(cls).get(name), "__code__", None)
            if code is not None and not is_library(code.co_filename):
                return [code.co_filename, code.co_firstlineno, getattr(code, "co_qualname", None) or code.co_name]
    return []
