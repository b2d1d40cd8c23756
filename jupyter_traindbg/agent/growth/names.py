"""The names by which a program knows its objects: variables of running functions and of modules, classes, functions."""

from __future__ import annotations

import sys
import types
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ..attributes import attributes, is_library
from ..reachable import CO_OPTIMIZED, OUTPUT, frames_of_others, look_at_stack

LOCAL, GLOBAL, CLASS, FUNCTION, GENERATOR, SELF, LIBRARY = range(7)
"""Kinds of names, the most telling first."""
KINDS = ("local", "global", "class", "function", "generator", "local", "library")
BOUNDS = (
    "maxsize", "max_size", "capacity", "limit", "max_len", "maxlen", "size_limit", "cache_size", "buffer_size", "max_entries",
)  # fmt: skip
"""Attributes by which a class bounds what it keeps."""
GENERATORS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
OURS = __name__.split(".")[0]


class Name(NamedTuple):
    """``scope``: the function, the module or the class that it belongs to; ``line``: where that function stands, 0 of others."""

    rank: int
    name: str
    scope: str
    file: str
    line: int = 0
    code: Optional[types.CodeType] = None

    def told(self) -> Dict[str, Any]:
        return {
            "kind": KINDS[self.rank],
            "name": self.name,
            "scope": self.scope,
            "file": self.file,
            "line": self.line,
            "library": self.rank == LIBRARY,
        }


class Running:
    """A function that runs. ``values``: its variables, as they are at this moment."""

    def __init__(self, frame: types.FrameType, values: Dict[str, Any]) -> None:
        self.code = frame.f_code
        self.line = frame.f_lineno or 0
        self.library = is_library(self.code.co_filename)
        self.values = values

    def named(self, variable: str) -> Name:
        code = self.code
        rank = LIBRARY if self.library else SELF if variable in ("self", "cls") else LOCAL
        scope = getattr(code, "co_qualname", None) or code.co_name
        return Name(rank, variable, scope, code.co_filename, self.line, code)


class Stacks:
    """All functions that run at this moment, but ours: outermost first, those of the asking thread before others. For one pause only, for
    it holds what they hold. As long as a look at all stacks.
    """

    def __init__(self) -> None:
        self.by_code: Dict[int, Running] = {}
        """Of those whose variables are no module's; of several calls of one function the outermost."""
        self.frames: Set[int] = set()
        """The ``id`` of every frame that runs."""
        for innermost in (sys._getframe(1), *frames_of_others().values()):
            for frame, values in reversed(list(look_at_stack(innermost))):
                self.frames.add(id(frame))
                optimized = frame.f_code.co_flags & CO_OPTIMIZED
                of_function = optimized or frame.f_locals is not frame.f_globals
                if of_function and not is_ours(frame.f_globals.get("__name__")):
                    self.by_code.setdefault(id(frame.f_code), Running(frame, values))

    def codes(self) -> List[types.CodeType]:
        """Of the program's own functions."""
        return [running.code for running in self.by_code.values() if not running.library]


def is_ours(module: Any) -> bool:
    return type(module) is str and (module == OURS or module.startswith(OURS + "."))


def own_modules() -> List[Name]:
    """The modules that were not installed, without a name in them."""
    modules = [(key, module) for key, module in list(sys.modules.items()) if type(module) is types.ModuleType]
    first = {id(module): key for key, module in reversed(modules)}  # __main__ may be there by two names
    told = [
        (key, of_module(module.__dict__)) for key, module in modules if first[id(module)] == key and not is_ours(key)
    ]
    return [name._replace(scope=key) for key, name in told if name.rank == GLOBAL]


def variables(space: Dict[str, Any]) -> List[Tuple[str, Any]]:
    """The names of a module and what they stand for; in IPython's without its outputs."""
    of_shell = "Out" in space and "In" in space
    return [
        (key, value)
        for key, value in list(space.items())
        if type(key) is str and not (of_shell and (OUTPUT.fullmatch(key) or key in ("Out", "In")))
    ]


def of_module(space: Dict[str, Any]) -> Name:
    name, file = space.get("__name__"), space.get("__file__")
    said = name if type(name) is str else "?"
    known = file if type(file) is str else ""
    builtin = not known and said != "__main__"
    return Name(LIBRARY if builtin or is_library(known) else GLOBAL, "", said, known)


def of_value(value: Any) -> Optional[Name]:
    """The name that something has by itself: a class, a function, a generator; None of anything else."""
    cls = type(value)
    if issubclass(cls, type):
        return _of_class(value)
    if cls is types.FunctionType:
        return _of_code(value.__code__, FUNCTION)
    if cls in GENERATORS:
        frame = frame_of(value)
        if frame is not None:
            return _of_code(frame.f_code, GENERATOR)._replace(line=frame.f_lineno or 0)
    return None


def frame_of(generator: Any) -> Optional[types.FrameType]:
    """Where a generator, or a coroutine, stands; None where it is over."""
    kinds = ("gi_frame", "cr_frame", "ag_frame")
    return next((frame for frame in (getattr(generator, kind, None) for kind in kinds) if frame is not None), None)


def bound_of(owner: Any) -> Optional[int]:
    """How much an object says it keeps at most, by an attribute of one of the usual names."""
    own = attributes(owner)
    told = [own.get(name) for name in BOUNDS]
    return max((most for most in told if type(most) is int and most > 0), default=None)


def _of_class(cls: type) -> Name:
    name, home = (type.__dict__[what].__get__(cls) for what in ("__qualname__", "__module__"))
    module = sys.modules.get(home) if type(home) is str else None
    file = getattr(module, "__file__", None) if type(module) is types.ModuleType else None
    known = file if type(file) is str else ""
    library = is_library(known) or (not known and home != "__main__")
    return Name(LIBRARY if library else CLASS, name, name, known)


def _of_code(code: types.CodeType, rank: int) -> Name:
    scope = getattr(code, "co_qualname", None) or code.co_name
    library = is_library(code.co_filename)
    return Name(LIBRARY if library else rank, scope, scope, code.co_filename, code.co_firstlineno, code)


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and that of every function within it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from codes_of(inner)
