"""How ranks, groups and calls are called in a finding, in both languages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ...frames.whose import shortened
from ...language import text
from ...model import Collective
from .joined import Joined

__all__ = ["call_words", "capital", "group_words", "places", "ranks_words", "seconds", "sizes_words"]

MOST_PIECES, MOST_PLACES = 12, 3
_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32", "Short": "int16",
    "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128",
    "Float8_e4m3fn": "float8_e4m3fn", "Float8_e5m2": "float8_e5m2",
}  # fmt: skip
"""torch writes the names of c10::ScalarType; people know those of torch.dtype."""


def ranks_words(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0-2, 5``, ``ranks 3-59, every 8th``."""
    unique = sorted(set(ranks))
    stride = unique[1] - unique[0] if len(unique) > 3 else 1
    if stride > 1 and unique == list(range(unique[0], unique[-1] + 1, stride)):
        return text(
            f"ranks {unique[0]}-{unique[-1]}, every {stride}{_ordinal(stride)}",
            f"rank {unique[0]}-{unique[-1]}（每隔 {stride} 个）",
        )
    runs: list[list[int]] = []
    for rank in unique:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    pieces = [_piece(run) for run in runs]
    if len(pieces) > MOST_PIECES:
        pieces = [*pieces[:MOST_PIECES], "..."]
    listed = ", ".join(pieces)
    return text(f"rank{'s' * (len(unique) != 1)} {listed}", f"rank {listed}")


def _ordinal(n: int) -> str:
    return "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")


def _piece(run: Sequence[int]) -> str:
    if len(run) > 2:
        return f"{run[0]}-{run[-1]}"
    return ", ".join(map(str, run))


def group_words(group: Joined) -> str:
    """``the default group``, ``group mesh_tp (ranks 0-3)``."""
    if group.description == "default_pg":
        return text("the default group", "默认进程组")
    name = f"{group.description} ({group.name})" if group.description else group.name
    if group.guessed:
        return text(f"group {name}", f"进程组 {name}")
    return text(f"group {name} of {ranks_words(group.ranks)}", f"进程组 {name}（{ranks_words(group.ranks)}）")


def call_words(call: Collective) -> str:
    """``all_reduce #57``; ``send #3 to rank 1``."""
    if call.p2p and call.peer is not None:
        where = text("from" if call.op == "recv" else "to", "来自" if call.op == "recv" else "发往")
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
    return text(
        f"{len(sizes)} tensors, {elements} elements, {dtypes}", f"{len(sizes)} 个张量，{elements} 个元素，{dtypes}"
    )


def places(at: Iterable[str]) -> str:
    """`` at train.py:42 step, data.py:7 load`` after what somebody does there; empty where no place is known."""
    short = sorted({shortened(place) for place in at})
    more = ", ..." if len(short) > MOST_PLACES else ""
    return text(" at ", "，位于 ") + ", ".join(short[:MOST_PLACES]) + more if short else ""


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def seconds(value: float) -> str:
    """``0.4 s``, ``32 s``, ``12 min``, ``5 h``, ``3 days``."""
    if value < 10:
        return f"{value:.1f} s"
    for limit, scale, unit in ((600, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if value < limit:
            return f"{value / scale:.0f} {unit}"
    return text(f"{value / 86_400:.0f} days", f"{value / 86_400:.0f} 天")
