"""Scenes of collectives for the tests of rendering: a rank that is missing in a call, tensor and data parallel groups, nobody waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jupyter_traindbg.model import Collective, Collectives, Finding, Group, NotAvailable, RankCollectives, Subject

__all__ = ["collectives", "halted", "without_groups"]

NOBODY_WAITS = NotAvailable("no call is under way")
NOTHING_LATER = NotAvailable("nothing in the dumps is later than this call")


def collectives(ranks: int, late: int = 1) -> Collectives:
    """All ranks wait in all_reduce #57 of the default group, but one; each also has a tensor parallel group of two."""
    verdict = Finding(
        "collective_not_issued",
        "critical",
        f"rank {late} has not issued all_reduce #57",
        who=[Subject("rank", late)],
        where="/home/ada/data.py:12 load",
    )
    everybody = tuple(_rank(r, ranks, late=r == late) for r in range(ranks))
    return Collectives(everybody, (), (ranks,), ranks + 1, (verdict,), 0.021)


def _rank(rank: int, ranks: int, *, late: bool) -> RankCollectives:
    pair = rank // 2 * 2
    groups = (
        Group("0", "default_pg", "gloo", tuple(range(ranks)), 56 if late else 57, 56),
        Group(str(1 + rank // 2), "mesh_tp", "gloo", (pair, pair + 1), 12, 12),
    )
    done = [_call(n) for n in range(50, 57)]
    return RankCollectives(
        rank,
        1000 + rank,
        "agent",
        groups,
        tuple(done if late else [*done, _call(57, "issued")]),
        capacity_reached=rank == 0,
        waiting_s=NOBODY_WAITS if late else 32.0 + rank / 1000,
        note="the flight recorder was asked late" if rank == 1 else "",
        where="/home/ada/data.py:12 load" if late else "/home/ada/train.py:88 step",
    )


def _call(number: int, state: Literal["issued", "completed"] = "completed") -> Collective:
    at = "/home/ada/train.py:88 step"
    size = ((1000,),)
    return Collective("0", number, "all_reduce", size, size, ("Float",), state, issued_s=1e9 + number, at=at)


def halted(ranks: int = 16, odd: Sequence[int] = (9, 14)) -> Collectives:
    """Dumps of a job with tensor, data and pipeline parallel groups, whose GPUs 9 and 14 stopped in the middle of a call. They hold only
    what is not done.
    """
    verdict = Finding(
        "collective_unfinished",
        "critical",
        "ranks 9, 14 stopped in the middle of a call",
        who=[Subject("rank", r) for r in odd],
    )
    return Collectives(
        tuple(_dumped(r, ranks, halted=r in odd) for r in range(ranks)), (), (), ranks, (verdict,), 0.018
    )


def _dumped(rank: int, ranks: int, *, halted: bool) -> RankCollectives:
    everybody, pair, half = tuple(range(ranks)), rank // 2 * 2, ranks // 2
    tensor, data, pipeline = f"{10 + rank // 2}", f"{30 + rank % 2}", f"{40 + rank % half}"
    came = 87_748 if halted else 87_760
    groups = (
        Group("0", "default_pg", "nccl", everybody, 194, 194),
        Group("1", "MODEL_PARALLEL_GROUP", "nccl", everybody, 145, 145),
        Group(tensor, "TENSOR_MODEL_PARALLEL_GROUP", "nccl", (pair, pair + 1), 87_771, came),
        Group(data, "DATA_PARALLEL_GROUP", "nccl", everybody[rank % 2 :: 2], 14_961, 14_958 if halted else 14_959),
        Group(pipeline, "PIPELINE_MODEL_PARALLEL_GROUP", "nccl", (rank % half, rank % half + half), 26, 26),
    )
    calls = [Collective(tensor, n, "_all_gather_base", dtypes=("BFloat16",)) for n in range(came + 1, 87_772)]
    return RankCollectives(
        rank,
        0,
        f"_dump_{rank}",
        groups,
        tuple(calls),
        capacity_reached=True,
        pending_only=True,
        waiting_s=NOTHING_LATER,
    )


def without_groups() -> Collectives:
    """A process that does not use torch.distributed."""
    return Collectives((RankCollectives(0, 1000, "agent", (), (), note="torch.distributed is not in use"),))
