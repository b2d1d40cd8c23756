"""A rank that waits for its own GPU, which does not finish: a kernel that never ends, or a GPU in trouble."""

from __future__ import annotations

from ...language import text
from ...model import Finding, rank_subjects
from ...words.durations import time_words
from .case import Case, Hit, View
from .words import place, short_place

EXPLAINS = {"gpu_wait": ("unequal_steps", "collective_not_issued")}


def rule(case: Case) -> list[Hit]:
    """Only by the job's own history: a GPU may have long work, and without one nobody knows how long is too long."""
    progress = case.progress
    if not progress.overdue or progress.pause_s is None or progress.longest_s is None:
        return []
    return [
        _hit(case, v, progress.pause_s, progress.longest_s)
        for v in case.roles("moving", "still")
        if v.now.kind == "gpu"
    ]


def _hit(case: Case, view: View, pause_s: float, longest_s: float) -> Hit:
    at, since = short_place(view.now.frame), time_words(pause_s)
    finding = Finding(
        "gpu_wait",
        "critical",
        text(
            "Rank {rank} waits at {at} for its GPU, which has not finished what it was given for {since}",
            rank=view.rank,
            at=at,
            since=since,
        ),
        rank_subjects([view.rank]),
        place(view.now.frame),
        [
            text(
                "rank {rank} stands at {at} at every look, and its GPU had work left each time",
                rank=view.rank,
                at=case.at(view.now),
            ),
            text(
                "nothing new for {since}; before, this job never paused for more than {longest_s}",
                since=since,
                longest_s=time_words(longest_s),
            ),
            *case.others_wait([view.rank]),
        ],
        text(
            "A kernel that does not end: a loop without end in a kernel of one's own, a collective whose "
            "other ranks did not come and that no flight recorder knows, or a GPU in trouble."
        ),
        [
            text(
                "`traindbg gpu {pid}`: 100 % busy at little power is a kernel that spins; a lost GPU, or an Xid, "
                "the hardware.",
                pid=view.pid,
            ),
            text(
                "Save what there is: `traindbg checkpoint {pid} DIR` reads the weights beside that kernel.",
                pid=view.pid,
            ),
            text("Which kernel: run again with CUDA_LAUNCH_BLOCKING=1, and the hang is at the line that starts it."),
        ],
        confidence="high" if view.training is not None else "medium",
    )
    return Hit(finding, [view.rank])
