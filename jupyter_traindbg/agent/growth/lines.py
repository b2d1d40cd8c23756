"""The lines of a program that make something grow: found in bytecode, by the name of what they add to. Nothing is run."""

from __future__ import annotations

import dis
import itertools
import re
import sys
import types
from typing import Any, Container, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ..attributes import is_library
from .elements import LRU
from .names import codes_of, is_ours

ADDS = frozenset(
    [
        "add",
        "add_",
        "append",
        "appendleft",
        "extend",
        "extendleft",
        "insert",
        "put",
        "put_nowait",
        "register",
        "setdefault",
        "update",
        "push",
        "store",
    ]
)
"""Methods that make a container longer."""
PUSHES = frozenset(("heappush", "insort", "insort_left", "insort_right"))
"""Functions that make longer what they are given."""
MOST_CODES, MOST_LINES = 20_000, 4

Place = Tuple[str, int, str]
"""File, line, function."""
_SAYS_NOTHING = ("CACHE", "NOP", "EXTENDED_ARG")
_SPREADS = ("LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE")
"""``[*x, y]`` and the like."""
_ONE_OF_TWO = re.compile("(?:LOAD|STORE)_FAST(?:_BORROW)?")


class Wanted:
    """What a line has to do: load `name`, and `keys` where there are any, and then add to that; with `stores` it is enough that something
    is stored under the name. `calls` are enough by themselves.
    """

    def __init__(
        self, name: str, keys: Sequence[str] = (), calls: Container[str] = (), *, stores: bool = False
    ) -> None:
        self.name, self.keys, self.calls, self.stores = name, keys, calls, stores

    def of_any_key(self) -> Wanted:
        return Wanted(self.name, (), self.calls, stores=self.stores)

    def within(self, code: types.CodeType) -> List[Tuple[int, Place]]:
        """The lines in one function, as they stand, each with how well it fits."""
        names = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
        if self.name not in names and not any(name in self.calls for name in names):
            return []
        function = getattr(code, "co_qualname", None) or code.co_name
        fits = {line: self._fit(steps) for line, steps in _by_line(code)}
        return [(fit, (code.co_filename, line, function)) for line, fit in fits.items() if fit]

    def _fit(self, steps: Sequence[dis.Instruction]) -> int:
        """2 where the line adds to what the name stands for, 1 where it stores something under it, else 0."""
        loads = {step.argval for step in steps if step.opname.startswith("LOAD_") and type(step.argval) is str}
        if not set(self.keys) <= loads:
            return 0
        if any(name in self.calls for name in loads):
            return 2
        state = _Line(self.name)
        if any(state.adds(step) for step in steps) or (self.stores and state.loaded and state.stored):
            return 2
        return int(self.stores and state.stored)


