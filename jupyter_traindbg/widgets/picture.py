"""The last state as a static picture: for nbconvert, for a repository's page, for whoever opens the notebook without its kernel."""

from __future__ import annotations

import dataclasses
import io
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..language import language, later, text
from ..pictures.canvas import legible, lock
from ..pictures.inks import BAD, SERIES
from ..step_numbers import step_title
from ..words.series import series_words

if TYPE_CHECKING:
    from ..live import Curve, Feed, Series

__all__ = ["GROUPS", "png"]

GROUPS = {
    "loss": later("loss"),
    "lr": later("learning rate"),
    "grad_norm": later("gradient norm"),
    "time": later("step time [ms]"),
    "memory": later("memory [GiB]"),
    "gpu": later("GPU utilisation [%]"),
}
SCALES = {"s": 1e3, "B": 2.0**-30}
WIDTH_IN, ROW_IN, DPI = 10.0, 2.1, 80
COLOURS_KEPT = 128
"""A small file: it is saved with the notebook, and a message of 64 KiB or more cannot be sent while a kernel ends."""
POINTS = 400


def png(feed: Feed, title: str) -> bytes:
    """The curves so far with the state in words above: about 25 kB and 200 ms. Draws on a figure of its own and touches no setting, not
    even for that long: a cell may be drawing meanwhile, in another thread.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from PIL import Image

    groups: dict[str, list[Series]] = {}
    for series in feed.series:
        groups.setdefault(series.group, []).append(series)
    names = [name for name in GROUPS if name in groups]
    across = min(3, max(1, len(names)))
    down = max(1, -(-len(names) // across))
    reader = language()
    with lock, legible() as fonts:
        figure = Figure(figsize=(WIDTH_IN, 0.7 + ROW_IN * down), dpi=DPI, facecolor="white", layout="constrained")
        # what the feed has said already was said in the reader's language
        state = feed.state.words if language() == reader else feed.state.code
        words = text("{title}: {state}", title=title, state=state)
        time_words = time.strftime("%Y-%m-%d %H:%M:%S")
        when = text("as of {time}, {step}", time=time_words, step=step_title(feed.number))
        figure.suptitle(f"{words[:110]}\n{when}", fontsize=10, parse_math=False, color="black")
        for place, name in enumerate(names, 1):
            axes = figure.add_subplot(down, across, place)
            _draw(axes, feed, name, groups[name])
        for one in figure.findobj(Text) if fonts else ():
            one.set_fontfamily(fonts)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
    drawn = io.BytesIO()
    pixels.quantize(COLOURS_KEPT, dither=Image.Dither.NONE).save(drawn, "PNG", optimize=True)
    return drawn.getvalue()


def _draw(axes: Any, feed: Feed, group: str, series: list[Series]) -> None:
    ahead = feed.ahead or 0
    axes.set_facecolor("white")
    axes.set_title(text(GROUPS[group]), fontsize=9, color="black")
    axes.tick_params(labelsize=7, colors="black")
    axes.grid(True, color="#dddddd", linewidth=0.5)
    parts = [s for s in series if s.name != "step_s"]
    if group == "time" and parts:
        _stack(axes, [_curve(feed, part, ahead) for part in parts], parts)
    else:
        for number, one in enumerate(series):
            _lines(axes, _curve(feed, one, ahead), one, number)
    if len(series) > 1:
        axes.legend(
            fontsize=6,
            loc="upper left",
            bbox_to_anchor=(0, -0.14),
            ncols=3,
            frameon=False,
            borderaxespad=0,
            handlelength=1.5,
        )
    for event in feed.events[-50:]:
        axes.axvline(event.step + ahead, color="#888888", linewidth=0.8, linestyle=":")


def _curve(feed: Feed, series: Series, ahead: int) -> Curve:
    """A curve over the optimizer's own steps, which are `ahead` of those since the attach."""
    curve = feed.curve(series.name, points=POINTS)
    nonfinite = {rank: x + ahead for rank, x in curve.nonfinite.items()}
    return dataclasses.replace(curve, x=curve.x + ahead, nonfinite=nonfinite)


def _stack(axes: Any, curves: list[Curve], parts: list[Series]) -> None:
    rows = [middle(curve) * SCALES["s"] for curve in curves if len(curve.x)]
    least = min((len(row) for row in rows), default=0)
    if least:
        values = np.nan_to_num(np.stack([row[:least] for row in rows]))
        axes.stackplot(
            curves[0].x[:least],
            values,
            labels=[series_words(part.label) for part in parts],
            colors=SERIES[: len(parts)],
            linewidth=0,
        )


def _lines(axes: Any, curve: Curve, series: Series, number: int) -> None:
    scale = SCALES.get(series.unit, 1.0)
    colour = SERIES[number % len(SERIES)]
    if curve.band is not None:
        low, mid, high = (part * scale for part in curve.band)
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(curve.x, mid, color=colour, linewidth=1, label=series_words(series.label))
    for place, (rank, line) in enumerate(curve.lines.items()):
        label = _short(series.label) if place == 0 else None
        shade = colour if len(curve.lines) == 1 or number else SERIES[rank % len(SERIES)]
        axes.plot(curve.x, line * scale, color=shade, linewidth=1, label=label)
    for bad in curve.nonfinite.values():
        axes.plot(bad, np.zeros(len(bad)), "x", color=BAD, transform=axes.get_xaxis_transform(), clip_on=False)


def _short(label: str) -> str:
    """The two learning rates are in a chart that says what they are."""
    rates = {"learning rate, scheduled": later("scheduled"), "learning rate, effective": later("effective")}
    return text(rates[label]) if label in rates else series_words(label)


def middle(curve: Curve) -> Any:
    """One value per point for all ranks: their median."""
    if curve.band is not None:
        return curve.band[1]
    lines = [line for line in curve.lines.values() if not np.isnan(line).all()]
    if not lines:
        return np.full(len(curve.x), np.nan)
    values = np.stack(lines)
    known = ~np.isnan(values).all(axis=0)
    result = np.full(values.shape[1], np.nan)
    result[known] = np.nanmedian(values[:, known], axis=0)
    return result
