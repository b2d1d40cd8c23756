"""What keeps an object from being freed: the shortest way from it, by what refers to what, up to a name of the program."""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import sys
import types
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..attributes import attributes, class_name
from ..reachable import look_at_stack
from .elements import LRU, is_tensor
from .hooks import of_tensor
from .names import GENERATORS, LIBRARY, SELF, Name, bound_of, frame_of, is_ours, of_module, of_value, variables
from .tree import Moment

MOST_LEVELS, MOST_WIDE, AT_ONCE = 10, 12, 1
"""`AT_ONCE`: for so many objects it is looked who has them in one pause, for each is compared with whatever any object refers to."""
FURTHER = 2
"""So many levels more are looked at for a name of the program's own, once one of a library, or a ``self``, is found."""
MOST_SEARCHED = 1_000_000
SKIPPED = (types.ModuleType, types.CodeType)


class Path(NamedTuple):
    """``steps``: how one gets from the name to the object, ``(class, label)`` each: ``(("Trainer", ".history"), ("dict", "['loss']"))``.

    ``whole`` where all ways were followed: without a name there is none then, and the object is garbage.
    """

    name: Optional[Name]
    steps: Tuple[Tuple[str, str], ...]
    whole: bool
    cycle: bool = False
    owner: Any = None
    """The class of the object whose attribute the last label is; never an instance."""
    within: Any = None
    """The class of what has it."""
    bound: Optional[int] = None
    """How many that object says it keeps at most, by an attribute of one of the usual names."""

    def told(self) -> Dict[str, Any]:
        return {
            "name": None if self.name is None else self.name.told(),
            "steps": [list(step) for step in self.steps],
            "whole": self.whole,
            "cycle": self.cycle,
        }


class Search:
    """Searches among all objects for what keeps one of them, some at a time: a pause of 0.1 us an object that the collector tracks, 30 ms
    for 300,000. What was found on the way is held until it is over, so that it can be gone on with: all of it has kept for many steps
    already.
    """

    def __init__(self, target: Any) -> None:
        self._kept = [target]
        self._nodes: Dict[int, Any] = {id(target): target}
        self._child_of: Dict[int, int] = {}
        self._level: List[Any] = [target]
        self._above: List[Any] = []
        self._found: List[Tuple[Name, int]] = []
        self._apart = {id(self._kept), id(self._nodes), id(self._level), id(self._above)}
        self._left = MOST_LEVELS
        self._whole, self._cycle = True, False
        self.given_up = False

    def advance(self, moment: Moment) -> bool:
        """One pause; True where the search is over."""
        some: List[Any] = []
        self._apart.add(id(some))
        some += self._level[-AT_ONCE:]
        del self._level[-AT_ONCE:]
        self._look(some, moment)
        self._apart.discard(id(some))
        if self._level:
            return False
        self._left -= 1
        if self._found:
            self._left = min(self._left, FURTHER)
        self._whole = self._whole and len(self._above) <= MOST_WIDE
        self._level += self._above[:MOST_WIDE]
        del self._above[:]
        done = self._left <= 0 or any(name.rank < SELF for name, _ in self._found)
        self._whole = self._whole and not (done and self._level)
        return done or not self._level

    def chain(self, moment: Moment) -> Tuple[Optional[Name], List[Any]]:
        """The best name that was found, and the way from there to the object."""
        best = min(self._found, key=lambda one: one[0].rank, default=None)
        if best is None:
            return None, self._kept[:]
        chain = [self._nodes[key] for key in _chain(best[1], self._child_of)]
        place = moment.place_of(chain[0])
        if place is not None:
            return best[0], [moment.at(number) for number in moment.tree.way(place)[1:]] + chain[1:]
        if _is_module(chain[0]):
            chain = chain[1:]  # the name itself is the first label
        return best[0], chain

    def path(self, moment: Moment) -> Path:
        """The way to the object, or its cycle where nothing has it."""
        name, chain = self.chain(moment)
        if name is None:
            steps = _cycle(self._kept[0], self._nodes) if self._cycle else ()
            return Path(None, steps, self._whole, self._cycle)
        return named(chain, name)

    def give_up(self) -> None:
        self.given_up, self._whole = True, False

    def forget(self) -> None:
        """Hold nothing any more."""
        for held in (self._kept, self._nodes, self._level, self._above):
            held.clear()

    def _look(self, some: List[Any], moment: Moment) -> None:
        """What refers to these and has to be gone on with goes above; what has a name is found."""
        ids = set(map(id, some))
        parents = gc.get_referrers(*some)
        for parent in parents:
            self._cycle = self._cycle or parent is self._kept[0]
            if id(parent) in self._apart or id(parent) in self._nodes or self._skipped(parent, moment):
                continue
            child = next((c for c in gc.get_referents(parent) if id(c) in ids), None)
            if child is None:
                continue
            self._nodes[id(parent)] = parent
            self._child_of[id(parent)] = id(child)
            name = _name(parent, child, moment)
            if name is not None:
                self._found.append((name, id(parent)))
            elif not _is_module(parent):
                self._above.append(parent)

    def _skipped(self, parent: Any, moment: Moment) -> bool:
        """What is ours, or what leads nowhere: frames that run are known by their variables."""
        cls = type(parent)
        if cls is types.FrameType:
            return id(parent) in moment.stacks.frames or is_ours(parent.f_globals.get("__name__"))
        if issubclass(cls, SKIPPED) or any(parent is running.values for running in moment.stacks.by_code.values()):
            return True
        return is_ours(type.__dict__["__module__"].__get__(cls))


