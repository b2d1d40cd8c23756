"""A page without a browser: talks to the views of a job through the hub, as the widget's front end does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import traindbg
from jupyter_traindbg.live import Feed
from jupyter_traindbg.widgets.checkpoint import CheckpointView
from jupyter_traindbg.widgets.diagnosis import DiagnosisView
from jupyter_traindbg.widgets.gradients import GradientsView
from jupyter_traindbg.widgets.hub import Hub
from jupyter_traindbg.widgets.learning_rate import LearningRateView

__all__ = ["LIMIT_S", "Page", "Told"]

LIMIT_S = 90.0
VIEWS = (GradientsView, LearningRateView, CheckpointView, DiagnosisView)
Told = dict[str, Any]


class Page:
    """Keeps what it is sent."""

    def __init__(self, job: traindbg.Job) -> None:
        self.feed = Feed(job, rate_hz=4)
        self.messages: list[tuple[Told, list[bytes]]] = []
        self._news = threading.Condition()
        self.hub = Hub(job, self.feed, VIEWS, self._keep)
        self._leave = self.feed.subscribe(self.hub.round)
        self.feed.start()

    def _keep(self, message: Told, buffers: list[bytes]) -> None:
        with self._news:
            self.messages.append((message, buffers))
            self._news.notify_all()

    def say(self, view: str, page: str = "one", **body: Any) -> None:
        self.hub.received({"view": view, "from": page, "body": body}, ())

    def show(self, view: str | None, page: str = "one") -> None:
        self.say("", page, kind="shown", name=view)

    def wait(
        self,
        view: str,
        kind: str,
        fits: Callable[[Told], bool] = lambda told: True,
        *,
        since: int = 0,
        to: str | None = None,
    ) -> tuple[Told, list[bytes]]:
        """The first message of this kind, sent after number `since`, that fits."""
        ends = time.monotonic() + LIMIT_S
        with self._news:
            while True:
                for message, buffers in self.messages[since:]:
                    body = message["body"]
                    for_us = to is None or message["to"] == to
                    if message["view"] == view and body["kind"] == kind and for_us and fits(body):
                        return body, buffers
                assert self._news.wait(max(0.0, ends - time.monotonic())), [m["body"] for m, _ in self.messages[-5:]]

    def ask(self, view: str, do: str, kind: str, **more: Any) -> Told:
        """Send `do` and wait for the answer."""
        since = len(self.messages)
        self.say(view, do=do, **more)
        return self.wait(view, kind, since=since)[0]

    def close(self) -> None:
        self._leave()
        self.hub.close()
        self.feed.stop(5.0)
