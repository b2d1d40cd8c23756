"""Bytes as people read them."""

from __future__ import annotations

import math

from .durations import three_digits

__all__ = ["size"]

_STEPS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(bytes_: float) -> str:
    """Bytes in binary units, three digits: ``1.5 GiB``."""
    if not math.isfinite(bytes_):
        return "NaN" if math.isnan(bytes_) else "Inf" if bytes_ > 0 else "-Inf"
    power, value = 0, float(bytes_)
    while abs(value) >= 1023.5 and power < len(_STEPS) - 1:
        value /= 1024
        power += 1
    return f"{value:.0f} B" if power == 0 else f"{three_digits(value)} {_STEPS[power]}"
