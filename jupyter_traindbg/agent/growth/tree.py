"""What can be reached from the program's own variables, as places: ``trainer`` in main(), its attribute ``history``, of that ``['loss']``.

A tree of places and not of objects: nothing is held between two pauses, and what a place stands for is looked up anew in each. No list of
all objects is made, which alone takes 0.1 us an object in one stretch: 30 ms for 300,000.
"""

from __future__ import annotations

import collections
import gc
import itertools
import sys
import time
import types
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..attributes import MISSING, is_library
from .elements import LRU
from .hooks import of_tensor
from .names import Name, Stacks, is_ours, of_module, own_modules, variables

DEPTH, MOST_PLACES = 12, 100_000
ALL, NEWEST, OLDEST = 48, 6, 2
"""Of a container that is no longer all elements are looked at, else these."""
LEAVES = (
    types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType, str, bytes, bytearray, int, float, complex,
    type(None),
)  # fmt: skip
EVERY = 16
"""So many places are looked at between two looks at the clock: 20 us."""

LEAF, LIST, DICT, TUPLE, SET, DEQUE, CACHE, TENSOR, ARRAY, CLASS, FUNCTION, PLAIN, OTHER, SPACE = range(14)
"""What places stand for. `PLAIN`: its attributes are all that it has; `SPACE`: the variables of a function or a module."""
GROWS = (LIST, DICT, SET, DEQUE, CACHE)
BASES: Dict[int, Any] = {LIST: list, TUPLE: tuple, DEQUE: collections.deque, DICT: dict, SET: set}

FRAME, MODULE, VARIABLE, ATTRIBUTE, ITEM, LAST, FIRST, REFERS = range(8)
"""How a place is found from the one above it; see `_below`."""
Label = Tuple[int, Any]
_namespace: Any = type.__dict__["__dict__"].__get__
_mro: Any = type.__dict__["__mro__"].__get__


class Chain(NamedTuple):
    """An object whose attribute leads to another one of its class, and perhaps so on."""

    place: int
    attribute: str


class Tree:
    """Grown by `Moment.grow`, breadth first, over as many pauses as that takes."""

    def __init__(self) -> None:
        self.parents: array[int] = array("q")
        self.hows, self.keys = bytearray(), []  # type: bytearray, List[Any]
        """How each place is found from the one above it. (No tuples: a hundred thousand of these are work for the garbage collector.)"""
        self.kinds = bytearray()
        self.depths = bytearray()
        self.chains: List[Chain] = []
        self.seen: Dict[int, int] = {}
        """By the ``id`` of what it stood for, the number of a place."""
        self.next = 0
        """The first place whose parts are not known yet."""
        self.classes: Dict[int, Class] = {}
        self.roots: Dict[int, Name] = {}
        """The modules, by place."""

    @property
    def whole(self) -> bool:
        return self.next >= len(self.keys)

    def add(self, parent: int, label: Label, kind: int) -> int:
        self.parents.append(parent)
        self.hows.append(label[0])
        self.keys.append(label[1])
        self.kinds.append(kind)
        self.depths.append(0 if parent < 0 else self.depths[parent] + 1)
        return len(self.keys) - 1

    def places(self, *kinds: int) -> List[int]:
        return [place for place, kind in enumerate(self.kinds) if kind in kinds]

    def rebound(self) -> List[int]:
        """Tuples that may be replaced by longer ones: those that have a name, or a key."""
        return [place for place in self.places(TUPLE) if self.hows[place] in (VARIABLE, ATTRIBUTE, ITEM)]

    def way(self, place: int) -> List[int]:
        """From the root down to it."""
        found = [place]
        while self.parents[found[-1]] >= 0:
            found.append(self.parents[found[-1]])
        return found[::-1]


class Class(NamedTuple):
    """What is known of a class: of which kind its instances are, and how their attributes are read."""

    kind: int
    read: Any


