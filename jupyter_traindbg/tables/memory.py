"""A device that a rank has memory on (`cpu`, `cuda:0`), and who holds what of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..language import later, text
from ..model import Memory, NotAvailable, RankMemory
from .base import Column, Question, Row, fields

COST = later("a microsecond a tensor; gradients are counted at the next step, which is waited for")
ASKS = (Question("memory", {"look": False}, waits=True),)
_ALLOCATOR = {
    "cuda_allocated_bytes": "allocated_bytes.all.current",
    "cuda_allocated_peak_bytes": "allocated_bytes.all.peak",
    "cuda_reserved_bytes": "reserved_bytes.all.current",
    "cuda_reserved_peak_bytes": "reserved_bytes.all.peak",
    "cuda_inactive_bytes": "inactive_split_bytes.all.current",
    "cuda_retries": "num_alloc_retries",
    "cuda_ooms": "num_ooms",
}
COLUMNS = (
    Column("rank", int, later("the rank")),
    Column("pid", int, later("its process")),
    Column("device", str, later("`cpu`, `cuda:0`")),
    Column("parameters_bytes", int, later("held by parameters")),
    Column("gradients_bytes", int, later("held by gradients")),
    Column("optimizer_bytes", int, later("held by the optimizers' state")),
    Column("buffers_bytes", int, later("held by the models' buffers")),
    Column("earlier_bytes", int, later("held by optimizers that an earlier run in the process has left")),
    Column("rest_bytes", int, later("all else in use there: activations, caches, what Python holds")),
    Column("in_use_bytes", int, later("in use there by this process")),
    Column("capacity_bytes", int, later("what there is at most")),
    Column("cuda_allocated_bytes", int, later("torch's CUDA allocator: given away now")),
    Column("cuda_allocated_peak_bytes", int, later("at most so far")),
    Column("cuda_reserved_bytes", int, later("reserved now; what is more than allocated is cached or fragmented")),
    Column("cuda_reserved_peak_bytes", int, later("at most so far")),
    Column("cuda_inactive_bytes", int, later("of what is reserved, in pieces that are split off and not in use")),
    Column("cuda_retries", int, later("how often it had to give its cache back to get memory")),
    Column("cuda_ooms", int, later("how often there was none left")),
    Column("rss_bytes", int, later("resident memory of the process, on the CPU")),
    Column("peak_rss_bytes", int, later("at most so far")),
    Column("growth", str, later("how it develops over the recorded steps, in words")),
)
_NOT_CUDA = later("it is no CUDA device")


def rows(memory: Memory) -> Iterator[Row]:
    for rank in memory.ranks:
        of_rank = {
            **fields(rank, "rank", "pid", "rss_bytes", "peak_rss_bytes"),
            "growth": rank.growth or None,
            "not_available": rank.note or None,
        }
        for share in rank.shares:
            yield of_rank | vars(share) | _allocator(rank, share.device)


def _allocator(rank: RankMemory, device: str) -> dict[str, Any]:
    figures: Mapping[str, Any] = {} if isinstance(rank.cuda, NotAvailable) else rank.cuda
    of_device = figures.get(device)
    if not isinstance(of_device, Mapping):
        why = rank.cuda if isinstance(rank.cuda, NotAvailable) else NotAvailable(text(_NOT_CUDA))
        return dict.fromkeys(_ALLOCATOR, why)
    return {column: of_device.get(name) for column, name in _ALLOCATOR.items()}
