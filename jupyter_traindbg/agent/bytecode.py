"""Where a frame stands, read from its bytecode: the call that it is inside of, and the ``with`` blocks and ``acquire()``s around it.

The source is not needed, which may not be on this machine at all: Ray sends functions as bytecode. CPython 3.9 to 3.14.
"""

from __future__ import annotations

import dis
from bisect import bisect_right
from types import CodeType
from typing import Any, Container, Iterator, List, NamedTuple, Optional, Tuple

Step = Tuple[str, Any]
Path = Tuple[Step, ...]
"""How an expression like ``self.locks[i]`` is reached: ``(("name", "self"), ("attribute", "locks"), ("variable", "i"))``."""

ENTERS = ("BEFORE_WITH", "SETUP_WITH", "LOAD_SPECIAL")
ENTERS_ASYNC = ("BEFORE_ASYNC_WITH", "SETUP_ASYNC_WITH")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
VARIABLES = ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF", "LOAD_CONST", "LOAD_SMALL_INT")
NOT_THERE = ("EXTENDED_ARG", "NOP", "CACHE")
STATEMENTS = ("POP_TOP", "STORE_", "POP_JUMP", "RETURN_", "SETUP_", "FOR_ITER", "RAISE_")
"""What begins with these is not among the arguments of a call."""
_HAS_WITH = bytes(dis.opmap[name] for name in ENTERS if dis.opmap.get(name, 256) < 256)


class Call(NamedTuple):
    """``name``: of the method, ``"__enter__"`` for a ``with``. ``path``: the object it is called on; None where it is more than a name."""

    name: str
    path: Optional[Path]


def may_hold(code: CodeType) -> bool:
    """False where a function surely takes no lock. Costs a microsecond."""
    return "acquire" in code.co_names or any(opcode in code.co_code[::2] for opcode in _HAS_WITH)


