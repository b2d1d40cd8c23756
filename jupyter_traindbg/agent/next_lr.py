"""What a scheduler will set next, by stepping a copy of it on a stand-in optimizer. The live scheduler is only read.

User-written lambdas are run only if their bytecode shows that they cannot change anything: no assignment outside themselves, and calls
to nothing but arithmetic. Otherwise the answer is the reason, in words.
"""

from __future__ import annotations

import builtins
import copy
import dis
import math
import types
import warnings
from typing import Any, Dict, List, Union

SAFE_BUILTINS = {"min", "max", "abs", "float", "int", "pow", "round", "len", "range", "sum", "bool"}
WRITES = (
    "STORE_GLOBAL",
    "STORE_ATTR",
    "STORE_SUBSCR",
    "STORE_DEREF",
    "STORE_NAME",
    "DELETE_",
    "IMPORT_",
    "YIELD",
    "AWAIT",
    "RAISE",
)


def upcoming(scheduler: Any, optimizer: Any, count: int) -> Union[List[List[float]], str]:
    """The next `count` learning rates of every group, or why they cannot be told."""
    if type(scheduler).__name__ == "ReduceLROnPlateau":
        return "depends on the metric it will be given"
    if not type(scheduler).__module__.startswith("torch.optim."):
        return f"{type(scheduler).__name__} is not one of torch's own schedulers"
    members = [scheduler, *getattr(scheduler, "_schedulers", ())]
    for member in members:
        for function in [*getattr(member, "lr_lambdas", ()), *_scale_functions(member)]:
            if function is not None and not harmless(function):
                return "the schedule is a function that might have side effects; it is not run"
    stand_in = _StandIn(optimizer)
    twin = copy.deepcopy(scheduler, {id(optimizer): stand_in})
    out = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about the order of steps, which means nothing on a stand-in
        for _ in range(count):
            twin.step()
            out.append([float(g["lr"]) for g in stand_in.param_groups])
    return out


class _StandIn:
    """What a scheduler touches of an optimizer, and nothing of its parameters."""

    def __init__(self, optimizer: Any) -> None:
        self.param_groups = [{k: _plain(v) for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
        self.defaults: Dict[str, Any] = {}
        self._opt_called = True

    def step(self) -> None:
        """Never called; torch looks for the attribute."""


def _plain(value: Any) -> Any:
    return float(value) if hasattr(value, "detach") and value.numel() == 1 else copy.deepcopy(value)


def _scale_functions(scheduler: Any) -> List[Any]:
    custom = getattr(scheduler, "_scale_fn_custom", None)
    return [custom] if custom is not None else []


def harmless(function: Any, depth: int = 0) -> bool:
    """True where running `function` can change nothing outside itself, as far as its bytecode tells."""
    if hasattr(function, "func") and hasattr(function, "args"):  # functools.partial
        return harmless(function.func, depth)
    if isinstance(function, types.BuiltinFunctionType):
        return getattr(function, "__module__", "") in ("math", "builtins") and function.__name__ in {
            *SAFE_BUILTINS,
            *vars(math),
        }
    if function in (float, int, bool, range):
        return True
    if not isinstance(function, types.FunctionType) or depth > 4:
        return False
    if function.__code__.co_flags & 0x2A0:  # generator, coroutine, asynchronous generator
        return False
    cells = dict(zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ())))
    return all(_instruction_harmless(i, function, cells, depth) for i in dis.get_instructions(function))


def _instruction_harmless(i: dis.Instruction, function: types.FunctionType, cells: Dict[str, Any], depth: int) -> bool:
    if i.opname.startswith(WRITES):
        return False
    if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
        name = str(i.argval)
        value = cells.get(name, function.__globals__.get(name, getattr(builtins, name, None)))
        return value is None or _value_harmless(value, depth)
    if i.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        return i.argval in vars(math) or i.argval in ("pi", "e")
    return True


def _value_harmless(value: Any, depth: int) -> bool:
    if isinstance(value, (int, float, str, tuple, list, dict, range)) or value is math:
        return True
    return harmless(value, depth + 1)
