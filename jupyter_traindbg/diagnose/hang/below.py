"""Which process of its own a rank waits for: from one to the next, up to the one that stands still by itself.

A pool, an executor, a helper that is joined, a program: the rank's line is where the wait shows, and not why it lasts. The kernel tells for
which child a call waits; where it does not (a pool's result comes by a pipe) the processes below are asked what they do, and those without
work are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...frames.waits import waiting_for
from ...language import counted, text
from ...model import Activity, NotAvailable, ProcessStacks
from .case import Case, View, training_thread
from .doing import Doing, Kind, doing, phrase
from .motion import thread_activity
from .words import command_words, short_place

__all__ = ["Below", "Child", "below", "does"]

_FOR_A_CHILD: frozenset[Kind] = frozenset({"child", "process", "future", "pipe"})
MOST_STEPS = 8


@dataclass(frozen=True)
class Child:
    """A process below a rank, over all looks. ``seen``: what its main thread does, by its stack or by the kernel where it is no Python.
    ``state`` is the kernel's letter, empty where it was not watched; ``on`` what its system call is about.
    """

    pid: int
    seen: Doing
    command: str = ""
    state: str = ""
    on: str = ""
    parent_pid: int = 0
    child_pid: int | None = None
    age_s: float = math.inf

    @property
    def stopped(self) -> bool:
        return self.state in ("T", "t")

    @property
    def asleep(self) -> bool:
        """In the uninterruptible sleep of the kernel."""
        return self.state == "D"

    @property
    def idle(self) -> bool:
        """It has nothing to do: a worker between two pieces of work."""
        return self.seen.kind == "idle" and not self.stopped and not self.asleep

    @property
    def users(self) -> bool:
        """Whether it stands still in code of the user, or is kept from running."""
        return self.stopped or self.asleep or self.seen.users is not None


@dataclass(frozen=True)
class Below:
    """``chain``: for whom a rank waits, and for whom that one does, up to the last; empty where nobody is known. ``idle``: the workers
    below it that have nothing to do, where there are no others.
    """

    chain: Sequence[Child] = ()
    idle: Sequence[Child] = ()

    @property
    def last(self) -> Child | None:
        return self.chain[-1] if self.chain else None

    def words(self, case: Case, view: View) -> list[str]:
        """For the evidence; `view` is the rank that waits."""
        said = [_words(case, child) for child in self.chain] + _held(case, view, self.last)
        if self.idle:
            said.append(
                counted(
                    "the only worker process below it, {pids}, has nothing to do: what it was given is lost",
                    "all {n} worker processes below it have nothing to do: what they were given is lost",
                    len(self.idle),
                    pids=self.idle[0].pid,
                )
            )
        return said


def below(case: Case, view: View) -> Below:
    """For whom of its own `view` waits. Pure; linear in the number of processes below the rank."""
    if view.now.kind not in _FOR_A_CHILD:
        return Below()
    found = _children(case, view)
    chain: list[Child] = []
    seen, waited = view.now, view.training.child_pid if view.training is not None else None
    parent = view.pid
    for _ in range(MOST_STEPS):
        following = _followed(seen, waited, [c for c in found if c.parent_pid == parent and c not in chain])
        if following is None:
            break
        chain.append(following)
        if following.stopped or following.asleep:
            break
        seen, waited, parent = following.seen, following.child_pid, following.pid
    idle = [] if chain else [c for c in found if c.idle]
    lost = _asks_a_pool(view.now) and all(c.idle or not c.users for c in found)
    return Below(chain, idle if lost else ())


def _asks_a_pool(seen: Doing) -> bool:
    """One of multiprocessing: that of concurrent.futures tells of a worker that has died."""
    return seen.kind == "process" and seen.wait is not None and seen.wait.op == "result"


def _followed(seen: Doing, waited: int | None, children: Sequence[Child]) -> Child | None:
    """For whom of its `children` a process waits that does as in `seen`, and in the kernel for the end of `waited`."""
    if seen.kind not in _FOR_A_CHILD:
        return None
    if waited is not None:
        return next((c for c in children if c.pid == waited), None)
    at_work = [c for c in children if c.users and not c.idle]
    if not at_work and seen.kind == "child":  # a program, whose output is read: the one that was started last
        return min((c for c in children if not c.idle), key=lambda c: c.age_s, default=None)
    return max(at_work, key=lambda c: (c.stopped, c.asleep), default=None)


# --- the processes below -------------------------------------------------------------------------------------------


def _children(case: Case, view: View) -> list[Child]:
    """Whose parent is none of them is counted as the rank's own: the server that forks for multiprocessing stands between them."""
    stacks = {p.pid: p for p in view.below() if p.role == "child"}
    watched = {a.pid: a for a in view.evidence.children if a.role == "child" and a.state not in ("Z", "X")}
    pids = list(dict.fromkeys((*watched, *stacks)))
    found = [_child(case, pid, stacks.get(pid), watched.get(pid)) for pid in pids]
    return [c if c.parent_pid in pids else replace(c, parent_pid=view.pid) for c in found]


def _child(case: Case, pid: int, stacks: ProcessStacks | None, activity: Activity | None) -> Child:
    """At least one of `stacks` and `activity` is known."""
    thread = training_thread(stacks)
    main = thread_activity(activity, thread, pid)
    seen = doing(thread, case.sources)
    if thread is None and main is not None and (wait := waiting_for((), main.call or None, main.on)) is not None:
        seen = Doing(wait.kind, wait)
    on, child_pid = (main.on or "", main.child_pid) if main is not None else ("", None)
    if activity is None:
        return Child(pid, seen, stacks.command if stacks is not None else "", on=on, child_pid=child_pid)
    age = math.inf if isinstance(activity.running_s, NotAvailable) else activity.running_s
    return Child(pid, seen, activity.command, activity.state, on, activity.parent_pid, child_pid, age)


# --- words ---------------------------------------------------------------------------------------------------------


def does(child: Child) -> str:
    """``waits for an item from a queue at data.py:12 feed``, ``is stopped by a signal``: what it does, as the end of a sentence."""
    at = text(" at {at}", at=short_place(child.seen.frame)) if child.seen.frame is not None else ""
    return _state(child) + at


def _state(child: Child) -> str:
    if child.stopped:
        return phrase(Doing("signal"))
    return text("is in uninterruptible sleep") if child.asleep else phrase(child.seen)


def _words(case: Case, child: Child) -> str:
    command = command_words(child.command)
    at = text(" at {at}", at=case.at(child.seen)) if child.seen.frame is not None else ""
    on = text(", on {on}", on=child.on) if child.on and child.child_pid is None and not child.stopped else ""
    return text(
        "process {pid} (`{command}`) {does}{at}{on}", pid=child.pid, command=command, does=_state(child), at=at, on=on
    )


def _held(case: Case, view: View, last: Child | None) -> list[str]:
    """Who has the file's lock for which the last one waits, by the kernel's list."""
    owner = case.evidence.lock_holders.get(last.pid) if last is not None else None
    if owner is None:
        return []
    if owner.pid == view.pid:
        return [text("that lock is held by rank {rank} itself: the two wait for each other", rank=view.rank)]
    return [text("that lock is held by {owner}", owner=owner)]
