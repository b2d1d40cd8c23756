"""A batch that a rank has taken from a DataLoader while it was watched; a DataLoader that gave none is one row, without a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..language import later, text
from ..model import NotAvailable
from .base import Column, Probe, Row, Told

COST = later("waits for eight batches, at most the whole time; 20 µs a batch on the training thread")
ASKS = (Probe("batch_shapes", waits=True),)
COLUMNS = (
    Column("rank", int, later("the rank")),
    Column("pid", int, later("its process")),
    Column("loader", int, later("which DataLoader of the rank, from 0")),
    Column("step", int, later("the step that the batch was taken for, counted since the attach")),
    Column("batch", int, later("which batch of the pass it is, from 1")),
    Column("samples", int, later("the first size of its first tensor")),
    Column("elements", int, later("how many numbers are in it")),
    Column("bytes", int, later("how much memory these take")),
    Column("tensors", list[str], later("its tensors: name or place, shape, type")),
    Column("loader_class", str, later("what the DataLoader is")),
    Column("dataset", str, later("the class of its dataset")),
    Column("sampler", str, later("the class of its sampler")),
    Column("batch_size", int, later("as it is set")),
    Column("num_workers", int, later("its worker processes; 0: the training process loads")),
    Column("prefetch_factor", int, later("batches that each worker makes ahead")),
    Column("pin_memory", bool, later("whether batches are put into pinned memory")),
    Column("persistent_workers", bool, later("whether its workers stay from one pass to the next")),
    Column("length", int, later("batches in one pass; NULL where it has no end that is known")),
)
_SETTINGS = ("dataset", "sampler", "batch_size", "num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
_OF_LOADER = (*_SETTINGS, "length")
_OF_BATCH = ("step", "batch", "samples", "elements", "bytes", "tensors")
_LENGTH = later("a DataLoader is asked for it when it gives a batch")


def rows(told: Told) -> Iterator[Row]:
    for rank, pid, answer in told.answers:
        loaders = answer["loaders"]
        for batch in answer["batches"]:
            yield {
                "rank": rank,
                "pid": pid,
                **_loader(batch["loader"], loaders),
                **{name: batch[name] for name in _OF_BATCH},
                "tensors": [f"{name} {shape} {dtype}".strip() for name, shape, dtype in batch["tensors"]],
            }
        gave = {batch["loader"] for batch in answer["batches"]}
        none = NotAvailable(answer["note"] or text("it gave none while it was watched"))
        for number in range(len(loaders)):
            if number not in gave:
                row = {"rank": rank, "pid": pid, **_loader(number, loaders), **dict.fromkeys(_OF_BATCH, none)}
                yield {**row, "length": NotAvailable(text(_LENGTH))}


def _loader(number: int, loaders: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    told = loaders[number]
    return {"loader": number, "loader_class": told["class"], **{name: told[name] for name in _OF_LOADER}}