class Moment:
    """What places stand for at this moment: within one pause of the training thread. It holds objects, and has to be gone with the
    pause.
    """

    def __init__(self, tree: Tree, stacks: Stacks, ends_s: float) -> None:
        """`ends_s`, by `time.perf_counter`: when to stop."""
        self.tree, self.stacks = tree, stacks
        self.ends_s = ends_s
        self._known: Dict[int, Any] = {}

    @property
    def over(self) -> bool:
        return time.perf_counter() > self.ends_s

    def grow(self) -> None:
        """Until the tree is whole, or the time is over."""
        tree = self.tree
        if not tree.keys:
            self._roots()
        while not tree.whole:
            place = tree.next
            tree.next += 1
            if tree.depths[place] < DEPTH and len(tree.keys) < MOST_PLACES:
                value = self.at(place)
                if value is not MISSING:
                    self._branch(place, value)
            if tree.next % EVERY == 0 and self.over:
                break

    def at(self, place: int) -> Any:
        """What it stands for; `MISSING` where it is gone, or of another kind."""
        tree, known = self.tree, self._known
        todo = []
        while place >= 0 and place not in known:
            todo.append(place)
            place = tree.parents[place]
        value = known[place] if place >= 0 else None
        for below in reversed(todo):
            value = known[below] = self._below(value, below)
        return value

    def place_of(self, value: Any) -> Optional[int]:
        """None where the tree has none for it: at the address of a step's tensor another object may be by now."""
        place = self.tree.seen.get(id(value))
        return place if place is not None and self.at(place) is value else None

    def name(self, place: int, value: Any) -> Optional[Name]:
        """Of a variable of a function or of a module; None of other places."""
        tree = self.tree
        how, key = tree.hows[place], tree.keys[place]
        if how != VARIABLE:
            return None
        above = tree.parents[place]
        of_module = tree.roots.get(above)
        if of_module is not None:
            return of_module._replace(name=key)
        running = self.stacks.by_code.get(id(tree.keys[above]))
        return None if running is None else running.named(key)

    def _below(self, value: Any, place: int) -> Any:
        tree = self.tree
        how, key = tree.hows[place], tree.keys[place]
        if how == FRAME:
            running = self.stacks.by_code.get(id(key))
            return MISSING if running is None else running.values
        if how == MODULE:
            module = sys.modules.get(key)
            return module.__dict__ if type(module) is types.ModuleType else MISSING
        if value is MISSING:
            return MISSING
        found = _found(value, how, key, self)
        return found if found is not MISSING and self.class_of(found).kind == tree.kinds[place] else MISSING

    def class_of(self, value: Any) -> Class:
        cls = type(value)
        known = self.tree.classes.get(id(cls))
        if known is None:
            known = self.tree.classes[id(cls)] = _class(cls)
        return known

    def _roots(self) -> None:
        """Variables of the program's functions, of its modules, then those of libraries' functions."""
        functions = list(self.stacks.by_code.values())
        for library in (False, True):
            for running in functions:
                if running.library is library:
                    self._root((FRAME, running.code), running.values)
            if not library:
                for name in own_modules():
                    space = sys.modules[name.scope].__dict__
                    place = self._root((MODULE, name.scope), space)
                    self.tree.roots[place] = of_module(space)

    def _root(self, label: Label, space: Dict[str, Any]) -> int:
        place = self.tree.add(-1, label, SPACE)
        self._known[place] = space
        self.tree.seen[id(space)] = place
        return place

    def _branch(self, place: int, value: Any) -> None:
        """Add the parts of a place that are worth to be looked at."""
        tree = self.tree
        known, kind = self._known, tree.kinds[place]
        own_class = id(type(value)) if kind in (PLAIN, OTHER) else 0
        for label, child in self._parts(value, kind):
            about = self.class_of(child)
            if own_class and id(type(child)) == own_class and label[0] == ATTRIBUTE and child is not value:
                tree.chains.append(Chain(place, label[1]))
            if about.kind == LEAF or self.place_of(child) is not None:
                continue
            tree.seen[id(child)] = number = tree.add(place, label, about.kind)
            known[number] = child

    def _parts(self, value: Any, kind: int) -> List[Tuple[Label, Any]]:
        if kind == SPACE:
            return [((VARIABLE, key), held) for key, held in variables(value)]
        if kind == DICT:
            return _of_dict(value)
        if kind in (LIST, TUPLE, DEQUE):
            return _of_sequence(value, BASES[kind])
        if kind == CLASS:
            return [((ATTRIBUTE, key), held) for key, held in _own_names(value)]
        if kind in (PLAIN, OTHER, TENSOR):
            about = self.class_of(value)
            own = about.read(value) if about.read is not None else {}
            told = [((ATTRIBUTE, key), held) for key, held in list(dict.items(own)) if type(key) is str]
            return told if kind != OTHER else told + [one for one in _references(value) if one[1] is not own]
        return _references(value) if kind == FUNCTION else []


