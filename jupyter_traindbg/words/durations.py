"""How long something took, or has been going on. A result is never longer than it needs to be, and never fails on NaN or infinity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from ..language import pgettext, text

__all__ = ["age", "duration", "three_digits", "time_words"]

_LENGTHS = ((86400, 3600), (3600, 60), (60, 1))
_UNITS = ("d", "h", "min", "s")


def duration(seconds: float) -> str:
    """A measured time span of any length: ``850 µs``, ``12.3 ms``, ``1.25 s``, ``2 min 5 s``, ``3 h 12 min``, ``2 d 3 h``."""
    if not math.isfinite(seconds):
        return age(seconds)
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 59.95:
        for scale, unit in ((1e6, "µs"), (1e3, "ms"), (1.0, "s")):
            if seconds * scale < 999.5:
                return f"{three_digits(seconds * scale)} {unit}" if seconds else "0 s"
    return age(seconds)


def age(seconds: float) -> str:
    """How long something has been going on, in whole seconds or coarser: ``26 s``, ``3 min 5 s``, ``2 h 10 min``, ``3 d 4 h``."""
    return _in_two(seconds, _UNITS)


def time_words(seconds: float) -> str:
    """As a sentence has either, in the reader's language: ``40 ms``, ``0.8 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    if seconds < 0.0995:
        return text("{seconds:.0f} ms", seconds=seconds * 1000)
    if seconds < 9.95:
        return text("{seconds:.1f} s", seconds=seconds)
    units = [pgettext("unit", "d"), pgettext("unit", "h"), pgettext("unit", "min"), pgettext("unit", "s")]
    return _in_two(seconds, units)


def three_digits(value: float) -> str:
    """Three significant digits, no trailing zeros, never scientific."""
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    written = f"{value:.3g}"
    return written if "e" not in written else f"{value:.6f}".rstrip("0").rstrip(".")


def _in_two(seconds: float, units: Sequence[str]) -> str:
    """In the coarsest unit of which there is one, and the next."""
    if not math.isfinite(seconds):
        return "NaN" if math.isnan(seconds) else "Inf" if seconds > 0 else "-Inf"
    whole = round(max(0.0, seconds))
    for (length, below), (unit, below_unit) in zip(_LENGTHS, pairwise(units), strict=True):
        if whole >= length:
            rest = whole % length // below
            return f"{whole // length} {unit}" + (f" {rest} {below_unit}" if rest else "")
    return f"{whole} {units[-1]}"
