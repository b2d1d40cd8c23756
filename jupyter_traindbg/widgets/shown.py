"""Where the widget is shown in a notebook, and whether the kernel runs a cell. Without IPython, nothing of it does anything."""

from __future__ import annotations

import atexit
import base64
import contextlib
import sys
import threading
import uuid
import weakref
from typing import TYPE_CHECKING, Any

from ..notebook import shell
from .picture import png

if TYPE_CHECKING:
    from ..live import Feed

__all__ = ["Cells", "Place"]


class Cells:
    """Knows whether the main thread runs a cell."""

    def __init__(self) -> None:
        self._shell = shell()
        self._running = self._shell is not None  # somebody made us in one
        if self._shell is not None:
            self._shell.events.register("pre_run_cell", self._begins)
            self._shell.events.register("post_run_cell", self._ends)

    def running(self) -> bool:
        return self._running

    def close(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            with contextlib.suppress(ValueError):  # events.reset() was called
                shell.events.unregister("pre_run_cell", self._begins)
            with contextlib.suppress(ValueError):
                shell.events.unregister("post_run_cell", self._ends)

    def _begins(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():  # a silent execute on a subshell fires them too
            self._running = True

    def _ends(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            self._running = False


class Place:
    """The outputs that show `widget`: the live view and, beside it in the same bundle, the last state as a picture and as words.

    An output is replaced only when nobody looks at it or nothing more will come: the page draws the widget anew.
    """

    def __init__(self, widget: Any, feed: Feed, job: str) -> None:
        self._widget = weakref.ref(widget)
        self._feed, self._job = feed, job
        self._id = f"traindbg-{uuid.uuid4().hex}"
        self._shown = False
        self._in_cell: Any = None
        self._picture_of = -1

    def bundle(self, live: dict[str, Any]) -> dict[str, Any]:
        """What a cell's output holds: `live` (the widget), with words and a picture for whoever cannot show it."""
        words, drawn, widget = f"{self._job}: {self._feed.state.words}", png(self._feed, self._job), self._widget()
        if widget is not None:
            widget.picture = drawn
        return {**live, "text/plain": words, "image/png": base64.b64encode(drawn).decode()}

    def show(self) -> None:
        """Show it in the running cell, once: a magic shows what it also returns."""
        from IPython.display import display

        widget, cell = self._widget(), getattr(shell(), "execution_count", None)
        if widget is None or (self._shown and cell is not None and cell == self._in_cell):
            return
        self._in_cell = cell
        if not self._shown:
            self._shown = True
            atexit.register(_at_exit, weakref.ref(self))
        data, metadata = widget._repr_mimebundle_()
        display(data, metadata=metadata, raw=True, display_id=self._id)

    def update_picture(self) -> None:
        """Put the state of now into the outputs. Costs about 200 ms and 25 kB; nothing where nothing has changed."""
        widget, version = self._widget(), self._feed.version
        if widget is None or not self._shown or version == self._picture_of:
            return
        from IPython.display import update_display

        self._picture_of = version
        data, metadata = widget._repr_mimebundle_()
        update_display(data, metadata=metadata, raw=True, display_id=self._id)


def _at_exit(place: weakref.ref[Place]) -> None:
    there = place()
    if there is not None:
        there.update_picture()
        sys.stdout.flush()  # in a kernel it waits until what was published before is out; what still waits then is dropped
