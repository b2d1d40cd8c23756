"""Scenes of collectives for the tests of rendering: a rank that is missing in a call, tensor and data parallel groups, nobody waiting."""

from __future__ import annotations

from typing import Literal

from jupyter_traindbg.model import Collective, Collectives, Finding, Group, NotAvailable, RankCollectives, Subject

__all__ = ["collectives", "without_groups"]

NOBODY_WAITS = NotAvailable("no call is under way")


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


def without_groups() -> Collectives:
    """A process that does not use torch.distributed."""
    return Collectives((RankCollectives(0, 1000, "agent", (), (), note="torch.distributed is not in use"),))
