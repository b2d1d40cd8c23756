"""Questions that take long, asked beside the rounds of a feed: each in a thread of its own, never two of a kind at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..errors import TraindbgError

__all__ = ["Aside"]

T = TypeVar("T")


class Aside(Generic[T]):
    """One such question. ``answer`` is the latest answer, ``asked_s`` when it was asked for (`time.monotonic`), ``problem`` why the last
    try gave none.
    """

    def __init__(self, name: str, ask: Callable[..., T], every_s: float) -> None:
        self._name, self._ask, self._every_s = name, ask, every_s
        self.answer: T | None = None
        self.answered_s: float | None = None
        self.asked_s: float | None = None
        self.problem = ""
        self._begun_s: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def ask(self, *args: Any, again: bool = False) -> bool:
        """Ask, unless it is being asked, or was asked a moment ago (and not `again`); returns at once. True where it was begun."""
        now = time.monotonic()
        if self.busy or (not again and self._begun_s is not None and now - self._begun_s < self._every_s):
            return False
        self._begun_s = now
        self._thread = threading.Thread(target=self._run, args=(now, args), name=f"traindbg-{self._name}", daemon=True)
        self._thread.start()
        return True

    def take(self) -> T | None:
        """The answer, once."""
        answer, self.answer = self.answer, None
        return answer

    def _run(self, now: float, args: tuple[Any, ...]) -> None:
        try:
            answer = self._ask(*args)
        except TraindbgError as e:
            self.problem = str(e)
        else:
            self.problem, self.asked_s, self.answered_s = "", now, time.monotonic()
            self.answer = answer
