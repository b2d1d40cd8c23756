"""A machine with too little of something: more threads than CPUs, memory that was swapped out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ...language import later, text
from ...model import Activity, Finding, NotAvailable, SlowCause, rank_subjects
from .case import Case, View
from .cpus import beside, crowded_s, starved, wanted_by_workers, workers
from .words import SHARE, cause, matters, of_a_step

__all__ = ["EXPLAINS", "TOPIC", "rule", "words"]

TOPIC = later("the machine")
EXPLAINS = {"throttled": ("too_many_threads", "too_many_workers")}
FAULTS_PER_S = 50.0
FAULT_S = 1e-4
"""What one page from a disk takes, at least."""


def rule(case: Case) -> list[SlowCause]:
    """A quota of CPUs that is used up, threads that wait for one, and pages that come back from a disk."""
    return [*_throttled(case), *_crowded(case), *_crowded_by_workers(case), *_swapped(case)]


def words(case: Case) -> str:
    """How long training threads wait for a CPU."""
    shares = [share for view in case.stepping if (share := starved(view)) is not None]
    if not shares:
        return text("not known")
    return text("training threads wait for a CPU {share:.0%} of the time", share=max(shares))


def _activity(view: View) -> Activity | None:
    activity = view.window.activity
    return None if isinstance(activity, NotAvailable) else activity


def _throttled(case: Case) -> list[SlowCause]:
    """The kernel adds up what all CPUs of a group were held back; the training thread was for as long as it waited for one, at most."""
    held = {view.rank: _held_back(view) for view in case.stepping}
    worst = max(case.stepping, key=lambda view: held[view.rank])
    saves_s = held[worst.rank] * worst.step_s
    if not matters(saves_s, worst.step_s, SHARE):
        return []
    cpus = worst.window.host.cpus or 0.0
    finding = Finding(
        "throttled",
        "warning",
        text(
            "The job has used up its CPUs, and is held back: {share}",
            share=of_a_step(saves_s, worst.step_s),
        ),
        rank_subjects(rank for rank, share in held.items() if share >= SHARE),
        None,
        [
            text("its control group may use {cpus:.3g} CPUs", cpus=cpus),
            *(
                text("rank {rank}: its training thread is held back {share:.0%} of the time", rank=rank, share=share)
                for rank, share in list(held.items())[:8]
            ),
        ],
        text("The kernel stops every process of the group until its next period, as soon as the quota is used up."),
        [
            text("Give the container or job more CPUs (cpu.max)."),
            text("Fewer DataLoader workers and threads (OMP_NUM_THREADS) use up less."),
        ],
        confidence="medium",
    )
    return [cause(finding, saves_s, worst.step_s)]


def _held_back(view: View) -> float:
    """The share of the time."""
    share = starved(view)
    return min(1.0 if share is None else share, view.window.host.throttled_s / view.window.window_s)


def _crowded(case: Case) -> list[SlowCause]:
    """Only where threads could be fewer: ranks that have one each need the CPUs that they need. Each machine for itself."""
    by_host: defaultdict[str, list[View]] = defaultdict(list)
    for view in case.stepping:
        by_host[view.window.host.name].append(view)
    crowded = [views for views in by_host.values() if _too_many(views)]
    if not crowded:
        return []
    worst = max(crowded, key=lambda views: max(_starved_shares(views).values(), default=0.0))
    shares = _starved_shares(worst)
    saves_s = max(shares.values(), default=0.0) * case.step_s
    if not matters(saves_s, case.step_s, SHARE):
        return []
    cpus = _cpus(worst)
    finding = Finding(
        "too_many_threads",
        "warning",
        text(
            "{threads} threads compute on {cpus:.3g} CPUs: {share}",
            threads=_threads(worst),
            cpus=cpus,
            share=of_a_step(saves_s, case.step_s),
        ),
        rank_subjects(view.rank for view in worst if (view.window.host.threads or 1) > 1),
        None,
        [
            text("rank {rank}: its training thread waits for a CPU {share:.0%} of the time", rank=rank, share=share)
            for rank, share in list(shares.items())[:8]
        ],
        text("Every rank computes with as many threads as if the machine were its own."),
        [text("OMP_NUM_THREADS={n} in front of the launcher.", n=max(1, int(cpus / len(worst))))],
        confidence="medium",
    )
    return [cause(finding, saves_s, case.step_s)]


def _too_many(views: Sequence[View]) -> bool:
    cpus, threads = _cpus(views), _threads(views)
    return 0 < cpus < threads and any((view.window.host.threads or 1) > 1 for view in views)


def _cpus(views: Sequence[View]) -> float:
    """That these ranks of one machine may use; 0 where nobody knows."""
    return min((view.window.host.cpus for view in views if view.window.host.cpus), default=0.0)


def _threads(views: Sequence[View]) -> int:
    return sum(view.window.host.threads or 1 for view in views)


def _starved_shares(views: Sequence[View]) -> Mapping[int, float]:
    return {view.rank: share for view in views if (share := starved(view)) is not None}


def _crowded_by_workers(case: Case) -> list[SlowCause]:
    """Workers that make enough batches, and take the CPUs for that from the training."""
    worst = max(case.stepping, key=lambda view: crowded_s(case, view) / view.step_s)
    took = crowded_s(case, worst)
    if not matters(took, worst.step_s, SHARE):
        return []
    there = beside(case, worst)
    finding = Finding(
        "too_many_workers",
        "warning",
        text("DataLoader workers take the CPUs that the training needs: {share}", share=of_a_step(took, worst.step_s)),
        rank_subjects(view.rank for view in there if crowded_s(case, view) > 0),
        None,
        [
            text(
                "{workers} workers want {wanted:.1f} CPUs, beside the training; the job may use {cpus:.3g}",
                workers=sum(len(workers(view)) for view in there),
                wanted=wanted_by_workers(there),
                cpus=worst.window.host.cpus or 0.0,
            ),
            *(
                text("rank {rank}: its training thread waits for a CPU {share:.0%} of the time", rank=rank, share=share)
                for rank, share in list(_starved_shares(there).items())[:8]
            ),
        ],
        text("Workers compute beside the training, on the same CPUs."),
        [
            text(
                "Fewer workers, if they keep up; else make a sample cheaper where it is made, or give the job more CPUs."
            ),
            text("torch.set_num_threads(1) in a worker_init_fn keeps each of them to one CPU."),
        ],
        confidence="medium",
    )
    return [cause(finding, took, worst.step_s)]


def _swapped(case: Case) -> list[SlowCause]:
    faults = {
        view.rank: activity.major_faults_per_s
        for view in case.stepping
        if (activity := _activity(view)) is not None and not isinstance(activity.major_faults_per_s, NotAvailable)
    }
    worst = max(faults.values(), default=0.0)
    saves_s = min(1.0, worst * FAULT_S) * case.step_s
    if worst < FAULTS_PER_S or not matters(saves_s, case.step_s, 0.05):
        return []
    finding = Finding(
        "swapping",
        "warning",
        text("Memory comes back from the disk while it trains: {faults:.0f} pages a second", faults=worst),
        rank_subjects(rank for rank, per_s in faults.items() if per_s >= FAULTS_PER_S),
        None,
        [
            text("rank {rank}: {faults:.0f} pages a second", rank=rank, faults=per_s)
            for rank, per_s in list(faults.items())[:8]
        ],
        text("The machine has less memory than its processes use, or a file that is mapped does not fit into it."),
        [text("`%memory` shows who holds it; fewer workers, or smaller ones, make room.")],
        confidence="medium",
    )
    return [cause(finding, saves_s, case.step_s)]
