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


def _hit(case: Case, view: View) -> Hit:
    training, owner = view.training, case.evidence.lock_holders.get(view.pid)
    path = training.on if training is not None and training.on else ""
    named = path or text("a file", "某个文件")
    by = text(f", which {owner} holds", f"，由 {owner} 持有") if owner else ""
    at = short_place(view.now.frame)
    finding = Finding(
        "lock_wait",
        "critical",
        text(f"Rank {view.rank} waits for the lock of {named}{by}", f"rank {view.rank} 在等待 {named} 的锁{by}"),
        rank_subjects([view.rank]),
        place(view.now.frame),
        [
            text(
                f"rank {view.rank} {phrase(view.now)} at {case.at(view.now)}",
                f"rank {view.rank} {phrase(view.now)}，位于 {case.at(view.now)}",
            ),
            text(f"the kernel's list of locks names {owner}", f"内核的锁列表显示 {owner}")
            if owner
            else text("who holds it is not in the kernel's list of this host", "本机内核的锁列表中没有其持有者"),
            *case.others_wait([view.rank]),
        ],
        text(
            "Another process has locked the file and does not let go: one that was left behind, or that waits "
            "itself. On a network file system it may "
            "be on another host.",
            "另一个进程锁定了该文件且没有释放：可能是遗留的进程，或它自身也在等待。若是网络文件系统，"
            "它可能在另一台主机上。",
        ),
        [
            text(
                f"See what it does: `traindbg stacks {owner.pid}`; if it is a leftover: kill {owner.pid}",
                f"查看它在做什么：`traindbg stacks {owner.pid}`；若是遗留进程：kill {owner.pid}",
            )
            if owner is not None and owner.command
            else text(f"Find the owner: fuser -v {named}", f"查找持有者：fuser -v {named}"),
            text(
                f"Put a time-out on the lock at {at} (LOCK_NB in a loop, or filelock's timeout=).",
                f"为 {at} 处的锁设置超时（循环使用 LOCK_NB，或 filelock 的 timeout=）。",
            ),
        ],
        confidence="high" if owner else "medium",
    )
    return Hit(finding, [view.rank])
