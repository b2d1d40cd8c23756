"""Axes whose x are steps: how they are numbered, and what happened on the way, as numbered flags with a key below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..language import text
from ..live import Event
from . import inks
from .canvas import new_figure
from .course import Course

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["drawn_over_steps", "key", "line_ends"]

KEY_LINE_IN = 0.19
CHARACTERS = 150
"""Of a line of the key: as many as fit the width of a picture."""
MOST_FLAGS = 9
CLOSE = 0.02
"""Flags that are closer than this share of the width stand at one place."""
_UNREMARKABLE = ("nan", "restarted")
"""Kinds of events that the picture shows by itself, or that belong to us."""


def key(course: Course) -> list[str]:
    """What the flags mean, a line each; the latest ones, where there are many."""
    flags, more = _flags(course)
    lines = [_key_line(number, event, course) for number, event in enumerate(flags, 1)]
    return lines + ([text("and {more} before", more=more)] if more else [])


def _flags(course: Course) -> tuple[list[Event], int]:
    """What gets a flag (changes, checkpoints, hangs, ranks that are lost, the end), and how much else there was before."""
    told = [event for event in course.events if event.kind not in _UNREMARKABLE]
    return told[-MOST_FLAGS:], max(0, len(told) - MOST_FLAGS)


def drawn_over_steps(course: Course, height_in: float) -> tuple[Figure, Axes]:
    """A figure with axes of `height_in` inches for the steps of `course`, its flags, and their key below."""
    lines = key(course)
    key_in = KEY_LINE_IN * len(lines) + 0.1 * bool(lines)
    figure = new_figure(height_in + key_in)
    if lines:
        axes, below = figure.subplots(2, 1, height_ratios=[height_in, key_in])
        below.set_axis_off()
        below.text(0, 1, "\n".join(lines), fontsize=8, color=inks.FAINT, va="top", linespacing=1.35)
    else:
        axes = figure.subplots()
    last = course.number.since_attach or course.first
    margin = max(0.5, (last - course.first) * 0.01)
    axes.set_xlim(course.shown(course.first) - margin, course.shown(last) + margin)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.tick_params(which="minor", labelsize=8, labelcolor=inks.FAINT)
    axes.set_xlabel(_counted(course))
    _plant(axes, [course.shown(event.step) for event in _flags(course)[0]])
    return figure, axes


def _counted(course: Course) -> str:
    if course.ahead is None:
        return text("optimizer steps since the attach")
    return text("optimizer step")


def _key_line(number: int, event: Event, course: Course) -> str:
    words = " ".join(event.text.split())
    words = words if len(words) <= CHARACTERS else f"{words[: CHARACTERS - 1]}…"
    step = f"{course.shown(event.step):,.0f}"
    return text("{number} · step {step}: {words}", number=number, step=step, words=words)


def _plant(axes: Axes, places: Sequence[float]) -> None:
    """A dotted line at each place, and above it the numbers of the flags that stand there."""
    low, high = axes.get_xlim()
    groups: list[list[int]] = []
    for i in np.argsort(places, kind="stable"):
        if groups and places[i] - places[groups[-1][-1]] < CLOSE * (high - low):
            groups[-1].append(int(i))
        else:
            groups.append([int(i)])
    for group in groups:
        for i in group:
            axes.axvline(places[i], color=inks.FAINT, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
        numbers = sorted(i + 1 for i in group)
        axes.annotate(
            ",".join(map(str, numbers)),
            (places[group[0]], 1),
            (0, 3),
            ("data", "axes fraction"),
            "offset points",
            ha="center",
            fontsize=8,
            color=inks.INK,
        )


def line_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """The names of lines at their right ends, ``(x, y, name, colour)``, moved apart where they would overlap."""
    figure: Any = axes.figure
    height = float(axes.get_position().height * figure.get_size_inches()[1] * 72)
    least = 10 / max(1.0, height)
    placed: list[float] = []
    for x, y, name, colour in sorted(ends, key=lambda end: end[1]):
        at = float(axes.transAxes.inverted().transform(axes.transData.transform((x, y)))[1])
        at = max(at, placed[-1] + least) if placed else at
        placed.append(at)
        axes.annotate(name, (1, at), (4, 0), "axes fraction", "offset points", va="center", fontsize=8, color=colour)
