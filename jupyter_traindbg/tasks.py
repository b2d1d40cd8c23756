"""Work that goes on beside the rest and is waited for with a deadline: what is not done by then is left to itself.

Its threads are daemons. One that hangs in the kernel (a file system that does not answer, a process that cannot be killed) keeps neither
whoever waits for it nor the end of the interpreter, as a thread of a `ThreadPoolExecutor` would.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Generic, TypeVar

from .errors import DeadlineExceeded, TraindbgError
from .language import text
from .verbose import milliseconds

__all__ = ["Task", "each"]

log = logging.getLogger(__name__)

AT_ONCE = 512
"""Asked at the same time: with fewer threads than stuck ranks, their deadlines would add up."""
GRACE_S = 0.5
"""Whoever is asked keeps the deadline and says what was late; so much later nobody is waited for any more."""

S = TypeVar("S")
T = TypeVar("T")


class Task(Generic[T]):
    """`function` on a thread of its own."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function, self._name = function, name
        self._answer: list[T] = []
        self._error: BaseException | None = None
        self._done = threading.Event()
        run = copy_context().run  # what it says is in the language of whoever asks
        threading.Thread(target=run, args=(self._run,), name=f"traindbg-{name}", daemon=True).start()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self._answer.append(self._function())
        except BaseException as e:  # noqa: BLE001
            self._error = e  # raised again by whoever waits for the answer
        finally:
            log.debug("%s: %s, after %s", self._name, self._error or "done", milliseconds(began))
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
            raise DeadlineExceeded(text("{name} took too long", name=self._name))
        if self._error is not None:
            raise self._error
        return self._answer[0]


def each(
    items: Sequence[S],
    ask: Callable[[S], T],
    deadline_s: float,
    *,
    at_once: int = AT_ONCE,
    grace_s: float = GRACE_S,
) -> list[tuple[S, T | TraindbgError]]:
    """Ask all `items`, many at once; each with its answer, or why there is none, in the order given.

    `ask` keeps `deadline_s` itself; one that has not come back `grace_s` after it has a `DeadlineExceeded` for its answer. Raises what
    `ask` raises besides `TraindbgError`. A thread costs 0.1 ms, and is made where the others have not done all yet.
    """
    asking, began = _Asking(items, ask), time.monotonic()
    for _ in range(min(at_once, len(items))):
        if not asking.waiting:
            break
        threading.Thread(target=copy_context().run, args=(asking.work,), name="traindbg-ask", daemon=True).start()
    try:
        asking.done.wait(deadline_s + grace_s)
    finally:  # also where somebody interrupts it
        asking.waiting.clear()
        log.debug("%d of %d are done, after %s", asking.through, len(items), milliseconds(began))
    late = DeadlineExceeded(text("no answer came in {deadline_s:.3g} s", deadline_s=deadline_s))
    return [(item, asking.answer(n, late)) for n, item in enumerate(items)]


class _Asking(Generic[S, T]):
    """One round of questions, for several threads."""

    def __init__(self, items: Sequence[S], ask: Callable[[S], T]) -> None:
        self._items, self._ask = items, ask
        self.waiting = deque(range(len(items)))
        self.done = threading.Event()
        self._answers: dict[int, T | BaseException] = {}
        if not items:
            self.done.set()

    def work(self) -> None:
        """Ask whoever has not been asked, until nobody is left."""
        while True:
            try:
                n = self.waiting.popleft()
            except IndexError:
                return
            try:
                self._answers[n] = self._ask(self._items[n])
            except BaseException as e:  # noqa: BLE001
                self._answers[n] = e
            if len(self._answers) == len(self._items):
                self.done.set()

    @property
    def through(self) -> int:
        return len(self._answers)

    def answer(self, n: int, late: DeadlineExceeded) -> T | TraindbgError:
        """Of item number `n`; `late` where there is none. Raises an error that is none of ours."""
        answer = self._answers.get(n, late)
        if isinstance(answer, BaseException) and not isinstance(answer, TraindbgError):
            raise answer
        return answer
