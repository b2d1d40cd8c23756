"""The widget: its comm, its place in the notebook, and the picture that stays there when the kernel is gone."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from ..errors import MissingPiece, UsageError
from ..language import language, text
from ..step_numbers import step_title
from .hub import Hub
from .shown import Cells, Place
from .view import View

if TYPE_CHECKING:
    from ..live import Feed

__all__ = ["WatchWidget", "views"]

STATIC = Path(__file__).parent / "static"
VIEWS = {
    "curves": "CurvesView",
    "gradients": "GradientsView",
    "learning_rate": "LearningRateView",
    "checkpoint": "CheckpointView",
    "diagnosis": "DiagnosisView",
}
"""Module of this package -> its class, in the order of the tabs."""
ENDS = {"finished", "lost"}
"""Codes of the states after which nothing more comes."""


def views() -> list[type[View]]:
    """The views there are, in the order of their tabs."""
    return [getattr(import_module(f"{__package__}.{module}"), name) for module, name in VIEWS.items()]


def _bundle(name: str) -> str:
    try:
        return (STATIC / name).read_text(encoding="utf-8")
    except OSError as error:
        raise MissingPiece(
            text("the live widget's front end is not built ({why}: {name})", why=error.strerror, name=name),
            text("in a source checkout, run scripts/frontend; a wheel has it"),
        ) from None


class WatchWidget(anywidget.AnyWidget):
    """The live view of one job. Show it as the last expression of a cell, or with `display`; it may be shown in several places.

    Asks nothing of the job itself: `feed` does, which others may use as well, unless it is owned. `stop` ends the watch and leaves the
    last state as a picture. Raises `MissingPiece` where the front end was not built.
    """

    about = traitlets.Dict().tag(sync=True)
    """``id``, ``language``, ``job``, ``views`` (names), ``view`` (the one to open), ``rate_hz``, ``paused``, ``stopped``."""
    state = traitlets.Dict().tag(sync=True)
    """``code``, ``words`` and ``step`` when the code last changed; what changes every second goes only to pages that are there."""

    picture = traitlets.Bytes(b"").tag(sync=True)
    """The PNG beside it, for a page that has the widget and no kernel."""

    def __init__(self, job: Any, feed: Feed, *, view: str = "curves", owns_feed: bool = False) -> None:
        found = views()
        names = [v.name for v in found]
        if view not in names:
            raise UsageError(
                text("there is no view {view!r}", view=view), text("one of: {names}", names=text(", ").join(names))
            )
        self._setting = threading.Lock()
        self._ended = False
        self._told: dict[str, Any] = {}
        self._owns_feed = owns_feed
        self._place = Place(self, feed, str(getattr(job, "name", "job")))
        self._esm, self._css = _bundle("watch.js"), _bundle("watch.css")
        self.feed = feed
        self._cells = Cells()
        super().__init__(
            about={
                "id": uuid.uuid4().hex,
                "language": language(),
                "job": str(getattr(job, "name", "job")),
                "views": names,
                "view": view,
                "rate_hz": feed.rate_hz,
                "paused": False,
                "stopped": False,
            },
            state=_state(feed),
        )
        self._tame_comm()
        self.hub = Hub(job, feed, found, self._put, self._cells.running)
        self.on_msg(self._got)
        self._unsubscribe: Callable[[], None] = feed.subscribe(self._round)

    def stop(self) -> None:
        """End the watch; what was seen stays, as curves while the kernel lives and as a picture in the saved notebook. Costs up to 1 s."""
        self._unsubscribe()
        if self._owns_feed:
            self.feed.stop(5.0)
        self._set_about(stopped=True)
        self._place.update_picture()

    def close(self) -> None:
        """Stop, and take the widget out of the page."""
        if (
            hasattr(self, "hub") and self.comm is not None
        ):  # else closed already, or never made: also called when it is collected
            self.stop()
            self.hub.close()
            self._cells.close()
        super().close()

    def __repr__(self) -> str:
        return f"<Watch of {self.about.get('job', 'a job')}: {self.state.get('words', '')}>"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
        live, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        return self._place.bundle(live), metadata

    def _ipython_display_(self) -> None:
        self._place.show()

    def _tame_comm(self) -> None:
        """Let the buttons be heard while this kernel runs a cell, and let that cell's figures be.

        ipykernel 7.4.0 sends what a page answers to where the last message came from, which is the busy main thread after the first one
        from there. And every comm triggers ``post_execute`` for each message, at which ``%matplotlib inline`` shows and closes the figures
        that the running cell is drawing.
        """
        comm = self.comm
        if hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = lambda data, default: default
        if hasattr(comm, "_msg_callback"):
            comm.handle_msg = comm._msg_callback

    def _put(self, message: dict[str, Any], buffers: list[bytes]) -> None:
        if self.comm is not None:
            self.send(message, buffers)

    def _got(self, _: object, message: Any, buffers: Sequence[memoryview]) -> None:
        if not isinstance(message, Mapping):
            return
        own = self.hub.received(message, buffers)
        if own is not None:
            self._command(own)

    def _command(self, body: dict[str, Any]) -> None:
        """What a page asks of the widget itself."""
        kind = body.get("kind")
        if kind == "hello":
            self.hub.send("", {"kind": "state", **_state(self.feed)}, to=body["from"])
        elif kind == "pause":
            self.hub.paused = body.get("paused") is True  # the feed goes on, so that nothing is missing afterwards
            self._set_about(paused=self.hub.paused)
        elif kind == "away":
            self._place.update_picture()  # nobody looks, so nobody sees the output being replaced

    def _set_about(self, **changed: Any) -> None:
        with self._setting:
            self.about = {**self.about, **changed}

    def _round(self) -> None:
        """After each round of the feed, on its thread."""
        state = _state(self.feed)
        if state["code"] != self.state["code"]:
            self.state = state
        if state != self._told and not self.hub.paused:
            self._told = state
            self.hub.send("", {"kind": "state", **state})
        self.hub.round()
        if state["code"] in ENDS and not self._ended:
            self._place.update_picture()
        self._ended = state["code"] in ENDS


def _state(feed: Feed) -> dict[str, Any]:
    state = feed.state
    return {"code": str(state.code), "words": str(state.words), "step": feed.last_step, "at": step_title(feed.number)}
