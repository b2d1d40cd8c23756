"""Files of safetensors: eight bytes of length, a JSON header, the data. Only the header is read, and checked against the file's size."""

from __future__ import annotations

import json
import os
from typing import Any, BinaryIO

from ..errors import BadCheckpoint
from ..language import later, text
from .contents import Loaded
from .values import TensorEntry

__all__ = ["read_safetensors"]

LONGEST_HEADER = 100_000_000
"""The format's own limit."""

DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu", "C64": "complex64",
}  # fmt: skip


def read_safetensors(stream: BinaryIO, name: str) -> Loaded:
    """The header of a safetensors file. Raises `BadCheckpoint` where it is none, or where offsets, shapes and size do not fit together."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    if size < 8 or not 2 <= length <= min(LONGEST_HEADER, size - 8):
        raise BadCheckpoint(
            text(
                "{name} is no safetensors file, or it is cut off: its header would be {length:,} bytes long",
                name=name,
                length=length,
            )
        )
    try:
        header = json.loads(stream.read(length).decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as e:
        raise BadCheckpoint(text("the header of {name} is damaged: {why}", name=name, why=str(e)[:200])) from e
    if not isinstance(header, dict):
        raise BadCheckpoint(text("the header of {name} is no table of tensors", name=name))
    about = header.pop("__metadata__", {})
    entries: dict[str, TensorEntry] = {}
    spans: list[tuple[int, int]] = []
    for key, entry in header.items():
        entries[key], span = _entry(entry, key, name)
        spans.append(span)
    _check_spans(spans, size - 8 - length, name)
    loaded = Loaded("safetensors", entries)
    if isinstance(about, dict) and about:
        loaded.notes += [f"{str(k)[:60]}: {str(v)[:200]}" for k, v in list(about.items())[:20] if k != "format"]
    return loaded


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _entry(entry: Any, key: str, name: str) -> tuple[TensorEntry, tuple[int, int]]:
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not all(type(n) is int and 0 <= n < 2**63 for n in (*shape, begin, end)) or len(shape) > 64 or begin > end:
            raise ValueError("sizes and offsets are whole numbers")
        made = TensorEntry(tuple(shape), DTYPES.get(dtype, str(dtype)[:40]))
    except (TypeError, ValueError, KeyError) as e:
        raise BadCheckpoint(
            text(
                "the header of {name} is damaged at {key!r}: {kind}: {why}",
                name=name,
                key=key[:100],
                kind=type(e).__name__,
                why=str(e)[:100],
            )
        ) from e
    if dtype in DTYPES and made.bytes != end - begin:
        raise BadCheckpoint(
            text(
                "{key!r} in {name} needs {needed:,} bytes and has {there:,}",
                key=key[:100],
                name=name,
                needed=made.bytes,
                there=end - begin,
            )
        )
    return made, (begin, end)


def _check_spans(spans: list[tuple[int, int]], size: int, name: str) -> None:
    """The data is exactly what the header says: no gap, no overlap, nothing behind, nothing cut off."""
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise BadCheckpoint(text("the offsets in {name} have a gap or overlap at byte {at:,}", name=name, at=at))
        at = end
    if at != size:
        message = (
            later("{name} is cut off: {declared:,} bytes of data are declared, {there:,} are there")
            if at > size
            else later(
                "{name} is longer than its header says: {declared:,} bytes of data are declared, {there:,} are there"
            )
        )
        raise BadCheckpoint(text(message, name=name, declared=at, there=size))
