"""Between the views and the pages that show them: who is there, what is visible, what goes to whom. Knows no kernel and no widget."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import commands
from ..errors import TraindbgError
from ..language import text
from .view import Content, View
from .wire import LIMIT_HZ, envelope

if TYPE_CHECKING:
    from ..live import Feed

__all__ = ["ANY_PAGE", "Hub"]

log = logging.getLogger(__name__)

Send = Callable[[dict[str, Any], list[bytes]], None]
GONE_S = 35.0
"""A visible page says every ten seconds that it is there; one that was silent for so long is gone."""
MOST_PAGES = 16
ANY_PAGE = "*"
"""Stands for the pages that cannot be heard while the kernel runs a cell (no subshells): they are sent what all would want."""


@dataclass
class _Page:
    """One place where the widget is shown. ``deaf_kernel``: its messages come on the main thread, so never while a cell runs."""

    shows: str | None
    heard_at: float = field(default_factory=time.monotonic)
    deaf_kernel: bool = False


class Hub:
    """The views of one widget and the pages that show them.

    `send` puts one message on the comm; `busy` says whether the main thread runs a cell. Thread-safe.
    """

    def __init__(
        self, job: Any, feed: Feed, views: Sequence[type[View]], send: Send, busy: Callable[[], bool] = lambda: False
    ) -> None:
        self.job, self.feed = job, feed
        self.paused = False
        self._send, self._busy = send, busy
        self._sending = threading.Lock()
        self._lock = threading.RLock()
        self._pages: dict[str, _Page] = {}
        self._visible: set[str] = set()
        self._heard = False
        self._first = views[0].name
        self._last_round = 0.0
        self._workers = {view.name: _Worker(view.name) for view in views}
        self.views: dict[str, View] = {view.name: view(_Host(self, view.name)) for view in views}
        self._locks = {name: threading.RLock() for name in self.views}

    def send(self, view: str, content: Content, buffers: Sequence[bytes] = (), to: str | None = None) -> None:
        with self._lock:
            if not self._pages:
                return
        with self._sending:
            self._send(envelope(view, content, None if to == ANY_PAGE else to), list(buffers))

    def received(self, message: Mapping[str, Any], buffers: Sequence[memoryview]) -> dict[str, Any] | None:
        """A message from a page, which may hold anything. What is for the widget itself (a kind this class does not know) is returned."""
        page, view, body = message.get("from"), message.get("view"), message.get("body")
        if not isinstance(page, str) or not 0 < len(page) <= 40 or page == ANY_PAGE or not isinstance(body, dict):
            return None
        self._hear(page)
        if isinstance(view, str) and view in self.views:
            with self._locks[view]:
                self.views[view].received({**body, "from": page}, buffers)
            return None
        return self._about_page(page, body)

    def round(self) -> None:
        """The feed has something new: hand it to what is visible. Costs nothing where no page is there."""
        now = time.monotonic()
        with self._lock:
            if self.paused or now - self._last_round < 0.8 / LIMIT_HZ:
                return
            self._last_round = now
        self._see_who_is_there(now)
        with self._lock:
            visible = sorted(self._visible)
        for name in visible:
            with self._locks[name]:
                self.views[name].refreshed()

    def work(self, view: str, what: str, function: Callable[[], None], deadline_s: float) -> None:
        def failed(text: str, next_step: str) -> None:
            self.send(view, {"kind": "failed", "what": what, "text": text, "next_step": next_step})

        self._workers[view].do(_Task(what, function, deadline_s, failed, getattr(self.job, "name", None)))

    def pages(self) -> int:
        """How many pages show the widget, as far as we heard."""
        with self._lock:
            return len(self._pages.keys() - {ANY_PAGE})

    @property
    def pages_unheard(self) -> bool:
        """Whether somebody may look whom the kernel cannot hear now."""
        with self._lock:
            return ANY_PAGE in self._pages

    def close(self) -> None:
        with self._lock:
            pages, self._pages = list(self._pages), {}
        self._announce()
        for page in pages:
            self._tell_left(page)
        for worker in self._workers.values():
            worker.stop()

    def _hear(self, page: str) -> None:
        """Note that `page` is there. What it shows it says itself."""
        with self._lock:
            self._heard = True
            if page not in self._pages and len(self._pages) >= MOST_PAGES:
                oldest = min(self._pages, key=lambda name: self._pages[name].heard_at)
                del self._pages[oldest]
            there = self._pages.setdefault(page, _Page(None))
            there.heard_at = time.monotonic()
            there.deaf_kernel = threading.current_thread() is threading.main_thread()
            nobody = self._pages.pop(ANY_PAGE, None)
        if nobody is not None:
            self._tell_left(ANY_PAGE)
            self._announce()

    def _about_page(self, page: str, body: dict[str, Any]) -> dict[str, Any] | None:
        kind = body.get("kind")
        if kind == "shown":
            wanted = body.get("name")
            shows = wanted if isinstance(wanted, str) and wanted in self.views else None
            with self._lock:
                if page in self._pages:
                    self._pages[page].shows = shows
                seen_already = shows in self._visible
            self._announce()
            if shows is not None and seen_already:
                with self._locks[shows]:
                    self.views[shows].opened()  # for the page that came
        elif kind == "left":
            with self._lock:
                self._pages.pop(page, None)
            self._tell_left(page)
            self._announce()
        elif kind == "alive":
            self.send("", {"kind": "alive"}, to=page)
        else:
            return {**body, "from": page}
        return None

    def _see_who_is_there(self, now: float) -> None:
        """Drop the pages that went without a word; where nobody can be heard, take it that somebody looks."""
        busy = self._busy()
        with self._lock:
            gone = [
                name
                for name, page in self._pages.items()
                if name != ANY_PAGE and now - page.heard_at > GONE_S and not (busy and page.deaf_kernel)
            ]
            for name in gone:
                del self._pages[name]
            if busy and not self._heard:
                self._pages.setdefault(ANY_PAGE, _Page(self._first))
            elif not busy and self._pages.pop(ANY_PAGE, None) is not None:
                gone.append(ANY_PAGE)
        for name in gone:
            self._tell_left(name)
        self._announce()

    def _tell_left(self, page: str) -> None:
        for name, view in self.views.items():
            with self._locks[name]:
                view.left(page)

    def _announce(self) -> None:
        """Tell the views whether anybody sees them."""
        with self._lock:
            visible = {page.shows for page in self._pages.values() if page.shows is not None}
            came, went, self._visible = visible - self._visible, self._visible - visible, visible
        for name in sorted(went):
            with self._locks[name]:
                self.views[name].closed()
        for name in sorted(came):
            with self._locks[name]:
                self.views[name].opened()


class _Host:
    """A view's own way to everything else; see `view.Host`."""

    def __init__(self, hub: Hub, view: str) -> None:
        self._hub, self._view = hub, view

    @property
    def job(self) -> Any:
        return self._hub.job

    @property
    def feed(self) -> Feed:
        return self._hub.feed

    @property
    def pages_unheard(self) -> bool:
        return self._hub.pages_unheard

    def send(self, content: Content, buffers: Sequence[bytes] = (), *, to: str | None = None) -> None:
        self._hub.send(self._view, content, buffers, to)

    def work(self, what: str, function: Callable[[], None], *, deadline_s: float = 60.0) -> None:
        self._hub.work(self._view, what, function, deadline_s)


