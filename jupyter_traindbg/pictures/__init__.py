"""Pictures of what results say: static, drawn by matplotlib, for where people would rather look than read.

A kind of picture is a module with ``tell(data)``, what it shows in words, and ``draw(data)``, the figure. Nothing is drawn before somebody
looks, so a terminal that only reads the words never imports matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..language import text
from ..model import (
    Collectives,
    ConfigPreflight,
    Grads,
    LogDiagnosis,
    Memory,
    Picture,
    Profile,
    Result,
    Silent,
    SqlRows,
    Steps,
)
from .canvas import Canvas
from .told import Told

if TYPE_CHECKING:
    from ..live import Feed

__all__ = ["OF_JOBS", "OVER_STEPS", "of_feed", "of_result", "of_several"]

OVER_STEPS = ("loss", "lr")
"""Drawn from what was recorded over the steps."""
OF_JOBS = (*OVER_STEPS, "grads", "memory", "collectives", "profile")
"""What there is of a job."""
_OF_RESULT: dict[type[Result], str] = {
    Collectives: "collectives",
    ConfigPreflight: "estimate",
    Grads: "grads",
    LogDiagnosis: "log",
    Memory: "memory",
    Profile: "profile",
    SqlRows: "query",
    Steps: "loss",
}
_OF_SEVERAL: dict[type[Result], str] = {LogDiagnosis: "runs", ConfigPreflight: "estimate"}


def of_several(results: Mapping[str, Result]) -> Picture:
    """The losses of several logs, or the estimated memory of several configurations, each under its name. Raises `UsageError` for others,
    `NoTarget` where there is nothing to draw.
    """
    if not results:
        raise UsageError(text("nothing to draw was named"), text("name at least one log, or one configuration"))
    for of, kind in _OF_SEVERAL.items():
        if all(isinstance(result, of) for result in results.values()):
            return _picture(kind, results)
    kinds = sorted({type(result).__name__ for result in results.values()})
    raise UsageError(
        text("{kinds} cannot be drawn beside each other", kinds=text(" and ").join(kinds)),
        text("logs can, and configurations (results of `%preflight`)"),
    )


def of_result(result: Result) -> Picture:
    """The picture of `result`. Raises `UsageError` where there is none of such a result."""
    kind = next((kind for of, kind in _OF_RESULT.items() if isinstance(result, of)), None)
    if kind is None:
        known = text(", ").join(of.__name__ for of in _OF_RESULT)
        raise UsageError(
            text("there is no picture of a {kind}", kind=type(result).__name__),
            text("there are pictures of {kinds}", kinds=known),
        )
    if isinstance(result, Steps):
        from .course import of_steps

        return _picture(kind, of_steps(result), result.silent).about(result.asked_about)
    return _picture(kind, result, getattr(result, "silent", ())).about(result.asked_about)


def of_feed(kind: str, feed: Feed) -> Picture:
    """``"loss"`` or ``"lr"`` of all steps that `feed` keeps."""
    from .course import of_feed as course_of

    return _picture(kind, course_of(feed), _silent(feed))


def _silent(feed: Feed) -> list[Silent]:
    """Those who should answer, and do not."""
    tracks = [track for rank in feed.silent if (track := feed.left_of(rank)) is not None]
    return [Silent(track.rank, track.pid, track.problem) for track in tracks if not track.gone]


def _picture(kind: str, data: object, silent: Sequence[Silent] = ()) -> Picture:
    module = import_module(f"{__name__}.{kind}")
    told: Told = module.tell(data)
    return Picture(
        kind,
        told.title,
        tuple(told.words),
        tuple(told.sketches),
        tuple(told.details),
        tuple(silent),
        _drawn=Canvas(lambda: module.draw(data)),
    )
