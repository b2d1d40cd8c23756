"""Work that goes on beside the rest and is waited for with a deadline: what is not done by then is left to itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from .errors import DeadlineExceeded, TraindbgError

__all__ = ["Task"]

T = TypeVar("T")


class Task(Generic[T]):
    """`function` on a daemon thread: one that hangs in the kernel does not keep the interpreter from ending, as a pool's would."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function, self._name = function, name
        self._answer: list[T] = []
        self._error: BaseException | None = None
        self._done = threading.Event()
        threading.Thread(target=self._run, name=f"traindbg-{name}", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer.append(self._function())
        except BaseException as e:  # noqa: BLE001
            self._error = e  # raised again by whoever waits for the answer
        finally:
            self._done.set()

    def wait(self, ends: float) -> bool:
        """Wait until `ends` on the monotonic clock; whether it is done."""
        return self._done.wait(max(0.0, ends - time.monotonic()))

    def in_time(self, ends: float) -> T | None:
        """What it returned, or None where it is not done by `ends`. Raises what it raised."""
        return self.result(ends) if self.wait(ends) else None

    def quietly(self, ends: float) -> T | None:
        """What it returned; None where it is late or failed with a `TraindbgError`: for what others can do without."""
        try:
            return self.in_time(ends)
        except TraindbgError:
            return None

    def result(self, ends: float) -> T:
        """What it returned or raised. Raises `DeadlineExceeded` where it is not done by `ends`."""
        if not self.wait(ends):
            raise DeadlineExceeded(f"{self._name} took too long")
        if self._error is not None:
            raise self._error
        return self._answer[0]
