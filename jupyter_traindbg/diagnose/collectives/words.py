"""How groups and calls are called in a finding, in both languages."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...frames.whose import shortened
from ...language import text
from ...model import Collective
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .joined import Joined

__all__ = ["call_words", "capital", "group_words", "places", "since", "sizes_words"]

MOST_PLACES = 3
_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32", "Short": "int16",
    "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128",
    "Float8_e4m3fn": "float8_e4m3fn", "Float8_e5m2": "float8_e5m2",
}  # fmt: skip
"""torch writes the names of c10::ScalarType; people know those of torch.dtype."""


def group_words(group: Joined) -> str:
    """``the default group``, ``group mesh_tp (ranks 0-3)``."""
    if group.description == "default_pg":
        return text("the default group")
    name = f"{group.description} ({group.name})" if group.description else group.name
    if group.guessed:
        return text("group {name}", name=name)
    return text("group {name} of {ranks}", name=name, ranks=ranks_words(group.ranks))


def call_words(call: Collective) -> str:
    """``all_reduce #57``; ``send #3 to rank 1``."""
    if call.p2p and call.peer is not None:
        where = text("from") if call.op == "recv" else text("to")
        return f"{call.op} #{call.sequence} {where} rank {call.peer}"
    return f"{call.op} #{call.sequence}"


def sizes_words(call: Collective) -> str:
    """``[1000] float32``, ``2 tensors, 4096 elements, float32``; empty where nothing is passed (a barrier)."""
    sizes = call.input_sizes or call.output_sizes
    dtypes = ", ".join(dict.fromkeys(_DTYPES.get(d, d) for d in call.dtypes))
    if not sizes:
        return dtypes
    if len(sizes) == 1:
        shape = "[" + ", ".join(map(str, sizes[0])) + "]"
        return f"{shape} {dtypes}".strip()
    elements = sum(math.prod(size) for size in sizes)
    return text("{count} tensors, {elements} elements, {dtypes}", count=len(sizes), elements=elements, dtypes=dtypes)


def places(at: Iterable[str]) -> str:
    """`` at train.py:42 step, data.py:7 load`` after what somebody does there; empty where no place is known."""
    short = sorted({shortened(place) for place in at})
    more = ", ..." if len(short) > MOST_PLACES else ""
    return text(" at ") + ", ".join(short[:MOST_PLACES]) + more if short else ""


def since(waited_s: float | None) -> str:
    """`` for 32 s``; empty where it is not known."""
    return "" if waited_s is None else text(" for {waited_s}", waited_s=time_words(waited_s))


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]
