"""What a running job can be asked: one file a question, which is all that `Job`, the verbs and the report know of it.

A new measurement is a probe (`jupyter_traindbg.agent.probes`) or a fact of the host (`jupyter_traindbg.outside`), a module here, a view
(`jupyter_traindbg.render.views`), and their tests. `jobless` has what is asked without a running job: logs, dumps, this machine.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model import Result
    from .base import Question
    from .collectives import ask as _collectives
    from .diagnose import ask as _diagnose
    from .environ import ask as _environ
    from .gpu import ask as _gpu
    from .grads import ask as _grads
    from .lr import ask as _lr
    from .memory import ask as _memory
    from .profile import ask as _profile
    from .slow import ask as _slow
    from .sql import ask as _sql
    from .stacks import ask as _stacks
    from .steps import ask as _steps
    from .threads import ask as _threads

__all__ = ["Askable", "load", "names"]


@cache
def names() -> tuple[str, ...]:
    """All questions, in alphabetical order. Imports none of them."""
    found = pkgutil.iter_modules([os.path.dirname(__file__)])
    return tuple(sorted(m.name for m in found if m.name != "base" and not m.ispkg))


def load(name: str) -> Question:
    """The question called `name`."""
    question: Question = import_module(f"{__package__}.{name}")
    return question


class Askable:
    """The questions as methods: ``memory(timeout=5)`` is ``questions.memory.ask(self, timeout=5)``."""

    if TYPE_CHECKING:  # for type checkers alone; a test compares it with `names`
        collectives = _collectives
        diagnose = _diagnose
        environ = _environ
        gpu = _gpu
        grads = _grads
        lr = _lr
        memory = _memory
        profile = _profile
        slow = _slow
        sql = _sql
        stacks = _stacks
        steps = _steps
        threads = _threads

    def _to_ask(self, name: str) -> Callable[..., Result]:
        """The function that asks the question `name` of this job, which it is given first."""
        return load(name).ask


class _AsMethod:
    """One of the questions; its module is imported when somebody looks at it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, job: Askable | None, owner: type[Askable]) -> Any:
        return load(self._name).ask if job is None else MethodType(job._to_ask(self._name), job)


for _name in names():
    setattr(Askable, _name, _AsMethod(_name))
