"""Numbers as people read them: GiB, 1e-4, 42 %. A result is never longer than it needs to be, and never fails on NaN or infinity."""

from __future__ import annotations

import math

from ..words.durations import three_digits
from ..words.sizes import size

__all__ = ["count", "number", "percent", "size", "steady"]


def number(value: float, digits: int = 3) -> str:
    """A learning rate or other setting, as short as it can be: ``0.0312``, ``1e-4``, ``3.2e+5``, ``NaN``, ``-Inf``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    if 0.01 <= abs(value) < 10**5:
        return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{'+' if int(exponent) > 0 else ''}{int(exponent)}"


def steady(value: float) -> str:
    """A measured loss or norm, always in four digits so that a column of them reads well: ``0.1300``, ``12.30``, ``3.2e-5``."""
    if math.isfinite(value) and 0.01 <= abs(value) < 9999.5:
        return f"{value:#.4g}".rstrip(".")
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 10**5 else number(value)


def printed(value: float) -> str:
    """A loss or norm with the four decimals that trainings print, to be compared with them: ``3.4012``, ``0.0312``, ``3.2e-5``."""
    return f"{value:.4f}" if math.isfinite(value) and 0.01 <= abs(value) < 9999.5 else steady(value)


def percent(share: float) -> str:
    """A share in [0, 1]: ``42 %``, ``<1 %``."""
    if not math.isfinite(share):
        return number(share)
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{share:.0%}".replace("%", " %")


def count(n: int) -> str:
    """How many: ``9,876``, ``124 M``."""
    for limit, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M")):
        if abs(n) >= limit:
            return f"{three_digits(n / limit)} {unit}"
    return f"{n:,}"
