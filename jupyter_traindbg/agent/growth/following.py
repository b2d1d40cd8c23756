"""From a place that grows to what is told of it: the name that keeps it, what it is made of, which line may add to it."""

from __future__ import annotations

import collections
import sys
import types
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..attributes import MISSING, attributes, class_name
from . import lines
from .elements import LRU, described
from .hooks import HOOKS, REGISTERS
from .names import is_ours
from .paths import Path, named
from .tree import CACHE, TUPLE, Moment
from .watched import CHAIN, FIRST_INPUT, LAST_INPUT, VALUES, Watched, linked

FOLLOWED_BYTES, TELLING_BYTES = 512, 1024
"""What takes less a step is not followed: numbers that are logged. What takes more explains a growth."""
MOST_NUMBERS = 200


class Held(NamedTuple):
    """One thing that grows. ``wanted`` says which line makes it do so, ``codes`` in which functions that is likely. ``numbers``: what names
    near to it stand for, by which its length may be bounded. ``instead``: the same of the library's object that has it, where it is one.
    """

    row: Dict[str, Any]
    wanted: Optional[lines.Wanted]
    codes: List[types.CodeType]
    numbers: Dict[str, int]
    instead: Optional[Tuple[lines.Wanted, List[types.CodeType]]] = None


def of_place(one: Watched, moment: Moment) -> Optional[Held]:
    """What is told of a place that grows; None where it is gone, or worth no word. On the training thread: up to 10 ms."""
    value = moment.at(one.place)
    if value is MISSING or is_ours(type.__dict__["__module__"].__get__(type(value))):
        return None
    about = _about(one, value)
    limit = _bound(value)
    odd = (about["graph"] or about["called"]) and limit is None
    if not odd and about["bytes_a_step"] < (FOLLOWED_BYTES if limit is None else TELLING_BYTES):
        return None
    path = path_of(one.place, moment)
    kind = "graph" if one.what in (FIRST_INPUT, LAST_INPUT) else "type" if one.what == CHAIN else "container"
    about_it = row(kind, value, one.counts, about, path)
    about_it["steps"] = one.steps
    about_it["bound"] = path.bound if limit is None else limit
    return _held(one, value, about_it, path, moment)


def _held(one: Watched, value: Any, about_it: Dict[str, Any], path: Path, moment: Moment) -> Held:
    numbers = _numbers(one.place, path, moment)
    label = last_name(path)
    if label in HOOKS:
        return Held({**about_it, "hooks": True}, lines.Wanted("", (), REGISTERS), [], numbers)
    if one.what == CHAIN:
        link = (class_name(value), f".{one.attribute}")
        about_it["path"]["steps"].append(list(link))
        about_it.update(chain=one.attribute, defined=defined(type(value)))
        return Held(about_it, lines.Wanted(one.attribute, stores=True), codes(path), numbers)
    cached = value.__dict__.get("__wrapped__") if moment.tree.kinds[one.place] == CACHE else None
    if type(cached) is types.FunctionType:
        about_it["lines"] = [_begins(cached.__code__)]
        return Held(about_it, None, codes(path), numbers)
    replaced = (
        not one.same or moment.tree.kinds[one.place] == TUPLE
    )  # by one whose address may be that of the last but one
    stores = one.what in (FIRST_INPUT, LAST_INPUT, VALUES) or replaced
    held = Held(about_it, lines.Wanted(label, keys(path), stores=stores), codes(path), numbers)
    own = _of_the_program(one.place, path, moment)
    return held if own is path else held._replace(instead=(lines.Wanted(last_name(own), keys(own)), codes(own)))


def _of_the_program(place: int, path: Path, moment: Moment) -> Path:
    """What a line of the program's may add to: not what a library's object has for itself, but that object."""
    above = moment.tree.parents[place]
    while path.owner is not None and lines.of_library(path.owner) and moment.tree.parents[above] >= 0:
        path = path_of(above, moment)
        above = moment.tree.parents[above]
    return path


def _about(one: Watched, value: Any) -> Dict[str, Any]:
    a_step = (one.counts[-1] - one.counts[0]) / one.steps
    if one.what in (FIRST_INPUT, LAST_INPUT):
        return {**described([value]), "graph": True, "bytes_a_step": 0.0}
    if one.what == VALUES:
        about = described([value])
        return {**about, "bytes_a_step": about["bytes"] / max(1, one.counts[-1]) * a_step}
    if one.what == CHAIN:
        first = linked(value, one.attribute, 2)
        about = described(first)
        about = {**about, "bytes": about["bytes"] * len(first)}  # what is deeper hangs on both, and counts for none
    else:
        about = described(value)
    return {**about, "bytes_a_step": about["bytes"] * a_step}


