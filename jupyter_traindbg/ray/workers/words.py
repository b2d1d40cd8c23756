"""Times and resources in words, as the rows say them."""

from __future__ import annotations

from collections.abc import Mapping

from ...model import Maybe, NotAvailable
from ...words.durations import age

__all__ = ["amount", "called", "for_time", "known", "resources"]

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"))
_BYTES = ("memory", "object_store_memory")


def called(methods: str) -> str:
    """``run()``; of several, ``run(), work()``."""
    return ", ".join(f"{name}()" for name in methods.split(", "))


def known(seconds: Maybe[float]) -> float:
    """For sorting: 0 where it is not known."""
    return 0.0 if isinstance(seconds, NotAvailable) else seconds


def for_time(seconds: Maybe[float]) -> str:
    """`` for 26 s``; nothing where it is not known."""
    return "" if isinstance(seconds, NotAvailable) else f" for {age(seconds)}"


def resources(required: Mapping[str, float]) -> str:
    """``4 CPU, 1 GPU, 20 GiB of memory``; ``nothing`` where nothing is required."""
    return ", ".join(amount(name, n) for name, n in sorted(required.items())) or "nothing"


def amount(name: str, n: float) -> str:
    if name in _BYTES:
        for unit, word in _UNITS:
            if n >= unit:
                return f"{n / unit:.3g} {word} of {name.replace('_', ' ')}"
        return f"{n:.0f} bytes of {name.replace('_', ' ')}"
    return f"{n:g} {name}"