class Reading:
    """One function's bytecode."""

    def __init__(self, code: CodeType) -> None:
        self._code = code
        self._instructions = [i for i in dis.get_instructions(code) if i.opname not in NOT_THERE]
        self._offsets = [i.offset for i in self._instructions]

    def call(self, lasti: int, names: Container[str]) -> Optional[Call]:
        """What a frame is inside of whose ``f_lasti`` is that: a ``with``, or the call of a method with one of `names`."""
        at = self._index(lasti)
        if at < 0:
            return None
        if self._instructions[at].opname in ENTERS:
            return Call("__enter__", self._path(at - 1))
        entered = self._entered_by_call(at)
        if entered is not None:
            return Call("__enter__", self._path(entered - 1))
        method = self._method(at, names)
        return None if method is None else Call(self._instructions[method].argval, self._path(method - 1))

    def holds(self, lasti: int) -> Iterator[Tuple[str, Optional[Path]]]:
        """``(how, path)`` of what is entered around that place: ``"with"`` for sure, ``"acquire"`` by the order of the instructions."""
        for index in self._withs(lasti):
            yield "with", self._path(index - 1)
        at = self._index(lasti)
        being_called = self._method(at, ("acquire",))
        released: List[Optional[Path]] = []
        for index in range(at - 1, -1, -1):
            instruction = self._instructions[index]
            if instruction.opname in ATTRIBUTES and instruction.argval in ("acquire", "release"):
                path = self._path(index - 1)
                if instruction.argval == "release":
                    released.append(path)
                elif path not in released and index != being_called:
                    yield "acquire", path

    # -- where --

    def _index(self, offset: int) -> int:
        """The instruction at `offset`, which may be that of a cache behind it."""
        return bisect_right(self._offsets, offset) - 1

    def _method(self, at: int, names: Container[str]) -> Optional[int]:
        """The load of the method, one of `names`, that is called at `at`: its arguments may be anything but other statements."""
        if self._instructions[at].opname.startswith(("CALL", "PRECALL")):
            for index in range(at - 1, -1, -1):
                instruction = self._instructions[index]
                if instruction.opname.startswith(STATEMENTS):
                    return None
                if instruction.opname in ATTRIBUTES and instruction.argval in names and self._begin_alike(index, at):
                    return index
        return None

    def _begin_alike(self, load: int, call: int) -> bool:
        """From 3.11 on an instruction knows its place in the source: a call begins where what is called begins."""
        one, other = (getattr(self._instructions[index], "positions", None) for index in (load, call))
        if one is None or other is None or one.lineno is None or one.col_offset is None:
            return True
        return (one.lineno, one.col_offset) == (other.lineno, other.col_offset)

    # -- with --

    def _withs(self, lasti: int) -> Iterator[int]:
        """The instructions that entered the ``with`` blocks around `lasti`, innermost first."""
        table = getattr(dis.Bytecode(self._code), "exception_entries", None)
        return self._withs_by_blocks(lasti) if table is None else self._withs_by_table(lasti, table)

    def _withs_by_blocks(self, lasti: int) -> Iterator[int]:
        """Python 3.9 and 3.10: ``SETUP_WITH`` names the end of its block."""
        for index in range(self._index(lasti), -1, -1):
            instruction = self._instructions[index]
            if instruction.opname == "SETUP_WITH" and instruction.offset < lasti < instruction.argval:
                yield index

    def _withs_by_table(self, lasti: int, table: Any) -> Iterator[int]:
        """From 3.11 on: the handlers of exceptions that would come up there, one after the other; those of a ``with`` call its exit."""
        offset, seen = lasti, set()
        while True:
            entry = next((e for e in table if e.start <= offset < e.end), None)
            if entry is None or entry.target in seen:
                return
            offset = entry.target
            seen.add(offset)
            if self._leaves_with(offset):
                begins = min(e.start for e in table if e.target == offset)
                index = self._entered_before(begins)
                if index is not None:
                    yield index

    def _leaves_with(self, target: int) -> bool:
        at = self._index(target)
        return any(i.opname == "WITH_EXCEPT_START" for i in self._instructions[at : at + 3])

    def _entered_before(self, offset: int) -> Optional[int]:
        """The instruction that entered the block which begins at `offset`; None for an ``async with``, which holds no thread up."""
        for index in range(self._index(offset), -1, -1):
            name = self._instructions[index].opname
            if name in ENTERS_ASYNC:
                return None
            if name in ENTERS and self._instructions[index].offset < offset:
                return self._beginning(index)
        return None

    def _entered_by_call(self, at: int) -> Optional[int]:
        """Python 3.14 calls ``__enter__`` like any other function, right after it has loaded it."""
        before = self._instructions[at - 1]
        if self._instructions[at].opname == "CALL" and before.opname == "LOAD_SPECIAL":
            return self._beginning(at - 1)
        return None

    def _beginning(self, index: int) -> Optional[int]:
        """Where the object of the ``with`` has been loaded: from 3.14 on, ahead of some shuffling of the stack."""
        if self._instructions[index].opname != "LOAD_SPECIAL":
            return index
        while index >= 0 and self._instructions[index].opname != "COPY":
            index -= 1
        return index if index >= 0 else None

    # -- names --

    def _path(self, last: int) -> Optional[Path]:
        """What the instructions up to `last` have put on top of the stack, where that is a name, attributes and keys."""
        steps: List[Step] = []
        index = last
        while index >= 0:
            instruction = self._instructions[index]
            if instruction.opname == "LOAD_ATTR":
                steps.append(("attribute", instruction.argval))
            elif instruction.opname == "BINARY_SUBSCR" or (
                instruction.opname == "BINARY_OP" and instruction.argrepr == "[]"
            ):
                index -= 1
                key = self._variable(index)
                if key is None:
                    return None
                steps.append(("key", key[1]) if key[0] == "constant" else ("variable", key[1]))
            else:
                base = self._variable(index)
                return None if base is None or base[0] == "constant" else (("name", base[1]), *reversed(steps))
            index -= 1
        return None

    def _variable(self, index: int) -> Optional[Step]:
        if index < 0 or not self._instructions[index].opname.startswith(VARIABLES):
            return None
        instruction = self._instructions[index]
        value = (
            instruction.argval[-1] if isinstance(instruction.argval, tuple) else instruction.argval
        )  # two loads in one
        if instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            return ("constant", value) if type(value) in (int, str) else None
        return ("name", value) if isinstance(value, str) else None


def written(path: Optional[Path]) -> Optional[str]:
    """`path` as it would be in the source: ``self.locks[0]``."""
    if path is None:
        return None
    words = ""
    for kind, value in path:
        words += {"name": f"{value}", "attribute": f".{value}", "key": f"[{value!r}]", "variable": f"[{value}]"}[kind]
    return words


__all__ = ["Call", "Path", "Reading", "may_hold", "written"]
