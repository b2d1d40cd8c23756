"""What can be asked of hosts, whichever way leads to them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import TraindbgError
from ..tasks import Task

__all__ = ["HERE", "LINGER_S", "Call", "Hosts", "short"]

LATER_S = 1.0
"""So much later than a call itself, whoever waits for several gives up: its own words say more."""
LINGER_S = 120.0
"""So long the helpers stay when nobody has them open any more: the next look is quick then."""

HERE = "here"
"""In place of a host's name: this machine."""

Call = tuple[Sequence[Any], Mapping[str, Any]]


class Hosts(ABC):
    """Hosts, each by a name of its own, on which functions of this package run. Who has opened them closes them."""

    @abstractmethod
    def is_here(self, name: str) -> bool:
        """Whether functions for the host `name` run in this process."""

    @abstractmethod
    def answering(self, name: str) -> bool:
        """Whether functions run there without anything that would have to be started first."""

    @abstractmethod
    def run(self, name: str, function: str, /, *args: Any, deadline_s: float, **kwargs: Any) -> Any:
        """What ``"module:function"`` of this package returns or raises on the host `name`, at most `deadline_s` seconds later.

        Values are plain types, and dataclasses and errors of this package. Raises a `TraindbgError`: `DeadlineExceeded`, `TargetGone` for
        a host that has gone, `ProbeFailed`, the function's own error, or why there is no way to it.
        """

    @abstractmethod
    def close(self) -> None:
        """Say that they are not needed any more. The last one's word ends what was started for them, some time later."""

    def run_everywhere(
        self, calls: Mapping[str, Call], function: str, /, *, deadline_s: float
    ) -> dict[str, Any | TraindbgError]:
        """`run` on many hosts at once, with the arguments of each: its value, or why there is none."""
        tasks = {
            name: Task(self._one(name, function, call, deadline_s), short(function)) for name, call in calls.items()
        }
        ends = time.monotonic() + deadline_s + LATER_S
        return {name: _value_or_error(task, ends) for name, task in tasks.items()}

    def _one(self, name: str, function: str, call: Call, deadline_s: float) -> Callable[[], Any]:
        args, kwargs = call
        return lambda: self.run(name, function, *args, deadline_s=deadline_s, **kwargs)


def short(function: str) -> str:
    """The function's own name."""
    return function.rpartition(":")[2]


def _value_or_error(task: Task[Any], ends: float) -> Any | TraindbgError:
    try:
        return task.result(ends)
    except TraindbgError as e:
        return e