def named(chain: List[Any], root: Optional[Name]) -> Path:
    """A way from a variable, which is called `root`, as it is told: from the nearest thing on it that has a name of its own."""
    for n in range(len(chain) - 1, -1, -1):
        own = of_value(chain[n])
        if own is not None and own.rank != LIBRARY:
            root, chain = own, chain[n:]
            break
    within = type(chain[-2]) if len(chain) > 1 else None
    steps, owner = _steps(chain)
    if owner is None:
        return Path(root, steps, True, within=within)
    return Path(root, steps, True, owner=_class(owner), within=within, bound=bound_of(owner))


def _name(value: Any, child: Any, moment: Moment) -> Optional[Name]:
    """The name that ends the search where `value` is reached, which holds `child`; None where it goes on."""
    place = moment.place_of(value)
    if place is not None:
        way = moment.tree.way(place)
        return moment.name(way[1], moment.at(way[1])) if len(way) > 1 else None
    if _is_module(value):
        known = [key for key, one in variables(value) if one is child]
        return of_module(value)._replace(name=known[0]) if known else None
    return of_value(value)


def _is_module(value: Any) -> bool:
    """Whether these are the variables of a module."""
    if type(value) is not dict or type(value.get("__name__")) is not str:
        return False
    module = sys.modules.get(value["__name__"])
    return type(module) is types.ModuleType and module.__dict__ is value


def _chain(top: int, child_of: Dict[int, int]) -> Iterator[int]:
    """From a node down to the target."""
    yield top
    while top in child_of:
        top = child_of[top]
        yield top


def _steps(chain: List[Any]) -> Tuple[Tuple[Tuple[str, str], ...], Any]:
    """The labels on the way down, and the object that has the last one as an attribute."""
    steps: List[Tuple[str, str]] = []
    owner: Any = None
    index = 0
    while index + 1 < len(chain):
        parent, child = chain[index], chain[index + 1]
        after = chain[index + 2] if index + 2 < len(chain) else None
        if _is_namespace_of(parent, child) and after is not None:
            label = f".{_key(child, after)}"
            index += 1
        else:
            label = _label(parent, child, after)
            index += type(parent) is types.FunctionType and type(child) is tuple and type(after) is not types.CellType
        owner = parent if label.startswith(".") else owner
        if label:
            steps.append((class_name(parent), label))
        index += 1
    return tuple(steps), owner


def _class(owner: Any) -> type:
    return owner if issubclass(type(owner), type) else type(owner)


def _is_namespace_of(parent: Any, child: Any) -> bool:
    if type(child) is not dict:
        return False
    if issubclass(type(parent), type):
        return not any(value is child for value in list(type.__dict__["__dict__"].__get__(parent).values()))
    return attributes(parent) is child


