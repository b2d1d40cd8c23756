"""Whether a function can be run without changing anything outside itself: by its bytecode, which is only read.

Allowed are arithmetic, comparisons, branches and loops over numbers, and calls to ``math``, a few builtins and other such functions.
Whatever is not known to be harmless is not.
"""

from __future__ import annotations

import builtins
import dis
import functools
import math
import types
from typing import Any, Dict

PLAIN = (int, float, bool, complex, str, bytes, range, type(None))
FIXED, MUTABLE = (tuple, frozenset), (list, dict, set)
SAFE_TYPES = (float, int, bool, range, enumerate, zip, reversed)
SAFE_BUILTINS = [min, max, abs, pow, round, len, sum, *vars(math).values()]
SAFE_ATTRIBUTES = {name for name in vars(math) if not name.startswith("_")}
WRITES = ("STORE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_DEREF", "STORE_NAME")
DELETES = ("DELETE_GLOBAL", "DELETE_ATTR", "DELETE_SUBSCR", "DELETE_DEREF", "DELETE_NAME")
UNKNOWN = ("LOAD_NAME", "LOAD_SUPER", "LOAD_FROM_DICT", "LOAD_BUILD_CLASS", "GET_AWAITABLE", "YIELD_FROM", "SEND")
GENERATOR = 0x20 | 0x80 | 0x200  # and coroutine, and asynchronous generator
DEPTH = 6
MOST_ITEMS = 1000

_BUILTINS = {id(f) for f in SAFE_BUILTINS if type(f) is types.BuiltinFunctionType}


def harmless(function: Any) -> bool:
    """True where calling `function` with numbers can change nothing outside itself."""
    reading = _Reading()
    # ``+=`` on a name may be arithmetic, or extend a list that others hold, too.
    return reading.callable(function, 0) and not (reading.in_place and reading.mutable)


class _Reading:
    """One walk over a function and everything that it can reach."""

    def __init__(self) -> None:
        self.in_place = False
        self.mutable = False

    def callable(self, function: Any, depth: int) -> bool:
        kind = type(function)
        if depth > DEPTH:
            return False
        if kind is functools.partial:
            given = [function.func, *function.args, *function.keywords.values()]
            return all(self.value(v, depth + 1) for v in given)
        if kind is types.BuiltinFunctionType:
            return id(function) in _BUILTINS
        if kind is type:
            return function in SAFE_TYPES or (issubclass(function, Exception) and function.__module__ == "builtins")
        if kind is not types.FunctionType:
            return False
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        names = {name: cell.cell_contents for name, cell in cells.items() if _filled(cell)}
        good = all(self.value(v, depth + 1) for v in defaults)
        return good and self.code(function.__code__, function.__globals__, names, depth + 1)

    def code(self, code: types.CodeType, global_names: Dict[str, Any], cells: Dict[str, Any], depth: int) -> bool:
        if depth > DEPTH or (code.co_flags & GENERATOR and code.co_name != "<genexpr>"):
            return False
        inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]  # lambdas and comprehensions
        if not all(self.code(c, global_names, cells, depth + 1) for c in inner):
            return False
        return all(self.instruction(i, code, global_names, cells, depth) for i in dis.get_instructions(code))

    def instruction(
        self, i: dis.Instruction, code: types.CodeType, global_names: Dict[str, Any], cells: Dict[str, Any], depth: int
    ) -> bool:
        name = str(i.argval)
        if i.opname.startswith("INPLACE_") or (i.opname == "BINARY_OP" and i.argrepr.endswith("=")):
            self.in_place = True
        if i.opname == "STORE_DEREF" and name in code.co_cellvars:
            return True  # a variable of its own, which an inner function reads
        if i.opname == "IMPORT_NAME":
            return name == "math"
        if i.opname == "LOAD_GLOBAL":
            return self.value(global_names.get(name, getattr(builtins, name, None)), depth + 1)
        if i.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF") and name in cells:
            return self.value(cells[name], depth + 1)
        if i.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            return name in SAFE_ATTRIBUTES
        return not i.opname.startswith((*WRITES, *DELETES, *UNKNOWN))

    def value(self, value: Any, depth: int) -> bool:
        """True for numbers, texts, plain containers of them, ``math``, and harmless functions.

        Not for instances of subclasses: their operators may do anything.
        """
        kind = type(value)
        if value is math or kind in PLAIN:
            return True
        if kind in FIXED or kind in MUTABLE:
            self.mutable = self.mutable or kind in MUTABLE
            items = list(value.items()) if kind is dict else list(value)
            return len(items) <= MOST_ITEMS and depth <= DEPTH and all(self.value(v, depth + 1) for v in items)
        return self.callable(value, depth)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # not assigned yet
        return False
