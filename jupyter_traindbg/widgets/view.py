"""What a view of the live widget is: one tab in the browser, and its other half here. Adding one is one file on each side."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..language import text

if TYPE_CHECKING:
    from ..live import Feed

__all__ = ["Host", "LookingView", "View"]

Content = Mapping[str, Any]


class Host(Protocol):
    """What a view may use. Everything here may be called on any thread."""

    @property
    def job(self) -> Any:
        """The job: its own methods, which have their deadlines and raise `TraindbgError`."""

    @property
    def feed(self) -> Feed:
        """What the job did, kept and thinned out."""

    @property
    def pages_unheard(self) -> bool:
        """Whether pages may look that cannot be heard while the kernel runs a cell (no subshells): send them the usual, unasked."""

    def send(self, content: Content, buffers: Sequence[bytes] = (), *, to: str | None = None) -> None:
        """Send to this view's front ends, in order; `to` names one of them (the ``"from"`` of what it sent). Costs nothing when no
        page is there.
        """

    def work(self, what: str, function: Callable[[], None], *, deadline_s: float = 60.0) -> None:
        """Run `function` on a worker thread of this view, one after the other; `what` says in words what it does.

        A `TraindbgError` that it raises is sent as ``{"kind": "failed", "what", "text", "next_step"}``. Past `deadline_s` the same is
        sent, and what was asked next no longer waits for it.
        """


class View(abc.ABC):
    """The Python half of one tab.

    The calls below never overlap for one view; they come on the thread of a comm message or of the feed, so what takes longer than some
    milliseconds goes through `Host.work`.
    """

    name: ClassVar[str]

    def __init__(self, host: Host) -> None:
        self.host = host

    def opened(self) -> None:  # noqa: B027 - most views have nothing to do
        """The tab became visible in a page. Comes again for each further page: send what it needs to begin with."""

    def closed(self) -> None:  # noqa: B027
        """No page shows the tab any more: stop working."""

    @abc.abstractmethod
    def received(self, content: Content, buffers: Sequence[memoryview]) -> None:
        """A front end of this view sent `content`. Which one is in ``content["from"]``; nothing else in it is to be trusted."""

    def refreshed(self) -> None:  # noqa: B027
        """The feed has something new. Called at most 4 times a second, while the tab is visible and not paused."""

    def left(self, front: str) -> None:  # noqa: B027
        """The front end of that name is gone."""


class LookingView(View):
    """A view that reads something of the job while its tab is visible and the job steps."""

    looks_for: ClassVar[str]
    """What it does then: a message."""
    look_s: ClassVar[float]
    """How long that may take."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._visible = False
        self._looking = False
        self._next_look = 0.0

    @abc.abstractmethod
    def _read(self) -> None:
        """Read it, on a worker thread, and send it."""

    @abc.abstractmethod
    def _pause_s(self, took_s: float) -> float:
        """How long to leave the job alone after a look that took so long."""

    def opened(self) -> None:
        self._visible = True
        self._look()

    def closed(self) -> None:
        self._visible = False

    def refreshed(self) -> None:
        if self._visible and time.monotonic() >= self._next_look:
            self._look()

    def _look(self) -> None:
        if not self._looking:  # else one is on its way
            self._looking = True
            self.host.work(text(self.looks_for), self._look_now, deadline_s=self.look_s)

    def _look_now(self) -> None:
        began = time.monotonic()
        try:
            self._read()
        finally:
            now = time.monotonic()
            self._next_look = now + self._pause_s(now - began)
            self._looking = False
