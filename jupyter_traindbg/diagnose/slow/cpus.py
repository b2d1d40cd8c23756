"""Who of a job wants the CPUs of a machine, and how long a training thread waits for one because of that. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Activity, NotAvailable
from .case import Case, View

__all__ = ["beside", "crowded_s", "starved", "wanted_by_workers", "wants", "workers"]

LEAST = 0.5
"""Workers that want less of a CPU than this, all of them together, crowd nobody."""


def beside(case: Case, view: View) -> Sequence[View]:
    """The ranks of its machine, itself included."""
    return [other for other in case.views if other.window.host.name == view.window.host.name]


def workers(view: View) -> list[Activity]:
    """Its DataLoader workers, as the kernel counts."""
    return [child for child in view.window.children if child.role == "DataLoader worker"]


def wants(process: Activity) -> float:
    """How many CPUs it uses, or would if it got them."""
    return process.cpu_share + sum(s for t in process.threads if not isinstance(s := t.starved_share, NotAvailable))


def wanted_by_workers(views: Sequence[View]) -> float:
    """How many CPUs the workers of these ranks want."""
    return sum(wants(worker) for view in views for worker in workers(view))


def starved(view: View) -> float | None:
    """The share of its time in which the main thread was ready and had no CPU."""
    activity = view.window.activity
    threads = [] if isinstance(activity, NotAvailable) else [t for t in activity.threads if t.tid == activity.pid]
    return next((s for t in threads if not isinstance(s := t.starved_share, NotAvailable)), None)


def crowded_s(case: Case, view: View) -> float:
    """How long of a step its training thread waits for a CPU because DataLoader workers of the job have them; 0 where nobody knows."""
    there = beside(case, view)
    by_workers = wanted_by_workers(there)
    by_ranks = sum(wants(a) for one in there if not isinstance(a := one.window.activity, NotAvailable))
    cpus, share = view.window.host.cpus, starved(view)
    if cpus is None or share is None or by_workers < LEAST or by_ranks + by_workers <= cpus:
        return 0.0
    theirs = 1.0 if by_ranks <= cpus else by_workers / (by_ranks + by_workers)
    return view.step_s * share * theirs