def _label(parent: Any, child: Any, after: Any) -> str:
    """One step down, as the program would write it; empty where nothing of it is written."""
    cls = type(parent)
    if issubclass(cls, (dict, list, tuple, set, frozenset, collections.deque)):
        return _of_container(parent, child)
    if cls is types.FunctionType:
        return _of_function(parent, child, after)
    if cls in (types.CellType, types.MethodType, functools.partial, LRU, types.TracebackType):
        return ""
    if cls is types.FrameType or cls in GENERATORS:
        return _variable(parent, child)
    return _of_object(parent, child)


def _of_object(parent: Any, child: Any) -> str:
    cls = type(parent)
    if issubclass(cls, BaseException) and type(child) is types.TracebackType:
        return ".__traceback__"
    of_class = issubclass(cls, type)
    space = type.__dict__["__dict__"].__get__(parent) if of_class else attributes(parent)
    if is_tensor(parent):
        space = {**space, **of_tensor(parent)}
    known = next((key for key, value in list(space.items()) if value is child and type(key) is str), None)
    return f".{known}" if known is not None else _slot(parent, child)


def _variable(running: Any, child: Any) -> str:
    """What a frame calls it, or a generator that waits for its next turn."""
    frame = running if type(running) is types.FrameType else frame_of(running)
    if frame is None or frame.f_back is not None:
        return ""
    _, values = next(look_at_stack(frame))
    return next((f".{name}" for name, value in values.items() if value is child), "")


def _of_container(parent: Any, child: Any) -> str:
    cls = type(parent)
    if issubclass(cls, dict):
        key = _key(parent, child)
        return f"[{key!r}]" if type(_raw_key(parent, child)) is str else f"[{key}]"
    if cls is tuple and type(child) is types.CellType:
        return ""
    base = next((base for base in (list, tuple) if issubclass(cls, base)), None)
    items = zip(range(MOST_SEARCHED), base.__iter__(parent)) if base is not None else ()
    return f"[{next((n for n, one in items if one is child), '...')}]"


def _slot(parent: Any, child: Any) -> str:
    for cls in type.__dict__["__mro__"].__get__(type(parent)):
        for name, member in type.__dict__["__dict__"].__get__(cls).items():
            if type(member) is types.MemberDescriptorType:
                try:
                    if member.__get__(parent) is child:
                        return f".{name}"
                except AttributeError:
                    continue
    return ""


def _of_function(function: Any, child: Any, after: Any) -> str:
    """The name within a function: of a variable that it closes over, or of an argument whose default it is."""
    code = function.__code__
    if type(child) is tuple and child is function.__closure__:
        return next((f".{name}" for name, cell in zip(code.co_freevars, child) if cell is after), "")
    if type(child) is tuple and child is function.__defaults__:
        arguments = code.co_varnames[: code.co_argcount][-len(child) :]
        return next((f".{name}" for name, value in zip(arguments, child) if value is after), "")
    return ""


def _raw_key(mapping: Any, child: Any) -> Any:
    items = itertools.islice(dict.items(mapping), MOST_SEARCHED)
    return next((key for key, value in items if value is child), None)


def _key(mapping: Any, child: Any) -> str:
    key = _raw_key(mapping, child)
    return key if type(key) is str else str(key) if type(key) in (int, bool) else "..."


def _cycle(target: Any, nodes: Dict[int, Any]) -> Tuple[Tuple[str, str], ...]:
    """How `target` holds itself, as ``(class, label)``: ``(("View", ".batch"), ("Batch", ".view"))``."""
    came: Dict[int, Tuple[int, str]] = {}
    todo: List[Any] = [target]
    for _ in range(MOST_LEVELS):
        below: List[Any] = []
        for parent in todo:
            for label, child in _held(parent):
                if child is target:
                    return (*_way(id(parent), came, nodes), (class_name(parent), label))
                if id(child) in nodes and id(child) not in came:
                    came[id(child)] = id(parent), label
                    below.append(child)
        todo = below
    return ()


def _way(key: int, came: Dict[int, Tuple[int, str]], nodes: Dict[int, Any]) -> Tuple[Tuple[str, str], ...]:
    if key not in came:
        return ()
    above, label = came[key]
    return (*_way(above, came, nodes), (class_name(nodes[above]), label))


def _held(parent: Any) -> List[Tuple[str, Any]]:
    """What an object holds, each with its label, past the dict of its attributes."""
    own = attributes(parent)
    named = [(f".{name}" if type(name) is str else "", child) for name, child in own.items()]
    return named + [("", child) for child in gc.get_referents(parent) if child is not own]
