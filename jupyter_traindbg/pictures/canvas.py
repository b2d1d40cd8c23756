"""A figure that is drawn when somebody wants to see it, as SVG and as PNG. It leaves pyplot, the notebook's settings and figures alone."""

from __future__ import annotations

import contextlib
import functools
import io
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import MissingPiece
from ..language import language, speaking, text
from ..render.clean import clean
from . import inks
from .svg import embedded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILE_DPI", "Canvas", "drawing", "lock", "new_figure"]

WIDTH_IN = 9.0
PNG_DPI, FILE_DPI = 110, 200
COLOURS_KEPT = 160
"""Of a PNG: a small file, since it is saved with the notebook."""
lock = threading.RLock()
"""Held while anything of ours is drawn: matplotlib's font cache knows no threads, and its settings are one for all."""

_SETTINGS = {
    "font.size": 9,
    "text.color": inks.INK,
    "axes.edgecolor": inks.LINE,
    "axes.labelcolor": inks.FAINT,
    "axes.titlecolor": inks.INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": False,
    "grid.color": inks.LINE,
    "grid.linewidth": 0.5,
    "xtick.color": inks.LINE,
    "ytick.color": inks.LINE,
    "xtick.labelcolor": inks.FAINT,
    "ytick.labelcolor": inks.FAINT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "figure.facecolor": inks.PAPER,
    "axes.facecolor": "none",
    "text.parse_math": False,
    "svg.fonttype": "path",  # text would be left over where a notebook that is not trusted is stripped of its SVG
    "svg.hashsalt": "traindbg",  # the same picture is the same text
}
_CHINESE = (
    "Noto Sans CJK SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Microsoft YaHei",
    "SimHei",
    "Heiti SC",
    "Noto Sans CJK JP",  # as which matplotlib before 3.11 knows all of Noto Sans CJK
    "Droid Sans Fallback",
    "Arial Unicode MS",
)
_SAMPLE = "\u6b65\u663e\u5361"
"""What a font has to have that is to draw Chinese."""


class Canvas:
    """Draws once, with `draw`, when it is first looked at."""

    def __init__(self, draw: Callable[[], Figure]) -> None:
        self._draw = draw

    @functools.cached_property
    def figure(self) -> Figure:
        with drawing():
            return _clean(self._draw())

    def svg(self, alt: str) -> str:
        """About 20 to 80 kB, in the colours of the page round it. It loads nothing, and holds no text but `alt`."""
        with drawing():
            written = io.StringIO()
            self.figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
        return embedded(inks.of_page(written.getvalue()), alt)

    def png(self) -> bytes:
        """About 20 kB, on white."""
        return self._png

    @functools.cached_property
    def _png(self) -> bytes:
        with drawing():
            written = io.BytesIO()
            self.figure.savefig(written, format="png", dpi=PNG_DPI)
        return _quantized(written)


def new_figure(height_in: float) -> Figure:
    """An empty figure as wide as all of ours. It belongs to no window; its parts find their places by themselves."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained")


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Drawing for a cell that asks for it, one thread at a time: under settings of ours, put back afterwards, and in English where there is
    no font for the reader's language. Raises `MissingPiece` without matplotlib.
    """
    try:
        import matplotlib.style
        import numpy as np
    except ImportError:
        raise MissingPiece(text("pictures need matplotlib"), "pip install matplotlib") from None
    with lock, contextlib.ExitStack() as settings, warnings.catch_warnings(), legible() as fonts:
        warnings.filterwarnings(
            "ignore", r"Glyph \d+ .* missing from", UserWarning
        )  # a browser has more fonts than we see
        own: dict[str, Any] = {**_SETTINGS, **({"font.sans-serif": fonts} if fonts else {})}
        settings.enter_context(matplotlib.style.context(["default", own]))
        settings.enter_context(np.errstate(over="ignore"))  # ticks beyond the greatest number there is are not drawn
        yield


@contextlib.contextmanager
def legible() -> Iterator[list[str]]:
    """The fonts that the reader's language takes, none for English; which is spoken within it, too, where no such font is installed."""
    fonts = _chinese_fonts() if language() == "zh" else ()
    with contextlib.nullcontext() if fonts or language() != "zh" else speaking("en"):
        yield [*fonts, "DejaVu Sans"] if fonts else []


@functools.cache
def _chinese_fonts() -> tuple[str, ...]:
    """The names of those that are installed and have what they promise; a millisecond each, once."""
    from matplotlib import font_manager

    files = {font.name: font.fname for font in font_manager.fontManager.ttflist if font.name in _CHINESE}
    return tuple(name for name in _CHINESE if name in files and _draws_chinese(files[name]))


def _draws_chinese(file: str) -> bool:
    """Whether the font in `file`, which may be gone meanwhile, has Chinese characters."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(file)
    except (OSError, RuntimeError):
        return False
    return all(font.get_char_index(ord(character)) for character in _SAMPLE)


def _quantized(written: io.BytesIO) -> bytes:
    """A PNG in few colours."""
    from PIL import Image

    pixels = Image.open(written).convert("RGB").quantize(COLOURS_KEPT, dither=Image.Dither.NONE)
    small = io.BytesIO()
    pixels.save(small, "PNG", optimize=True)
    return small.getvalue()


def _clean(figure: Figure) -> Figure:
    """`figure` with every name in it made harmless: no control characters, no halves of characters, which no font can draw."""
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    for written in figure.findobj(Text):
        written.set_text("\n".join(map(clean, written.get_text().split("\n"))))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, FuncFormatter):  # which names of ours become
                formatter.func = functools.partial(_cleanly, formatter.func)
    return figure


def _cleanly(label: Callable[[float, Any], str], at: float, place: Any = None) -> str:
    return clean(label(at, place))
