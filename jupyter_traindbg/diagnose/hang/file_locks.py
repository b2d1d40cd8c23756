"""A rank, or a DataLoader worker's rank, that waits for the lock of a file, which some other process holds."""

from __future__ import annotations

from ...language import text
from ...model import Finding, rank_subjects
from .case import Case, Hit, View
from .doing import Doing, phrase
from .words import place, short_place

__all__ = ["is_file_lock", "rule"]


def is_file_lock(seen: Doing) -> bool:
    """`flock`, `lockf`, and the package ``filelock``."""
    return seen.kind == "lock" and seen.wait is not None and seen.wait.op in ("file", "lock_file")


def rule(case: Case) -> list[Hit]:
    return [_hit(case, v) for v in case.blocked if v.holder is None and is_file_lock(v.now)]


def _not_known(view: View) -> str:
    if view.activity is None:
        return text("who holds it would be in the kernel's list of locks, on the machine where it runs")
    return text("who holds it is not in the kernel's list of this host")


def _hit(case: Case, view: View) -> Hit:
    training, owner = view.training, case.evidence.lock_holders.get(view.pid)
    path = training.on if training is not None and training.on else ""
    named = path or text("a file")
    by = text(", which {owner} holds", owner=owner) if owner else ""
    at = short_place(view.now.frame)
    finding = Finding(
        "lock_wait",
        "critical",
        text("Rank {rank} waits for the lock of {named}{by}", rank=view.rank, named=named, by=by),
        rank_subjects([view.rank]),
        place(view.now.frame),
        [
            text("rank {rank} {phrase} at {at}", rank=view.rank, phrase=phrase(view.now), at=case.at(view.now)),
            text("the kernel's list of locks names {owner}", owner=owner) if owner else _not_known(view),
            *case.others_wait([view.rank]),
        ],
        text(
            "Another process has locked the file and does not let go: one that was left behind, or that "
            "waits itself. On a network file system it may be on another host."
        ),
        [
            text("See what it does: `traindbg stacks {pid}`; if it is a leftover: kill {pid}", pid=owner.pid)
            if owner is not None and owner.command
            else text("Find the owner: fuser -v {named}", named=named),
            text("Put a time-out on the lock at {at} (LOCK_NB in a loop, or filelock's timeout=).", at=at),
        ],
        confidence="high" if owner else "medium",
    )
    return Hit(finding, [view.rank])
