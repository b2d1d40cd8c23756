"""Show the optimizer steps recorded since the attach: loss, lr, norm, memory, where the time went."""

from __future__ import annotations

from .. import evidence
from ..errors import TargetGone
from ..model import Steps
from .base import DEADLINE_S, InReport, Ranks, Whom

WHOM = Whom.AGENTS
IN_REPORT = InReport("Steps", 40, {"last": 500})


def ask(job: Ranks, *, since: int = 0, last: int = 0, this_run: bool = False, timeout: float = DEADLINE_S) -> Steps:
    """The optimizer steps recorded since the attach: those after number `since`, at most the `last` ones (0: all, up to 8192).

    With `this_run` none of an earlier run in the same process: of a cell that was run again, say. Of a rank that has ended those that
    were known, where `keep_steps` was called or it was watched; `RankSteps.ended` says how it ended.
    """
    params = {"since": since, "last": last, "this_run": this_run, "deadline_s": timeout * 0.9}
    try:
        good, silent = job.ask_agents("steps", params, timeout, evidence.steps)
    except TargetGone:
        left = job.left_steps(since, last)
        if not any(rank.steps for rank in left):
            raise
        return Steps(tuple(left))
    job.steps_were_shown()
    left = job.left_steps(since, last) if silent else []
    lost = {rank.rank for rank in left} & {one.rank for one in silent}
    ranks = sorted([*good, *(rank for rank in left if rank.rank in lost)], key=lambda rank: (rank.rank, rank.pid))
    return Steps(tuple(ranks), tuple(one for one in silent if one.rank not in lost))
