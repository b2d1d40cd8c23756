"""Numbers as logs print them: ``"4.78 GiB"``, ``"750.00 MiB"``, ``"1800056 milliseconds"``, ``"16,345,177"``.

What a captured group holds is told by the ending of its name: ``_bytes`` (``_gib``, ``_mib`` where the log leaves the unit out), ``_s``,
``_ms``, ``_count``; any other name is text, and a number as well if it reads as one. Prefixes are taken as the libraries mean them:
torch's GiB and vLLM's GB are both binary there; a bare ``kB`` is the kernel's, 1024 bytes. The difference (7 %) decides nothing here.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

__all__ = ["UNITS", "Quantity", "Value", "captured"]

_BINARY = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
UNITS: dict[str, tuple[float, str]] = {
    **{f"{p}{suffix}": (1024.0**n, "bytes") for p, n in _BINARY.items() if p for suffix in ("iB", "B")},
    "kB": (1024.0, "bytes"),
    "B": (1.0, "bytes"),
    "bytes": (1.0, "bytes"),
    "ms": (1e-3, "s"),
    "s": (1.0, "s"),
    "min": (60.0, "s"),
    "h": (3600.0, "s"),
    "%": (0.01, ""),
}
"""What may stand behind a number in a condition: factor and unit."""

_SPELLED = {
    "byte": (1.0, "bytes"),
    "milliseconds": (1e-3, "s"),
    "millisecond": (1e-3, "s"),
    "sec": (1.0, "s"),
    "secs": (1.0, "s"),
    "second": (1.0, "s"),
    "seconds": (1.0, "s"),
    "minute": (60.0, "s"),
    "minutes": (60.0, "s"),
    "hour": (3600.0, "s"),
    "hours": (3600.0, "s"),
    **{p: (1024.0**n, "bytes") for p, n in _BINARY.items() if p},
}
_BY_NAME = {key.lower(): value for key, value in {**_SPELLED, **UNITS}.items()}
_ENDINGS = {
    "_bytes": (1.0, "bytes"),
    "_gib": (1024.0**3, "bytes"),
    "_mib": (1024.0**2, "bytes"),
    "_s": (1.0, "s"),
    "_ms": (1e-3, "s"),
    "_count": (1.0, "count"),
}
_NUMBER = re.compile(
    r"\s*([-+]?(?:\d[\d,_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?))\s*([A-Za-z%]*)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Quantity:
    """A number in its base unit: bytes, s, count or none."""

    value: float
    unit: str = ""

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return str(self.value)
        if self.unit == "bytes":
            return _bytes_text(self.value)
        if self.unit == "s":
            return _seconds_text(self.value)
        return _plain(self.value)


Value = Quantity | str


def captured(name: str, text: str | float) -> Value:
    """What a group or a fact called `name` holds. ``captured("free_bytes", "1 GiB") == Quantity(1073741824.0, "bytes")``."""
    factor, unit = next((v for ending, v in _ENDINGS.items() if name.endswith(ending)), (1.0, ""))
    if not isinstance(text, str):
        return Quantity(float(text) * factor, unit)
    read = _NUMBER.fullmatch(text)
    if read is None:
        return text
    number, said = float(read[1].replace(",", "").replace("_", "")), read[2].lower()
    if not unit:  # a text that happens to be a number is compared as one, and shown as it was printed
        return Quantity(number) if not said else text
    if said in _BY_NAME and _BY_NAME[said][1] in (unit, ""):
        return Quantity(number * _BY_NAME[said][0], unit)
    return Quantity(number * factor, unit) if not said else text


def _bytes_text(value: float) -> str:
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        size = UNITS[unit][0]
        if abs(value) >= size:
            return f"{_plain(round(value / size, 2))} {unit}"
    return f"{_plain(value)} B"


def _seconds_text(value: float) -> str:
    if abs(value) >= 2 * 3600:
        return f"{_plain(round(value / 3600, 1))} h"
    if abs(value) >= 120:
        return f"{_plain(round(value / 60, 1))} min"
    return f"{_plain(round(value, 3 if abs(value) < 1 else 1))} s"


def _plain(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:  # neither nan nor inf is
        return str(int(value))
    return f"{value:.4g}"