def _class(cls: type) -> Class:
    """Read past its metaclass."""
    known: List[Tuple[int, Any]] = [
        (CLASS, type),
        (LEAF, LEAVES),
        (CACHE, LRU),
        (FUNCTION, types.FunctionType),
        (TENSOR, getattr(sys.modules.get("torch"), "Tensor", ())),
        (ARRAY, getattr(sys.modules.get("numpy"), "ndarray", ())),
        *BASES.items(),
    ]
    kind = next((kind for kind, base in known if issubclass(cls, base)), OTHER)
    if kind != OTHER or is_ours(type.__dict__["__module__"].__get__(cls)):
        return Class(LEAF if kind == OTHER else kind, of_tensor if kind == TENSOR else None)
    found = next((space["__dict__"] for space in map(_namespace, _mro(cls)) if "__dict__" in space), None)
    if found is None or type(found) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
        return Class(OTHER, None)
    slots = any(
        type(member) is types.MemberDescriptorType for home in _mro(cls) for member in list(_namespace(home).values())
    )
    return Class(OTHER if slots or not _is_python(cls) else PLAIN, found.__get__)


def _is_python(cls: type) -> bool:
    """Whether all its bases are written in Python, so that a dict is all that an instance has."""
    return all(home is object or type.__dict__["__flags__"].__get__(home) & HEAP for home in _mro(cls))


HEAP = 1 << 9
"""Of types that were made while the program runs; those written in C are not, by and large."""


def _of_dict(value: Any) -> List[Tuple[Label, Any]]:
    length = dict.__len__(value)
    if length <= ALL:
        plain = all(type(key) in (str, int) for key in dict.keys(value))
        if plain:
            return [((ITEM, key), held) for key, held in list(dict.items(value))]
        return [((FIRST, n), held) for n, held in enumerate(list(dict.values(value)))]
    first = list(itertools.islice(dict.values(value), OLDEST))
    last = list(itertools.islice(reversed(dict.values(value)), NEWEST))
    return [((FIRST, n), held) for n, held in enumerate(first)] + [((LAST, n + 1), held) for n, held in enumerate(last)]


def _of_sequence(value: Any, base: Any) -> List[Tuple[Label, Any]]:
    length = base.__len__(value)
    if length <= ALL:
        return [((FIRST, n), base.__getitem__(value, n)) for n in range(length)]
    numbers = [(FIRST, n) for n in range(OLDEST)] + [(LAST, n) for n in range(1, NEWEST + 1)]
    return [((how, n), base.__getitem__(value, n if how == FIRST else -n)) for how, n in numbers]


def _own_names(cls: type) -> List[Tuple[str, Any]]:
    """What a class of the program's has of its own."""
    home = type.__dict__["__module__"].__get__(cls)
    module = sys.modules.get(home) if type(home) is str else None
    file = getattr(module, "__file__", None)
    if is_ours(home) or (is_library(file) if type(file) is str else home != "__main__"):
        return []
    return [(key, held) for key, held in list(_namespace(cls).items()) if type(key) is str and not key.startswith("__")]


def _references(value: Any) -> List[Tuple[Label, Any]]:
    """Whatever it refers to, of which C knows; without the globals of a module."""
    return [
        ((REFERS, n), held)
        for n, held in enumerate(gc.get_referents(value))
        if not (type(held) is dict and "__builtins__" in held) and not issubclass(type(held), type)
    ]


def _found(value: Any, how: int, key: Any, moment: Moment) -> Any:
    """One step down."""
    if how in (VARIABLE, ITEM):
        return dict.get(value, key, MISSING)
    if how == ATTRIBUTE:
        if issubclass(type(value), type):
            return _namespace(value).get(key, MISSING)
        read = moment.class_of(value).read
        return dict.get(read(value), key, MISSING) if read is not None else MISSING
    if how == REFERS:
        held = gc.get_referents(value)
        return held[key] if key < len(held) else MISSING
    return _counted(value, how, key)


def _counted(value: Any, how: int, n: int) -> Any:
    base = next((base for base in BASES.values() if issubclass(type(value), base)), None)
    if base is None or base.__len__(value) < n + (how == FIRST):
        return MISSING
    if base is dict:
        values = dict.values(value) if how == FIRST else reversed(dict.values(value))
        return next(itertools.islice(values, n if how == FIRST else n - 1, None), MISSING)
    return base.__getitem__(value, n if how == FIRST else -n)


__all__ = ["GROWS", "Chain", "Moment", "Tree"]