class _Line:
    """What is known of a line, instruction by instruction."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loaded = self.stored = self.changed = self.pushes = False

    def adds(self, step: dis.Instruction) -> bool:
        """Whether with this instruction something is added to what the name stands for."""
        operation, named = step.opname, step.argval == self.name
        if operation.startswith("STORE_") and named:
            self.stored = True
            return self.changed
        if operation.startswith("LOAD_") and named:
            self.loaded = True
            return self.pushes
        self.pushes = self.pushes or (operation.startswith("LOAD_") and step.argval in PUSHES)
        self.changed = self.changed or (self.loaded and _computes(step))
        if operation.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            return self.loaded and step.argval in ADDS
        return self.loaded and operation.startswith("STORE_SUBSCR")


def _computes(step: dis.Instruction) -> bool:
    """Arithmetic, but for an item that is looked up; or a container made of another one."""
    looked_up = step.opname in ("BINARY_SUBSCR", "BINARY_SLICE") or step.argrepr == "[]"
    return step.opname.startswith(("INPLACE_", "BINARY_", *_SPREADS)) and not looked_up


def instructions(code: types.CodeType) -> Iterator[dis.Instruction]:
    """Those of a function. Of one that newer Pythons have made of two (``STORE_FAST_LOAD_FAST``) both."""
    for step in dis.get_instructions(code):
        parts = _ONE_OF_TWO.findall(step.opname)
        if len(parts) == 2:
            for part, name in zip(parts, step.argval):
                yield step._replace(opname=part, argval=name)
        elif step.opname not in _SAYS_NOTHING:
            yield step


def _by_line(code: types.CodeType) -> Iterator[Tuple[int, List[dis.Instruction]]]:
    starts = dict(dis.findlinestarts(code))
    line: Optional[int] = None
    steps: List[dis.Instruction] = []
    for step in instructions(code):
        now = starts.get(step.offset)
        if now is not None and now != line:
            if line is not None and steps:
                yield line, steps
            line, steps = now, []
        steps.append(step)
    if line is not None and steps:
        yield line, steps


def find(wanted: Wanted, likely: Sequence[types.CodeType], running: Sequence[types.CodeType]) -> List[Place]:
    """At most `MOST_LINES`: of the `likely` functions where there are any, else of those that run, else of all of the program's own. Lines
    that merely store something only where there are no others; those that do not name the keys (``scalars[tag].append``) where none does.
    Where the program adds by another name, nothing is found.
    """
    for one in (wanted, *([wanted.of_any_key()] if wanted.keys else [])):
        found = _find(one, likely, running)
        if found:
            return found
    return []


def _find(wanted: Wanted, likely: Sequence[types.CodeType], running: Sequence[types.CodeType]) -> List[Place]:
    for codes in (each(likely), each(running), programs()):
        found: Dict[Place, int] = {}
        seen: Set[int] = set()
        for code in itertools.islice(codes, MOST_CODES):
            if id(code) not in seen:
                seen.add(id(code))
                found.update((place, fit) for fit, place in wanted.within(code))
        best = max(found.values(), default=0)
        if best:
            return [place for place, fit in found.items() if fit == best][:MOST_LINES]
    return []


def each(codes: Sequence[types.CodeType]) -> Iterator[types.CodeType]:
    for code in codes:
        yield from codes_of(code)


def of_library(cls: type) -> bool:
    """Whether it was installed, by the file of its module."""
    home = type.__dict__["__module__"].__get__(cls)
    module = sys.modules.get(home) if type(home) is str else None
    file = module.__dict__.get("__file__") if type(module) is types.ModuleType else None
    return is_library(file) if type(file) is str else home != "__main__"


def of_class(cls: type) -> List[types.CodeType]:
    """The functions of a class and of its bases, but for object's."""
    found: List[types.CodeType] = []
    for home in type.__dict__["__mro__"].__get__(cls):
        for value in list(type.__dict__["__dict__"].__get__(home).values()):
            found += _codes(value)
    return found


def _codes(value: Any) -> List[types.CodeType]:
    """Of a function, also as a method of a class, static, or a property."""
    if type(value) in (staticmethod, classmethod):
        value = value.__func__
    if type(value) is property:
        return [f.__code__ for f in (value.fget, value.fset) if type(f) is types.FunctionType]
    wrapped = _wrapped(value)
    return [wrapped.__code__] if wrapped is not None else []


def _wrapped(value: Any) -> Optional[types.FunctionType]:
    """The function, within what ``functools.wraps`` has made of it."""
    for _ in range(5):
        if type(value) not in (types.FunctionType, LRU):
            return None
        inner = value.__dict__.get("__wrapped__")
        if inner is None:
            break
        value = inner
    return value if type(value) is types.FunctionType else None


def programs() -> Iterator[types.CodeType]:
    """The functions of all modules that were not installed, and of their classes."""
    for module in list(sys.modules.values()):
        if type(module) is not types.ModuleType:
            continue
        space = module.__dict__
        file = space.get("__file__")
        name = space.get("__name__")
        if is_ours(name) or (is_library(file) if type(file) is str else name != "__main__"):
            continue
        for value in list(space.values()):
            if type(value) is types.FunctionType and value.__globals__ is space:
                yield from codes_of(value.__code__)
            elif isinstance(value, type) and type.__dict__["__module__"].__get__(value) == name:
                for code in of_class(value):
                    yield from codes_of(code)
            elif type(value) is LRU:
                for code in _codes(value):
                    yield from codes_of(code)