@dataclass
class _Task:
    what: str
    function: Callable[[], None]
    deadline_s: float
    failed: Callable[[str, str], None]
    target: str | None
    """Commands in what it tells name it: the notebook may be attached to another job."""
    over: threading.Event = field(default_factory=threading.Event)


class _Worker:
    """Does the tasks of one view one after the other. A task past its deadline is left to itself, and the next one begins."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def do(self, task: _Task) -> None:
        with self._lock:
            self._tasks.put(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"traindbg-{self._name}", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        with self._lock:
            if self._thread is not None:
                self._tasks.put(None)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            threading.Thread(target=_attempt, args=(task,), name=f"traindbg-{self._name}-work", daemon=True).start()
            if not task.over.wait(task.deadline_s):
                task.failed(
                    text("no answer in {deadline_s:.0f} s", deadline_s=task.deadline_s),
                    text("it may still come about; look again before you repeat it"),
                )


def _attempt(task: _Task) -> None:
    try:
        with commands.about(task.target):
            _tell_refusal(task)
    except Exception as error:  # the person who pressed the button must see it, and the log has the rest
        log.exception("%s failed", task.what)
        words = text("an error of ours: {name}: {error}", name=type(error).__name__, error=error)
        task.failed(words, text("please report it, with the kernel's log"))
    finally:
        task.over.set()


def _tell_refusal(task: _Task) -> None:
    try:
        task.function()
    except TraindbgError as error:
        task.failed(*error.parts())
