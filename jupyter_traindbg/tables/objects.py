"""The objects of one type that are alive in a rank, of those that its garbage collector tracks; tensors by shape, type and device."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from .base import Column, Probe, Row, Told

COST = later(
    "waits for the next step; then once, on the training thread, 0.15 s for a million objects and 5 µs a tensor"
)
ASKS = (Probe("live_objects", waits=True),)
COLUMNS = (
    Column("rank", int, later("the rank")),
    Column("pid", int, later("its process")),
    Column(
        "type_name",
        str,
        later("the type, with its module; `(others)`: the rarest ones, or the smallest tensors, together"),
    ),
    Column("is_tensor", bool, later("whether they are tensors")),
    Column("objects", int, later("how many there are")),
    Column("bytes", int, later("of tensors: what their values take, those at one address counted once")),
    Column("shape", list[int], later("of tensors: their shape; of a sharded one this rank's part")),
    Column("dtype", str, later("of tensors: the type of their values")),
    Column("device", str, later("of tensors: where they are")),
    Column("layout", str, later("of tensors: `strided`, `sparse_coo` ...")),
    Column("requires_grad", bool, later("of tensors: whether a gradient is asked for")),
    Column("counted_when", str, later("`step`: after one; `idle`: in a process that stands still")),
)


def rows(told: Told) -> Iterator[Row]:
    for rank, pid, answer in told.answers:
        of_rank = {"rank": rank, "pid": pid, "counted_when": answer["where"]}
        for name, count in answer["types"]:
            yield of_rank | {"type_name": name, "is_tensor": False, "objects": count}
        for tensors in answer["tensors"]:
            yield (
                of_rank
                | {key: tensors[key] for key in ("bytes", "shape", "dtype", "device", "layout", "requires_grad")}
                | {"type_name": tensors["type"], "is_tensor": True, "objects": tensors["count"]}
            )
