"""Show the memory of every rank: resident and CUDA, who holds what, its curve, and whether it keeps growing."""

from __future__ import annotations

from typing import Any

from .. import evidence
from ..diagnose.soundness import memory as growth
from ..model import Child, Memory, RankMemory
from ..outside import procfs
from .base import DEADLINE_S, InReport, Ranks, Whom

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("torchrun:4711", "of all ranks of this launcher"),
)
WHOM = Whom.TRAINERS
IN_REPORT = InReport("Memory", 50)
READ_S, READ_SHARE = 4.0, 0.5
"""How long an agent may look for who holds what, at most and as a share of the whole time."""


def ask(job: Ranks, *, timeout: float = DEADLINE_S) -> Memory:
    """Memory of every rank: resident set, CUDA allocator, who holds what, the curve over the recorded steps and its verdict."""
    others = {link.pid: link.others for link in job.open_links()}

    def build(rank: int, pid: int, answer: Any) -> tuple[RankMemory, list[growth.Curve]]:
        _, rss, cuda = zip(*answer["curve"], strict=True) if answer["curve"] else ((), (), ())
        about = (answer["first_step"], answer["own_step"], answer["mapped_growth_bytes"])
        curves = growth.curves(rank, pid, growth.Recorded(rss, cuda, *about))
        below = [Child(c.pid, c.comm, procfs.rss_bytes(c.pid)) for c in procfs.descendants(pid, apart=others[pid])]
        return evidence.memory(rank, pid, answer, below, curves[0].growth.words), curves

    read_s = min(READ_S, timeout * READ_SHARE)
    judged, silent = job.ask_agents("memory", {"deadline_s": read_s}, timeout, build)
    curves = [curve for _, of_rank in judged for curve in of_rank]
    return Memory(tuple(rank for rank, _ in judged), silent, tuple(growth.findings(curves)))
