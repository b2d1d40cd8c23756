"""Keep torch.compile out of our own code.

While a compiled function runs, torch looks at every Python function that is called below it, between its graphs, and would compile our
hooks, too: minutes of work at worst, graphs that outlive us, warnings about our lines in the job's log.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Callable, Iterator


def keep_out() -> None:
    """Mark every function of this package, as far as it is imported, as none to compile. About 1 ms; costs nothing when they run."""
    skip = _skip()
    package = __name__.rpartition(".")[0]
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(package + "."):
            for function in _functions(vars(module), module.__name__):
                function._torchdynamo_disable = True  # where a graph is being made: call it, do not look inside
                for code in _codes(function.__code__):
                    skip(code)


def _skip() -> Callable[[types.CodeType], None]:
    """torch's own way of marking a code object (no import of torch._dynamo: that takes a second)."""
    inside: Any = getattr(getattr(sys.modules["torch"]._C, "_dynamo", None), "eval_frame", None)
    if hasattr(inside, "skip_code"):
        skip: Callable[[types.CodeType], None] = inside.skip_code
        return skip
    if not hasattr(inside, "set_code_exec_strategy"):
        return lambda code: None
    strategy = inside._FrameExecStrategy(inside._FrameAction.SKIP, inside._FrameAction.DEFAULT)
    return lambda code: inside.set_code_exec_strategy(code, strategy)


def _functions(namespace: Any, module: str) -> Iterator[Any]:
    for held in list(namespace.values()):
        value = held.fget if isinstance(held, property) else held
        if isinstance(value, types.FunctionType) and value.__module__ == module:
            yield value
        elif isinstance(value, type) and value.__module__ == module:
            yield from _functions(vars(value), module)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
