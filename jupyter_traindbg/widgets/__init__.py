"""The live widget: a job's curves and controls in the notebook. Imports ipywidgets and anywidget (0.2 s) when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .view import Host, View

if TYPE_CHECKING:
    from ..live import Feed
    from .container import WatchWidget

__all__ = ["Host", "View", "watch"]


def watch(job: Any, *, view: str | None = None, rate_hz: float = 2.0, feed: Feed | None = None) -> WatchWidget:
    """A widget that shows `job` live, with the tab `view` open (default: the curves); `rate_hz` looks a second (drawn at most 4 times).

    `feed` instead of one of its own, which the caller has started. Show the widget as a cell's last expression or with ``display``.
    Raises `UsageError` for a view that there is not, `MissingPiece` in a source checkout without the built front end.
    """
    from ..live import Feed
    from .container import WatchWidget

    own = Feed(job, rate_hz=rate_hz) if feed is None else feed
    widget = WatchWidget(job, own, view=view or "curves", owns_feed=feed is None)
    if feed is None:
        own.start()
    return widget
