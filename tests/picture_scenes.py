"""Gradients and memory as results of jobs from tiny to large: for the tests of pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jupyter_traindbg.model import Grads, GradStat, Memory, MemoryShare, NotAvailable, RankGrads, RankMemory

GIB = 2**30
NONE = NotAvailable("no gradient: it is None now")
UNSCANNED = NotAvailable("its norm is finite; ask with detail to scan every element")


def stat(name: str, norm: float | None, *, nan: int = 0, inf: int = 0, requires_grad: bool = True) -> GradStat:
    return GradStat(
        name, (64, 64), "float32", NONE if norm is None else norm, UNSCANNED, UNSCANNED, nan, inf, requires_grad
    )


def grads(of_rank: Callable[[int], Sequence[GradStat]], ranks: int = 1, **more: Any) -> Grads:
    """`of_rank` gives the gradients of a rank."""
    told: dict[str, Any] = {"after_step": 12, "optimizer_step": 812, **more}
    made = []
    for rank in range(ranks):
        own = tuple(of_rank(rank))
        norms = [0.0 if isinstance(g.norm, NotAvailable) else g.norm for g in own]
        total = math.sqrt(sum(norm * norm for norm in norms))
        made.append(RankGrads(rank, 1000 + rank, "after optimizer step 812", True, total, own, **told))
    return Grads(tuple(made), same_step=True)


def transformer(layers: int) -> list[str]:
    parts = (
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
        "mlp.up_proj",
        "mlp.down_proj",
    )
    inner = [f"model.layers.{n}.{part}.weight" for n in range(layers) for part in parts]
    return ["model.embed_tokens.weight", *inner, "model.norm.weight", "lm_head.weight"]


def on_cuda(
    rank: int, gib: Sequence[float], *, device_gib: float = 79.6, unused_gib: float = 0.0, host_gib: int = 1007
) -> RankMemory:
    """`gib`: parameters, gradients, optimizer state, buffers, and the rest on its GPU; 3 GiB of the host's."""
    held = [int(one * GIB) for one in gib]
    name, in_use = f"cuda:{rank % 8}", sum(held)
    device = MemoryShare(name, *held[:4], in_use, held[4], capacity_bytes=int(device_gib * GIB))
    host = MemoryShare("cpu", 0, 0, 0, 4096, 3 * GIB, 3 * GIB - 4096, capacity_bytes=host_gib * GIB)
    figures = {"allocated_bytes.all.current": in_use, "reserved_bytes.all.current": in_use + int(unused_gib * GIB)}
    cuda: Mapping[str, Any] = {name: figures}
    return RankMemory(rank, 1000 + rank, 3 * GIB, 4 * GIB, (host, device), cuda, ())


def on_cpu(rank: int, gib: Sequence[float], *, machine_gib: float | None = 16.0) -> RankMemory:
    held = [int(one * GIB) for one in gib]
    capacity = NotAvailable("not told") if machine_gib is None else int(machine_gib * GIB)
    share = MemoryShare("cpu", *held[:4], sum(held), held[4], capacity_bytes=capacity)
    return RankMemory(rank, 1000 + rank, sum(held), sum(held), (share,), NotAvailable("no CUDA"), ())


def gpus(ranks: int) -> Memory:
    """A job whose rank 2 holds 71.2 GiB of 79.6, and the others somewhat less."""
    loads = [(7.5, 7.5, 45.2 if rank == 2 else 40.0 + rank % 5 / 2, 0.1, 10.9) for rank in range(ranks)]
    return Memory(tuple(on_cuda(rank, gib, unused_gib=4.1) for rank, gib in enumerate(loads)))
