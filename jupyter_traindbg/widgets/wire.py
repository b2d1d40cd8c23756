"""What goes over the comm: small JSON and binary columns, so that a browser reads them without parsing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["LIMIT_HZ", "envelope", "pack", "size_bytes"]

LIMIT_HZ = 4.0
"""More updates a second than this no view sends, whatever the feed's rate."""


def envelope(view: str, content: Mapping[str, Any], to: str | None) -> dict[str, Any]:
    """A message of `view` to the front end `to`, or to all."""
    return {"view": view, "to": to, "body": dict(content)}


def pack(columns: Sequence[Any], dtype: str) -> bytes:
    """`columns` one after the other: ``"<f8"`` for steps and times, ``"<f4"`` for values (seven digits, more than a pixel shows)."""
    if not columns:
        return b""
    with np.errstate(over="ignore"):  # what is too large for float32 is drawn as what it is there: infinite
        return np.concatenate([np.asarray(column, dtype=np.float64).astype(dtype) for column in columns]).tobytes()


def size_bytes(message: Mapping[str, Any], buffers: Sequence[bytes]) -> int:
    """About what a message weighs on the websocket, without Jupyter's own header (some 500 bytes)."""
    return len(json.dumps(message).encode()) + sum(map(len, buffers))
