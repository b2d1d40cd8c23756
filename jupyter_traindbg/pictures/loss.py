"""The loss over all recorded steps: each step's pale, its mean bold, and where it was not finite; with what was done to the job."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import NoTarget
from ..language import text
from ..live.curves import FEW_RANKS, Thinned
from ..model import Sketch
from ..render.units import number
from ..words.ranks import ranks_words
from . import inks
from .course import Course
from .over_steps import drawn_over_steps, key, line_ends
from .scale import scaled
from .told import Told

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..live.history import Bools, Floats

__all__ = ["draw", "smoothed", "tell"]

HEIGHT_IN = 3.0
PARTS = 40
"""The bold line is the mean of a fortieth of all steps."""


def tell(course: Course) -> Told:
    """Raises `NoTarget` where no loss was recorded."""
    if "loss" not in course.series:
        raise NoTarget(
            text("no loss has been recorded in {steps:,} steps", steps=course.steps),
            text("a loss is seen where backward() is called on it; `%steps` shows what was recorded"),
        )
    losses = course.series["loss"]
    means = _middle(smoothed(losses))
    words = [_answer(course, means)] if np.isfinite(means).any() else []
    bad = losses.bad.any(axis=0)
    if bad.any():
        words.insert(0, _not_finite(course, losses))
    seen = np.isfinite(losses.mean).any(axis=0) | bad
    sketch = Sketch("loss", [float(v) for v in _middle(losses.mean)[seen]], words[0])
    return Told(_title(course), words, [sketch], key(course))


def _title(course: Course) -> str:
    who = ranks_words(list(course.ranks))
    return text("loss of {who} · {extent}", who=who, extent=course.extent)


def _answer(course: Course, means: Floats) -> str:
    losses, known = course.series["loss"], np.flatnonzero(np.isfinite(means))
    now, least, begun = means[known[-1]], int(np.nanargmin(means)), means[known[0]]
    where = f"{course.shown(losses.step[least]):,.0f}"
    over = _over(_steps_of_mean(losses))
    return text(
        "loss {now} now ({over}); {begun} at the beginning, lowest {means} about step {where}",
        now=number(now),
        over=over,
        begun=number(begun),
        means=number(means[least]),
        where=where,
    )


def _over(steps: int) -> str:
    return text("mean of {steps:,} steps", steps=steps) if steps > 1 else text("single steps")


def _not_finite(course: Course, losses: Thinned) -> str:
    broken = [int(row) for row in np.flatnonzero(losses.bad.any(axis=1))]
    still = [row for row in broken if _to_the_end(losses.bad[row], losses.mean[row])]
    rows = still or broken
    first = course.shown(losses.step[min(int(losses.bad[row].argmax()) for row in rows)])
    at = text("about ") if losses.width > 1 else ""
    who = ranks_words([course.ranks[row] for row in rows])
    if still:
        return text("the loss is not finite since {at}step {first:,.0f} ({who})", at=at, first=first, who=who)
    return text("the loss is not finite in places, first at {at}step {first:,.0f} ({who})", at=at, first=first, who=who)


def _to_the_end(bad: Bools, means: Floats) -> bool:
    """Whether a rank has had no finite value since its first that was not; a bucket in which it broke may have some from before."""
    after = means[int(bad.argmax()) + 1 :]
    return bool(bad[-1]) and not np.isfinite(after if after.size else means[-1:]).any()


def smoothed(thinned: Thinned) -> Floats:
    """By rank, the mean of each bucket and those before it, as many as are a fortieth of all: what comes later never shows."""
    window = _window(thinned)
    known = np.isfinite(thinned.mean)
    sums = np.cumsum(np.pad(np.where(known, thinned.mean, 0.0), ((0, 0), (window, 0))), axis=1)
    counts = np.cumsum(np.pad(known.astype(float), ((0, 0), (window, 0))), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = (sums[:, window:] - sums[:, :-window]) / (counts[:, window:] - counts[:, :-window])
    means[~known] = np.nan
    return means


def _window(thinned: Thinned) -> int:
    return max(1, round(len(thinned.step) / PARTS))


def _steps_of_mean(thinned: Thinned) -> int:
    return _window(thinned) * thinned.width


def _middle(by_rank: Floats) -> Floats:
    """The median over the ranks; NaN where none has a value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all of a column are NaN: so is its median
        middle: Floats = np.nanmedian(by_rank, axis=0)
    return middle


# --- drawing ---------------------------------------------------------------------------------------------------------


def draw(course: Course) -> Figure:
    losses = course.series["loss"]
    figure, axes = drawn_over_steps(course, HEIGHT_IN)
    x = losses.step + (course.ahead or 0)
    means = smoothed(losses)
    extent = _Extent(np.fmin.reduce(losses.low, axis=0), np.fmax.reduce(losses.high, axis=0))
    logarithmic = scaled(axes, np.concatenate([extent.low, extent.high]))
    axes.set_ylabel(text("loss, log scale") if logarithmic else "loss")
    single, steps = len(course.ranks) == 1, _steps_of_mean(losses)
    if not single or steps > 1:
        _each_step(axes, x, extent, single=single and losses.width == 1)
    _means(axes, x, means, course, steps)
    _marks(axes, x[losses.bad.any(axis=0)])
    figure.legend(loc="outside upper right", ncols=3)
    return figure


@dataclass(frozen=True)
class _Extent:
    """Least and greatest of all ranks."""

    low: Floats
    high: Floats


def _each_step(axes: Axes, x: Floats, extent: _Extent, *, single: bool) -> None:
    if single:
        label = text("each step")
        axes.plot(x, extent.low, color=inks.SERIES[0], alpha=0.45, linewidth=0.8, label=label)
    else:
        label = text("least to greatest")
        axes.fill_between(x, extent.low, extent.high, color=inks.SERIES[0], alpha=0.25, linewidth=0, label=label)


def _means(axes: Axes, x: Floats, means: Floats, course: Course, steps: int) -> None:
    """One bold line for one rank; a line each for a few; of many the median."""
    over = _over(steps)
    if len(course.ranks) == 1:
        axes.plot(x, means[0], color=inks.SERIES[0], linewidth=2, label=over)
    elif len(course.ranks) > FEW_RANKS:
        median = text("median of {count} ranks, {over}", count=len(course.ranks), over=over)
        axes.plot(x, _middle(means), color=inks.SERIES[0], linewidth=2, label=median)
    else:
        ends = []
        for i, rank in enumerate(course.ranks):
            colour = inks.SERIES[i % len(inks.SERIES)]
            axes.plot(x, means[i], color=colour, linewidth=1.6, label=over if i == 0 else None)
            known = np.flatnonzero(np.isfinite(means[i]))
            if known.size:
                ends.append((float(x[known[-1]]), float(means[i][known[-1]]), course.names[rank], colour))
        line_ends(axes, ends)


def _marks(axes: Axes, bad: Floats) -> None:
    if bad.size:
        label = text("not finite (NaN or infinite)")
        axes.plot(
            bad,
            np.full(len(bad), 0.97),
            "x",
            color=inks.BAD,
            markersize=6,
            transform=axes.get_xaxis_transform(),
            label=label,
        )
