"""Work that may block, off the event loop: each call on a daemon thread of its own, with a deadline, and only so many at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import DeadlineExceeded, TraindbgError
from ..language import later, text

__all__ = ["Busy", "Threads"]

T = TypeVar("T")


class Busy(TraindbgError):
    """Too much is under way already; nothing was begun."""

    default_next_step = later("try again in a moment")


class Threads:
    """At most `most` calls at a time. One past its deadline is left behind, and counts until it ends; no exit waits for it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.under_way = 0
        """Read and written on the event loop alone."""

    async def run(self, what: str, work: Callable[[], T], deadline_s: float) -> T:
        """What `work` returns or raises. Raises `Busy` where there is no room, `DeadlineExceeded` after `deadline_s`; that says `what`."""
        if self.under_way >= self.most:
            raise Busy(text("the server is busy with {n} other questions about training jobs", n=self.under_way))
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def deliver(value: Any, error: BaseException | None) -> None:
            self.under_way -= 1
            if done.cancelled():
                return
            if error is None:
                done.set_result(value)
            else:
                done.set_exception(error)

        def run() -> None:
            try:
                value, error = work(), None
            except BaseException as e:  # noqa: BLE001 - it belongs to whoever awaits
                value, error = None, e
            try:
                loop.call_soon_threadsafe(deliver, value, error)
            except RuntimeError:
                return  # the server has ended meanwhile: nobody waits any more

        self.under_way += 1
        threading.Thread(target=run, name=f"traindbg-{what}", daemon=True).start()
        try:
            return await asyncio.wait_for(done, deadline_s)
        except asyncio.TimeoutError as e:
            if done.cancelled():
                raise DeadlineExceeded(
                    text("{what} has not ended in {deadline_s:g} s", what=text(what), deadline_s=deadline_s),
                    text("try again in a moment"),
                ) from e
            raise  # the work's own