def path_of(place: int, moment: Moment) -> Path:
    """The way from the nearest thing that has a name: a class, a function, a generator, else the variable that all begins with."""
    numbers = moment.tree.way(place)[1:]
    chain = [moment.at(number) for number in numbers]
    return named(chain, moment.name(numbers[0], chain[0]))


def row(kind: str, value: Any, counts: Sequence[int], about: Dict[str, Any], path: Path) -> Dict[str, Any]:
    return {
        "kind": kind,
        "type": class_name(value),
        "counts": list(counts),
        "steps": 1,
        "about": about,
        "path": path.told(),
        "bound": path.bound,
        "hooks": False,
        "chain": "",
        "defined": None,
        "lines": [],
    }


def explains(told: Dict[str, Any]) -> bool:
    """Whether what is told of a thing that grows explains that memory does."""
    return bool(told["about"]["graph"] or told["hooks"] or told["about"]["bytes_a_step"] >= TELLING_BYTES)


def _bound(container: Any) -> Optional[int]:
    """How much it takes at most from the beginning."""
    cls = type(container)
    if cls is LRU:
        most = LRU.cache_info(container).maxsize
        return None if most is None else int(most)
    return container.maxlen if cls is collections.deque else None


def _numbers(place: int, path: Path, moment: Moment) -> Dict[str, int]:
    """What whole numbers are called near to a place: attributes of all that it hangs on, variables of functions that run, of its module."""
    spaces: List[Dict[str, Any]] = []
    for number in moment.tree.way(place)[1:-1]:
        spaces.insert(0, attributes(moment.at(number)))
    if path.name is not None and path.name.code is not None:
        running = moment.stacks.by_code.get(id(path.name.code))
        spaces += [] if running is None else [running.values]
    spaces += [dict(running.values) for running in moment.stacks.by_code.values() if not running.library]
    home = None if path.owner is None else type.__dict__["__module__"].__get__(path.owner)
    modules = [sys.modules.get(key) for key in (home, "__main__") if type(key) is str]
    spaces += [module.__dict__ for module in modules if type(module) is types.ModuleType]
    found: Dict[str, int] = {}
    for space in spaces:
        for key, value in list(dict.items(space)):
            if type(value) is int and type(key) is str and len(found) < MOST_NUMBERS:
                found.setdefault(key, value)
    return found


def last_name(path: Path) -> str:
    """What the line that adds to it calls it: the last attribute on the way, else the variable."""
    for _, label in reversed(path.steps):
        if label.startswith("."):
            return label[1:]
    return path.name.name if path.name is not None else ""


def keys(path: Path) -> List[str]:
    """The texts by which it is looked up behind that name."""
    found: List[str] = []
    for _, label in reversed(path.steps):
        if label.startswith("."):
            break
        if label.startswith("['"):
            found.append(label[2:-2])
    return found


def codes(path: Path) -> List[types.CodeType]:
    """The functions that may well have the line: of the class whose attribute it is, then the one whose variable it is."""
    found: List[types.CodeType] = []
    attribute = any(label.startswith(".") for _, label in path.steps)
    if attribute and path.owner is not None and path.owner is not types.FunctionType:
        found += lines.of_class(path.owner)
    name = path.name
    if name is not None and name.code is not None and (not attribute or path.owner is types.FunctionType):
        found.append(name.code)
    return found


def _begins(code: types.CodeType) -> List[Any]:
    return [code.co_filename, code.co_firstlineno, getattr(code, "co_qualname", None) or code.co_name]


def defined(cls: type) -> Optional[List[Any]]:
    """Where a class of the program's is written: its first function's line."""
    space: Tuple[Any, ...] = tuple(type.__dict__["__dict__"].__get__(cls).values())
    written = [value.__code__ for value in space if type(value) is types.FunctionType]
    first = min(written, key=lambda code: code.co_firstlineno, default=None)
    return None if first is None else _begins(first)


__all__ = ["Held", "codes", "defined", "explains", "keys", "last_name", "of_place", "path_of", "row"]
