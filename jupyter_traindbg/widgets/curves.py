"""The view of curves: what each page wants to see, in as many points as a chart has pixels, sent as binary columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..words.series import series_words
from .view import Content, Host, View
from .wire import pack

if TYPE_CHECKING:
    from ..live import Curve, Event

__all__ = ["CurvesView", "Want"]

LEAST_POINTS, POINTS, MOST_POINTS = 50, 600, 4000
MOST_RANKS = 8
"""As many ranks can be drawn one by one."""
MOST_EVENTS = 300
MOST_MARKS = 300


@dataclass(frozen=True)
class Want:
    """What one page shows. ``first`` and ``last`` are in units of ``x`` (steps, or seconds since the epoch); None: the beginning, and
    whatever comes.
    """

    ranks: tuple[int, ...] | None = None
    x: Literal["step", "time"] = "step"
    first: float | None = None
    last: float | None = None
    points: int = POINTS
    seq: int = 0

    @classmethod
    def read(cls, content: Content) -> Want:
        """From a page's words, which may be anything: what makes no sense there is left out."""
        ranks = content.get("ranks")
        points = _number(content.get("points"))
        seq = content.get("seq")
        return cls(
            ranks=tuple(sorted({r for r in ranks if type(r) is int}))[:MOST_RANKS] if isinstance(ranks, list) else None,
            x="time" if content.get("x") == "time" else "step",
            first=_number(content.get("first")),
            last=_number(content.get("last")),
            points=POINTS if points is None else int(min(MOST_POINTS, max(LEAST_POINTS, points))),
            seq=seq if type(seq) is int else 0,
        )


@dataclass
class _Sent:
    """What a page has. ``step``: the last step there was, ``more``: points that came by tails since the whole."""

    want: Want
    version: int = -1
    events: int = 0
    end: float = -math.inf
    more: int = 0


class CurvesView(View):
    """Sends to each page the curves that it wants: once as a whole, then their tails."""

    name = "curves"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._pages: dict[str, _Sent] = {}
        self._told: dict[str, Any] | None = None

    def received(self, content: Content, buffers: Sequence[memoryview]) -> None:
        if content.get("kind") == "want":
            page = content["from"]
            if page not in self._pages:
                self._told = None
            self._pages[page] = _Sent(Want.read(content))
            self.refreshed()

    def left(self, front: str) -> None:
        self._pages.pop(front, None)

    def closed(self) -> None:
        self._pages.clear()  # whoever comes back says again what it wants

    def refreshed(self) -> None:
        if self.host.pages_unheard and not self._pages:
            self._send_unasked()
            return
        self._tell_about()
        for page, sent in self._pages.items():
            self._bring_up_to_date(page, sent)

    def _send_unasked(self) -> None:
        """For pages that the kernel cannot hear while it runs a cell: the whole, again and again."""
        self._tell_about(again=True)
        self._send_whole(None, _Sent(Want()))

    def _tell_about(self, again: bool = False) -> None:
        """The ranks, and by how much the optimizer's own count of steps is ahead of that since the attach, by which all else is told."""
        feed = self.host.feed
        names = feed.rank_names
        about = {
            "ranks": [[rank, str(names.get(rank, f"rank {rank}"))] for rank in feed.ranks],
            "silent": [[rank, why] for rank, why in sorted(feed.silent.items()) if rank >= 0],
            "few": MOST_RANKS,
            "ahead": feed.ahead,
        }
        if again or about != self._told:
            self._told = about
            self.host.send({"kind": "about", **about})

    def _bring_up_to_date(self, page: str, sent: _Sent) -> None:
        feed, want = self.host.feed, sent.want
        if sent.version < 0:
            self._send_whole(page, sent)
        elif feed.version == sent.version:
            return
        elif want.last is not None and sent.end > want.last:
            self._send_events(page, sent)  # what it shows lies in the past
        elif want.last is not None or sent.more > want.points:
            self._send_whole(page, sent)
        else:
            self._send_tail(page, sent)

    def _send_whole(self, page: str | None, sent: _Sent) -> None:
        feed, want = self.host.feed, sent.want
        sent.version, sent.more = feed.version, 0
        sent.end = self._end(want)
        curves = {
            series.name: feed.curve(
                series.name, ranks=want.ranks, first=want.first, last=want.last, points=want.points, x=want.x
            )
            for series in feed.series
        }
        labels = {s.name: {"label": series_words(s.label), "unit": s.unit, "group": s.group} for s in feed.series}
        events = feed.events
        sent.events = len(events)
        content = {"kind": "whole", "events": [_event(e) for e in events[-MOST_EVENTS:]], "labels": labels}
        self._send_curves(page, want, content, curves)

    def _send_tail(self, page: str, sent: _Sent) -> None:
        feed, want = self.host.feed, sent.want
        tail = feed.tail(sent.version, ranks=want.ranks, points=want.points, x=want.x)
        known = {s.name for s in feed.series}
        if tail.first is None or (known - tail.curves.keys() and tail.curves):
            self._send_whole(page, sent)
            return
        sent.version = tail.version
        self._send_events(page, sent)
        if tail.curves:
            sent.more += max(len(curve.x) for curve in tail.curves.values())
            self._send_curves(page, want, {"kind": "tail"}, tail.curves)

    def _send_events(self, page: str, sent: _Sent) -> None:
        new = self.host.feed.events[sent.events :]
        if new:
            sent.events += len(new)
            self.host.send({"kind": "events", "events": [_event(e) for e in new[-MOST_EVENTS:]]}, to=page)

    def _end(self, want: Want) -> float:
        """How far the records go, in units of x."""
        feed = self.host.feed
        if want.x == "step":
            return float(feed.last_step)
        names = [s.name for s in feed.series][:1]
        xs = [feed.curve(name, points=LEAST_POINTS, x="time").x for name in names]
        return max((float(x[-1]) for x in xs if len(x)), default=-math.inf)

    def _send_curves(self, page: str | None, want: Want, content: dict[str, Any], curves: Mapping[str, Curve]) -> None:
        series, wide, narrow = [], [], []
        for name, curve in curves.items():
            marks = _marks(curve)
            columns = list(curve.band) if curve.band is not None else list(curve.lines.values())
            series.append(
                {
                    "name": name,
                    "n": len(curve.x),
                    "ranks": None if curve.band is not None else list(curve.lines),
                    "marks": len(marks),
                    "per_point": curve.per_point,
                    "complete": curve.complete,
                }
            )
            wide += [curve.x, marks]
            narrow += columns
        head = {**content, "seq": want.seq, "x": want.x, "series": series}
        self.host.send(head, [pack(wide, "<f8"), pack(narrow, "<f4")], to=page)


def _marks(curve: Curve) -> Any:
    """Where some rank's value was NaN or infinite."""
    if not curve.nonfinite:
        return np.zeros(0)
    return np.unique(np.concatenate(list(curve.nonfinite.values())))[-MOST_MARKS:]


def _event(event: Event) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "step": event.step,
        "time_s": event.time_s,
        "ranks": list(event.ranks[:16]),
        "text": event.text,
    }


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None
