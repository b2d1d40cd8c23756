"""The scale of an axis of values: logarithmic where they are far apart, with ticks that are read as people write numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..render.units import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..live.history import Floats

__all__ = ["scaled"]

WIDE = 1.0
"""So many powers of ten apart, values are shown by their logarithms."""
FEW_DECADES = 3.0
"""Of a scale of fewer, ticks between powers of ten have their numbers, too."""
EXTREME = 1e300
"""Ticks further out are no numbers any more."""
BESIDE = 0.06
"""Of the extent of the values, the room above and below them."""


def scaled(axes: Axes, values: Floats) -> bool:
    """Scale y for `values`: by logarithm where they are all positive and far apart. Returns whether."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    decades = math.log10(high) - math.log10(low) if low > 0 else 0.0
    if decades < WIDE:
        room = max((high - low) * BESIDE, abs(high) * 0.02, 1e-12) if known.size else 0.0
        axes.set_ylim(low - room, high + room)
        return False
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda y, _: number(y))
    axes.yaxis.set_minor_formatter(_one_two_five if decades < FEW_DECADES else "")
    room = 10 ** (BESIDE * decades)
    axes.set_ylim(max(low / room, 1 / EXTREME), min(high * room, EXTREME))
    return True


def _one_two_five(y: float, _: object) -> str:
    """The name of a minor tick of a logarithmic scale: of 2 and 5 times a power of ten."""
    return number(y) if f"{y:.0e}"[0] in "25" else ""
