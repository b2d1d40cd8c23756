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
from ...model import Activity, Frame, NotAvailable, ProcessStacks
from . import stop_words as say
from . import why
from .case import Case, View, training_thread
from .doing import Doing, Kind, doing, phrase
from .motion import thread_activity
from .onward import Onward
from .words import command_words, short_place

__all__ = ["below"]

_FOR_A_CHILD: frozenset[Kind] = frozenset({"child", "process", "future", "pipe"})
MOST_STEPS = 8


@dataclass(frozen=True)
class Child:
    """A process below a rank at the last look. ``seen``: what its main thread does, by its stack or by the kernel where it is no Python.
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


def below(case: Case, view: View) -> Onward | None:
    """For whom of its own `view` waits; None where nobody is known. Pure; linear in the number of processes below the rank."""
    if view.now.kind not in _FOR_A_CHILD:
        return None
    found = _children(case, view)
    chain = _chain(view, found)
    if chain:
        return _at(case, view, chain)
    idle = [c for c in found if c.idle]
    return _lost(idle) if idle and _asks_a_pool(view.now) and all(c.idle or not c.users for c in found) else None


def _chain(view: View, found: Sequence[Child]) -> list[Child]:
    """For whom a rank waits, and for whom that one does, up to the last."""
    chain: list[Child] = []
    seen, waited = view.now, view.training.child_pid if view.training is not None else None
    parent = view.pid
    while len(chain) < MOST_STEPS:
        following = _followed(seen, waited, [c for c in found if c.parent_pid == parent and c not in chain])
        if following is None:
            break
        chain.append(following)
        if following.stopped or following.asleep:
            break
        seen, waited, parent = following.seen, following.child_pid, following.pid
    return chain


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


def _at(case: Case, view: View, chain: Sequence[Child]) -> Onward:
    last = chain[-1]
    owner = case.beside(view).lock_holders.get(last.pid)
    cause, step = _why(case, last)
    held = say.held(case, (view.host, last.pid))
    if owner is not None and owner.pid == view.pid:
        held = [text("that lock is held by rank {rank} itself: the two wait for each other", rank=view.rank)]
        cause = text(
            "It holds a lock for which the process waits that it has started, and for whose end it waits itself."
        )
        step = text("Let the lock go before the program is started, or leave it to one of the two to take it.")
    return Onward(
        text(
            "process {pid} below it {does}",
            pid=last.pid,
            does=_state(last) + say.at(short_place(last.seen.frame), last.seen),
        ),
        [*(_words(case, child) for child in chain), *held],
        cause,
        step,
        _in_a_file(last.seen.users),
        ("", last.pid),
    )


def _in_a_file(frame: Frame | None) -> Frame | None:
    """A program that was given on the command line has no lines to look at."""
    return None if frame is None or frame.file.startswith("<") else frame


def _why(case: Case, last: Child) -> tuple[str, str]:
    """The cause, and what to do; empty where only its parent's wait tells."""
    if last.stopped:
        step = text("Let it go on: kill -CONT {pid}", pid=last.pid)
        return text("A process that it waits for was stopped by a signal or a debugger."), step
    if last.seen.users is None:
        return "", ""
    return why.cause(last.seen, case.source_of(last.seen)), why.step(last.seen, last.on, last.pid)


def _lost(idle: Sequence[Child]) -> Onward:
    said = counted(
        "the only worker process below it, {pids}, has nothing to do: what it was given is lost",
        "all {n} worker processes below it have nothing to do: what they were given is lost",
        len(idle),
        pids=idle[0].pid,
    )
    return Onward(
        "",
        [said],
        text(
            "A worker that was killed takes its piece of work with it: a multiprocessing.Pool starts another worker, and gives "
            "that piece to nobody."
        ),
        text(
            "See why a worker was killed (`dmesg -T | grep -i oom`); a concurrent.futures.ProcessPoolExecutor raises "
            "BrokenProcessPool instead of waiting."
        ),
    )


def _state(child: Child) -> str:
    if child.stopped:
        return phrase(Doing("signal"))
    return text("is in uninterruptible sleep") if child.asleep else phrase(child.seen)


def _words(case: Case, child: Child) -> str:
    doing_now, at = _state(child), say.at(case.at(child.seen), child.seen)
    told = child.child_pid is not None or child.stopped or not child.on or child.on in doing_now
    return text(
        "process {pid} (`{command}`) {does}{at}{on}",
        pid=child.pid,
        command=command_words(child.command),
        does=doing_now,
        at=at,
        on="" if told else text(", on {on}", on=child.on),
    )
