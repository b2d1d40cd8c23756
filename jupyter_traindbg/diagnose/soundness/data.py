"""Steps that wait for their data: how much of the time, where the data is made, and how many workers it would take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...frames.whose import user_frame
from ...language import later, text
from ...model import Finding, Frame, NotAvailable, Soundness, rank_subjects
from ...words.durations import duration
from ..hang.case import Case, Hit, View
from ..hang.words import place, short_place
from .seen import recent, seen, unseen

__all__ = ["CODES", "EXPLAINS", "TOPIC", "VERB", "rule", "words"]

TOPIC = later("data")
VERB = "slow"
CODES = frozenset({"data_wait"})
EXPLAINS = {"data_wait": ("host_wait",)}

SHARE, LEAST_S = 0.3, 0.005
"""The least share of the time, and the least time of a step, that are worth a word."""
LEAST_STEPS, MANY_STEPS = 2, 8
"""Of fewer than many steps each has to wait: one that begins an epoch may wait for its workers to start."""
LOADER = "torch/utils/data/"
WORKER = "DataLoader worker"


@dataclass(frozen=True)
class _Waits:
    """Means of the last steps, in seconds. ``at``: where the data is made, and ``workers`` how many make it."""

    view: View
    wait_s: float
    step_s: float
    workers: int
    at: Frame | None
    always: bool
    """Whether every step waited, where there were few."""

    @property
    def share(self) -> float:
        return self.wait_s / self.step_s

    @property
    def matters(self) -> bool:
        return self.share >= SHARE and self.wait_s >= LEAST_S and self.always


def rule(case: Case) -> list[Hit]:
    """The ranks that wait for data for much of their time."""
    found = [w for v, s in seen(case) if (w := _waits(v, s)) and w.matters]
    if not found:
        return []
    worst = max(found, key=lambda w: w.share)
    finding = Finding(
        "data_wait",
        "warning",
        text(
            "{share:.0%} of a step is waiting for data: {wait_s} of {step_s}",
            share=worst.share,
            wait_s=duration(worst.wait_s),
            step_s=duration(worst.step_s),
        ),
        rank_subjects(w.view.rank for w in found),
        place(worst.at),
        [_evidence(w) for w in found[:8]],
        _cause(worst),
        _next_steps(case, worst),
    )
    return [Hit(finding, [w.view.rank for w in found])]


def words(case: Case) -> str | NotAvailable:
    """The greatest share of any rank."""
    waits = [w for v, s in seen(case) if (w := _waits(v, s))]
    if not waits:
        return unseen(case)
    worst = max(waits, key=lambda w: w.share)
    took = duration(worst.wait_s)
    return text("{share:.0%} of a step is waiting for it ({took})", share=worst.share, took=took)


def _waits(view: View, sound: Soundness) -> _Waits | None:
    steps = recent(sound.steps)
    total = sum(s.duration_s or 0.0 for s in steps)
    if len(steps) < LEAST_STEPS or total <= 0:
        return None
    waited = sum(s.data_wait_s or 0.0 for s in steps)
    workers = [a for a in view.evidence.children if a.role == WORKER]
    at = _in_workers(view) if workers else _in_rank(sound)
    each_waits = all((s.data_wait_s or 0.0) >= SHARE * (s.duration_s or 0.0) for s in steps)
    always = len(steps) >= MANY_STEPS or each_waits
    return _Waits(view, waited / len(steps), total / len(steps), len(workers), at, always)


def _in_rank(sound: Soundness) -> Frame | None:
    """The user's line below the DataLoader's in which the training thread spent the most time."""
    if isinstance(sound.sampled, NotAvailable):
        return None
    spent: Counter[Frame] = Counter()
    for one in sound.sampled.places:
        if (frame := _made_at(one.frames)) is not None:
            spent[frame] += round(one.wall_s * 1e6)
    return spent.most_common(1)[0][0] if spent else None


def _in_workers(view: View) -> Frame | None:
    """The user's line at which the workers were seen most often."""
    seen_at: Counter[Frame] = Counter()
    for look in view.evidence.looks:
        for process in look.processes:
            if (
                process.role == WORKER
                and process.threads
                and (frame := _made_at(process.threads[0].frames)) is not None
            ):
                seen_at[frame] += 1
    return seen_at.most_common(1)[0][0] if seen_at else None


def _made_at(frames: Sequence[Frame]) -> Frame | None:
    """The user's innermost frame that a DataLoader has called."""
    loading = next((i for i, f in enumerate(frames) if LOADER in f.file), 0)
    return user_frame(frames[:loading])


# --- words ---------------------------------------------------------------------------------------------------------


def _evidence(waits: _Waits) -> str:
    rank = waits.view.rank
    workers = text("{workers} workers", workers=waits.workers) if waits.workers else text("no workers")
    at = "" if waits.at is None else text(", made at {short_place}", short_place=short_place(waits.at))
    return text(
        "rank {rank}: {wait_s} of {step_s} a step, {workers}{at}",
        rank=rank,
        wait_s=duration(waits.wait_s),
        step_s=duration(waits.step_s),
        workers=workers,
        at=at,
    )


def _cause(waits: _Waits) -> str:
    if not waits.workers:
        return text("The training thread makes its batches itself: while it does, nothing is trained.")
    return text("Its workers make fewer batches than the steps use up.")


def _next_steps(case: Case, waits: _Waits) -> list[str]:
    wanted = _workers_wanted(waits)
    host = case.host(waits.view)
    at = "" if waits.at is None else text(" ({short_place})", short_place=short_place(waits.at))
    steps = []
    if wanted > waits.workers:
        on = "" if host is None else text(" (its machine has {cpus} CPUs)", cpus=host.cpus)
        steps.append(text("num_workers={wanted} would keep up, by these figures{on}.", wanted=wanted, on=on))
    steps.append(
        text(
            "Make a sample cheaper where it is made{at}: decode or tokenise beforehand, read larger pieces, "
            "keep it in memory.",
            at=at,
        )
    )
    return steps


def _workers_wanted(waits: _Waits) -> int:
    """As many as make a batch in the time that a step takes without waiting; what is made meanwhile is not waited for."""
    work_s = max(1e-4, waits.step_s - waits.wait_s)
    batch_s = waits.step_s * waits.workers if waits.workers else waits.wait_s
    return math.ceil(round(batch_s / work_s, 3))
