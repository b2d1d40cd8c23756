"""What is written in a figure, and which of it lies on something else that is."""

from __future__ import annotations

import itertools
from typing import Any

from jupyter_traindbg.pictures.canvas import drawing

__all__ = ["labelled", "overlaps", "right_edges", "written"]


def _texts(figure: Any) -> list[Any]:
    """All that are seen: tick labels outside the limits of their axis are not."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    with drawing():
        FigureCanvasAgg(figure).draw()
    hidden = {
        id(label)
        for axes in figure.axes
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim()))
        for tick in axis.get_major_ticks() + axis.get_minor_ticks()
        for label in (tick.label1, tick.label2)
        if not axes.axison or not min(limits) <= tick.get_loc() <= max(limits)
    }
    found = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in hidden]
    return [t for t in found if not any(t in (a.xaxis.label, a.yaxis.label) and not a.axison for a in figure.axes)]


def written(figure: Any) -> list[str]:
    return [text.get_text() for text in _texts(figure)]


def right_edges(figure: Any) -> dict[str, float]:
    """Where each text ends, in inches."""
    return {text.get_text(): float(text.get_window_extent().x1 / figure.dpi) for text in _texts(figure)}


def overlaps(figure: Any) -> list[tuple[str, str]]:
    """Pairs of texts of which one lies on the other, and texts that reach beyond the figure, beside an empty one."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in _texts(figure)]
    pairs = itertools.combinations(boxes, 2)
    over = [(a, b) for (a, one), (b, other) in pairs if one.shrunk(0.95, 0.8).overlaps(other.shrunk(0.95, 0.8))]
    width, height = figure.bbox.size
    beyond = [(a, "") for a, box in boxes if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1]
    return over + beyond


def labelled(figure: Any, label: str) -> list[tuple[float, float]]:
    """The points of all lines with this label."""
    lines = [line for axes in figure.axes for line in axes.lines if line.get_label() == label]
    return [(float(x), float(y)) for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]
