"""Whether a program bounds what it adds to: read from its bytecode, in the functions that have to do with it. Nothing is run."""

from __future__ import annotations

import dis
import itertools
import types
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..attributes import is_library
from .lines import MOST_CODES, each, instructions, programs

NONE: Dict[str, Any] = {"most": None, "compared": False, "emptied": False, "taken": False, "looked_up": False}
"""``most``: the number that its length is compared with, as far as that is known; ``compared`` with something; ``emptied`` now and then;
something is ``taken`` out of it; ``looked_up``: it is seen first whether a key is there already.
"""
TAKES = frozenset(("pop", "popleft", "popitem", "remove", "discard"))
NEAR, LONG = 8, 20
"""So many instructions lie at most between a length and what it is compared with; so many between a thing and what takes an item of it."""
CALLS = ("CALL", "PRECALL")
MADE = ("BUILD_LIST", "BUILD_MAP", "BUILD_SET")
MAKES = frozenset(("list", "dict", "set", "deque", "defaultdict", "OrderedDict"))


def of(name: str, likely: Sequence[types.CodeType], numbers: Mapping[str, int]) -> Dict[str, Any]:
    """What the functions do with the thing of that name: the `likely` ones where there are any, else all of the program's own."""
    found = dict(NONE)
    codes: Iterable[types.CodeType] = each(likely) if likely else programs()
    for code in itertools.islice(codes, MOST_CODES):
        if not is_library(code.co_filename) and name in (
            *code.co_names,
            *code.co_varnames,
            *code.co_freevars,
            *code.co_cellvars,
        ):
            _read(code, name, numbers, found)
    return found


def _read(code: types.CodeType, name: str, numbers: Mapping[str, int], found: Dict[str, Any]) -> None:
    steps = list(instructions(code))
    loops = _loops(steps)
    for at, step in enumerate(steps):
        if step.opname.startswith("LOAD_") and step.argval == name:
            after = steps[at + 1 : at + 1 + LONG]
            _compared(steps[:at], after[:NEAR], numbers, found)
            _used(after, found)
            found["looked_up"] = found["looked_up"] or (
                "KeyError" in code.co_names and _of_item(after) == "BINARY_SUBSCR"
            )
        elif step.opname.startswith("STORE_") and step.argval == name:
            again = code.co_name != "__init__" and (step.opname == "STORE_ATTR" or _within(step.offset, loops))
            found["emptied"] = found["emptied"] or (again and _makes_new(steps[:at]))
            found["taken"] = found["taken"] or (again and _cuts(steps[:at]))


def _compared(
    before: List[dis.Instruction], after: List[dis.Instruction], numbers: Mapping[str, int], found: Dict[str, Any]
) -> None:
    """Whether this is ``len(name)``, and what it is compared with."""
    asked = next((n for n in range(1, 6) if n <= len(before) and before[-n].argval == "len"), None)
    if asked is None or not after or not after[0].opname.startswith(CALLS):
        return
    end = next((n for n, step in enumerate(after) if step.opname == "COMPARE_OP"), None)
    if end is None or any(step.opname.startswith("BINARY_") and step.argrepr in ("%", "%=") for step in after[:end]):
        return
    if any(step.opname == "BINARY_MODULO" for step in after[:end]):
        return
    with_what = [step for step in after[:end] if not step.opname.startswith(CALLS)] or before[:-asked][-2:]
    most = _number(with_what, numbers)
    found["compared"] = True
    if most is not None:
        found["most"] = max(most, found["most"] or 0)


def _number(steps: Sequence[dis.Instruction], numbers: Mapping[str, int]) -> Optional[int]:
    for step in reversed(steps):
        value = step.argval
        if type(value) is int and step.opname.startswith("LOAD_"):
            return value
        if type(value) is str and value in numbers:
            return numbers[value]
    return None


def _used(after: List[dis.Instruction], found: Dict[str, Any]) -> None:
    """What is done with it next: cleared, something taken out, asked for a key."""
    if not after:
        return
    first = after[0]
    if first.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
        found["emptied"] = found["emptied"] or first.argval == "clear"
        found["taken"] = found["taken"] or first.argval in TAKES
        found["looked_up"] = found["looked_up"] or first.argval == "get"
    elif first.opname == "CONTAINS_OP" or (first.opname == "COMPARE_OP" and "in" in str(first.argval).split()):
        found["looked_up"] = True
    else:
        found["taken"] = found["taken"] or _of_item(after) == "DELETE_SUBSCR"


def _of_item(after: List[dis.Instruction]) -> str:
    """What is done with an item of the thing that has just been loaded: the instruction that finds it beneath a key. Empty for none."""
    depth = 1
    for step in after:
        effect = _effect(step)
        if depth == 2 and depth + effect < 2:
            return "BINARY_SUBSCR" if step.argrepr == "[]" else step.opname
        depth += effect
        if depth < 1:
            return ""
    return ""


def _effect(step: dis.Instruction) -> int:
    """By how much the stack grows with it; of half an instruction (see `instructions`) too."""
    if step.opname.startswith(("LOAD_FAST", "STORE_FAST")):
        return 1 if step.opname.startswith("LOAD_") else -1
    return dis.stack_effect(step.opcode, step.arg, jump=False)


def _makes_new(before: List[dis.Instruction]) -> bool:
    """Whether what was computed last is an empty container."""
    last = [step for step in before[-4:] if not step.opname.startswith(("LOAD_FAST", "COPY", "DUP_TOP"))]
    if not last:
        return False
    if last[-1].opname in MADE:
        return not last[-1].arg
    called = last[-1].opname.startswith("CALL") and not last[-1].arg
    return called and any(type(step.argval) is str and step.argval in MAKES for step in last)


def _cuts(before: List[dis.Instruction]) -> bool:
    """Whether what was computed last is a slice."""
    near = before[-4:]
    return any(step.opname in ("BINARY_SLICE", "BUILD_SLICE") or type(step.argval) is slice for step in near)


def _loops(steps: Sequence[dis.Instruction]) -> List[Tuple[int, int]]:
    """Where jumps back begin and end."""
    return [
        (int(step.argval), step.offset)
        for step in steps
        if "JUMP" in step.opname and type(step.argval) is int and step.argval < step.offset
    ]


def _within(offset: int, loops: Sequence[Tuple[int, int]]) -> bool:
    return any(begin <= offset <= end for begin, end in loops)
