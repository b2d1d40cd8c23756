"""How the numbers of one column are written: in one unit and with the same decimals, so that they can be compared by eye (`Notation`).

A number that is not zero never reads as zero: what is too small for its column is ``<0.1 GiB``. Zero is ``0``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .blocks import Notation
from .units import percent

__all__ = [
    "ages",
    "counts",
    "durations",
    "printouts",
    "settings",
    "shares",
    "sizes",
    "sizes_per_s",
    "unit_of",
    "values",
]

_BYTES = tuple((1024.0**n, unit) for n, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB")))
_SECONDS = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_PARTS = ((60.0, "min", 1.0, "s"), (3600.0, "h", 60.0, "min"), (86400.0, "d", 3600.0, "h"))
_MANY = ((1e6, "M"), (1e9, "G"), (1e12, "T"))

_DIGITS, _DECIMALS, _LONGEST = 3, 3, 5
"""As many digits of the smallest number are shown, in as many decimals at most; of the largest no more, but to see the smallest at all."""
_READABLE = 1e5
"""What is larger takes a larger unit."""
_LONG_S = 600.0
"""From here on a time span is told in two parts, ``12 min 05 s``."""


def unit_of(steps: Sequence[tuple[float, str]], decimals: int = _DECIMALS) -> Notation:
    """The notation of a quantity whose units are `steps`, smallest first: how much one is, and its name.

    The unit is that of the largest number, a smaller one where else the smallest would not be seen and the largest can still be read.
    """

    def notation(numbers: Sequence[float]) -> Callable[[float], str]:
        magnitudes = sorted(abs(v) for v in numbers if v) or [0.0]
        scale, unit = _unit(steps, magnitudes, seen=0.5 * 10**-decimals)
        places = _places([v / scale for v in magnitudes], decimals)
        return lambda value: _fixed(value, scale, places, unit)

    return notation


def _unit(steps: Sequence[tuple[float, str]], magnitudes: Sequence[float], seen: float) -> tuple[float, str]:
    fits = [step for step in steps if magnitudes[-1] >= 0.9995 * step[0]] or [steps[0]]
    readable = [step for step in reversed(fits) if magnitudes[-1] < _READABLE * step[0]] or [fits[-1]]
    return next((step for step in readable if magnitudes[0] >= seen * step[0]), readable[0])


def _places(magnitudes: Sequence[float], most: int) -> int:
    """Decimals for three digits of the smallest number that is seen, less the zeros in which all would end."""
    seen = [v for v in magnitudes if v >= 0.5 * 10**-most]
    if not seen:
        return most
    least, whole = (math.floor(math.log10(v)) for v in (min(seen), max(seen)))
    places = min(most, max(0, -least, min(_DIGITS - 1 - least, _LONGEST - 1 - whole)))
    return max(len(f"{v:.{places}f}".rstrip("0").partition(".")[2]) for v in seen)


def _fixed(value: float, scale: float, places: int, unit: str) -> str:
    if not value:
        return "0"
    text = f"{value / scale:.{places}f}"
    if not float(text):
        text = f"{'>-' if value < 0 else '<'}{10**-places:.{places}f}"
    return f"{text} {unit}".rstrip()


sizes: Notation = unit_of(_BYTES)
"""Bytes: ``2.31 GiB``, ``0.44 GiB``; partner of `units.size`."""
sizes_per_s: Notation = unit_of([(scale, f"{unit}/s") for scale, unit in _BYTES])
_short_spans, _whole_seconds = unit_of(_SECONDS), unit_of(_SECONDS[-1:], decimals=0)


def durations(numbers: Sequence[float]) -> Callable[[float], str]:
    """Time spans: ``1.250 s``, ``0.012 s``; long ones ``3 h 05 min``, ``45 min``; partner of `words.durations.duration`."""
    return _in_parts(numbers) if max(map(abs, numbers)) >= _LONG_S else _short_spans(numbers)


def ages(numbers: Sequence[float]) -> Callable[[float], str]:
    """Time spans in whole seconds or coarser; partner of `words.durations.age`."""
    return _in_parts(numbers) if max(map(abs, numbers)) >= _LONG_S else _whole_seconds(numbers)


def _in_parts(numbers: Sequence[float]) -> Callable[[float], str]:
    """In the coarsest parts in which the smallest has two digits, else in the finest in which the largest can be read."""
    magnitudes = sorted(abs(v) for v in numbers if v)
    fits = [part for part in reversed(_PARTS) if magnitudes[-1] >= part[0]]
    readable = [part for part in fits if magnitudes[-1] < 1000 * part[0]] or fits[:1]
    length, unit, below, below_unit = next((p for p in readable if magnitudes[0] >= 10 * p[2]), readable[-1])
    each = round(length / below)

    def write(value: float) -> str:
        whole, minus = round(abs(value) / below), "-" * (value < 0)
        if not whole:
            return f"{'>' if value < 0 else '<'}{minus}1 {below_unit}" if value else "0"
        if whole < each:
            return f"{minus}{whole} {below_unit}"
        return f"{minus}{whole // each} {unit} {whole % each:02} {below_unit}"

    return write


def values(numbers: Sequence[float]) -> Callable[[float], str]:
    """Losses and norms, the smallest in four digits (three, where it is below 0.01): ``0.1300``, ``12.3000``; partner of `units.steady`."""
    power = math.floor(math.log10(min(abs(v) for v in numbers if v)))
    return _measured(numbers, max(0, min(3 - power, max(4, 2 - power))))


def printouts(numbers: Sequence[float]) -> Callable[[float], str]:
    """Losses and norms with the four decimals that trainings print; partner of `units.printed`."""
    return _measured(numbers, 4)


def _measured(numbers: Sequence[float], places: int) -> Callable[[float], str]:
    """Fixed, all in scientific notation where one would not fit."""
    if all(0.001 <= abs(v) < 9999.5 for v in numbers if v):
        return lambda value: f"{value:.{places}f}" if value else "0"
    return _scientific(numbers, 4)


def settings(numbers: Sequence[float]) -> Callable[[float], str]:
    """Learning rates and the like: ``1e-4``, ``3e-4``; in as many digits as tell those that differ apart; partner of `units.number`."""
    fixed = all(0.01 <= abs(v) < 10**5 for v in numbers if v)
    different = len({f"{v:.7e}" for v in numbers})
    for digits in range(4, 9):
        write = _short(numbers, digits) if fixed else _scientific(numbers, digits)
        if len({write(v) for v in numbers}) >= different:
            break
    return write


def _short(numbers: Sequence[float], digits: int) -> Callable[[float], str]:
    """Fixed, with the decimals of the one that needs most for its `digits` digits."""
    places = max(len(f"{v:.{digits}g}".partition(".")[2]) if abs(v) < 10**digits else 0 for v in numbers)
    return lambda value: f"{value:.{places}f}" if value else "0"


def _scientific(numbers: Sequence[float], digits: int) -> Callable[[float], str]:
    """With one number of digits in all mantissas, `digits` at most."""
    mantissas = [f"{v:.{digits - 1}e}".partition("e")[0] for v in numbers if v]
    places = max(len(mantissa.rstrip("0").partition(".")[2]) for mantissa in mantissas)

    def write(value: float) -> str:
        mantissa, _, exponent = f"{value:.{places}e}".partition("e")
        return f"{mantissa}e{int(exponent):+}" if value else "0"

    return write


def shares(numbers: Sequence[float]) -> Callable[[float], str]:
    """Shares in [0, 1], in whole percent; partner of `units.percent`."""
    return percent


def counts(numbers: Sequence[float]) -> Callable[[float], str]:
    """How many: written out where they are few or far apart; partner of `units.count`."""
    magnitudes = sorted(abs(v) for v in numbers if v)
    written_out = magnitudes[-1] < _MANY[0][0] or magnitudes[-1] > 2000 * magnitudes[0]
    return "{:,}".format if written_out else unit_of(_MANY)(numbers)
