"""What the probe ``compiling`` answers, as `Compilations`, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .frames.whose import frames_of
from .model import Compilation, Compilations
from .redact import redact

__all__ = ["compilations"]


def compilations(answer: Mapping[str, Any]) -> Compilations:
    now = answer["now"]
    return Compilations(None if now is None else _one(now), tuple(map(_one, answer["past"])))


def _one(told: Mapping[str, Any]) -> Compilation:
    return Compilation(
        frames_of([told["at"]])[0] if told["at"] else None,
        told["seconds"],
        told["number"],
        redact(told["reason"]),
        told.get("cached"),
        told.get("ago_s"),
        told.get("wraps", ""),
    )
