"""One rank over all looks: what its training thread did, and whether it waits for other ranks, moves, or stands still."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...frames.whose import asks_us
from ...model import (
    ASLEEP,
    Activity,
    Collective,
    NotAvailable,
    Pace,
    ProcessStacks,
    RankCollectives,
    RankEvidence,
    SourceLine,
    Thread,
    ThreadActivity,
    Wait,
)
from .doing import FOR_OTHER_RANKS, Doing, Kind, doing
from .motion import BUSY_SHARE, Work, busy, flows, thread_activity, work_for

__all__ = ["Role", "View", "training_thread", "view", "without_calls"]

Role = Literal["ended", "not seen", "stopped", "stepping", "waiting", "moving", "still", "idle", "not known"]
"""``waiting``: for other ranks. ``moving``: it computes, its stack changes, or what it waits for gets on. ``still``: none of these.
``idle``: a kernel between two cells, an actor of Ray's between two calls.
"""
NO_CALL = Wait("idle", "calls")

POLLING_SHARE = 0.02
"""Of a CPU: what a loop uses at most that wakes up now and then, looks at something and sleeps again."""
_POLLS: Mapping[Wait | None, float] = {
    Wait("sleep"): POLLING_SHARE,
    Wait("ray"): POLLING_SHARE,
    Wait("lock", "lock_file"): BUSY_SHARE,
}
"""How such a loop waits, and the share of a CPU: that it looks for a lock file its frames tell, which need not be so seldom. `ray.get`
wakes up by itself.
"""
_FOR_A_THREAD: frozenset[Kind] = frozenset({"thread", "future", "queue"})
_UNCLEAR: frozenset[Kind] = frozenset({"backward", "native", "gpu", "unknown"})
"""Waits in C code that may be those of a collective: a `Work.wait()`, DDP's backward."""


@dataclass(frozen=True)
class View:
    """One rank. ``doings``: what its training thread did at each look; ``now`` the last one. ``pending``: its oldest call of a
    collective that is not completed. ``holder``: the thread that keeps the GIL, where nothing else in it can run. ``served``: what works
    for it while its training thread waits.
    """

    evidence: RankEvidence
    role: Role
    doings: Sequence[Doing] = ()
    pending: Collective | None = None
    waiting_s: float | None = None
    holder: Thread | None = None
    served: Sequence[Work] = ()

    @property
    def rank(self) -> int:
        return self.evidence.rank

    @property
    def pid(self) -> int:
        return self.evidence.pid

    @property
    def host(self) -> str:
        return self.evidence.host

    @property
    def now(self) -> Doing:
        return self.doings[-1] if self.doings else Doing("unknown")

    @property
    def has_no_call(self) -> bool:
        """Whether it is an actor of Ray's that runs no call."""
        return bool(self.doings) and all(d.wait == NO_CALL for d in self.doings)

    @property
    def asks_us(self) -> bool:
        """Whether its training thread runs one of our commands: this very question, where a kernel asks about itself."""
        return bool(self.doings) and all(d.thread is not None and asks_us(d.thread.frames) for d in self.doings)

    @property
    def waits_by_a_thread(self) -> bool:
        """Whether it waits for a thread of its own, and all that run code of the user wait for other ranks."""
        if self.pending is None or not {d.kind for d in self.doings} <= _FOR_A_THREAD:
            return False
        others = [t for t in self.threads if not t.training and any(not f.library for f in t.frames)]
        waits = [t.waiting_for.kind if t.waiting_for is not None else "none" for t in others]
        return bool(waits) and FOR_OTHER_RANKS.issuperset(waits)

    @property
    def activity(self) -> Activity | None:
        return None if isinstance(self.evidence.activity, NotAvailable) else self.evidence.activity

    @property
    def pace(self) -> Pace | None:
        return None if isinstance(self.evidence.pace, NotAvailable) else self.evidence.pace

    @property
    def passes(self) -> int:
        """Backward passes that came during the look: a step may take many, and minutes."""
        sound = self.evidence.soundness
        return 0 if isinstance(sound, NotAvailable) else sound.backwards

    @property
    def collectives(self) -> RankCollectives | None:
        return None if isinstance(self.evidence.collectives, NotAvailable) else self.evidence.collectives

    @property
    def threads(self) -> Sequence[Thread]:
        """All threads of the rank's process at the last look."""
        process = _process(self.evidence, -1)
        return process.threads if process else ()

    @property
    def training(self) -> ThreadActivity | None:
        """What /proc says of the training thread."""
        return thread_activity(self.activity, self.now.thread, self.pid)

    def below(self) -> Sequence[ProcessStacks]:
        """The processes below this rank at the last look: DataLoader workers and other children."""
        looks = self.evidence.looks
        return [p for p in looks[-1].processes if p.pid != self.pid] if looks else []


def view(rank: RankEvidence, sources: Mapping[str, SourceLine]) -> View:
    """What `rank` does, judged over all looks."""
    if rank.ending is not None:
        return View(rank, "ended")
    if rank.pid == 0 and not rank.looks:
        return View(rank, "not seen")
    threads = [training_thread(_process(rank, i)) for i in range(len(rank.looks))]
    doings = _polling(rank, tuple(doing(thread, sources) for thread in threads if thread is not None))
    doings = _at_the_gpu(rank, doings)
    pending, waiting_s = _pending(rank.collectives)
    holder = _gil_holder(rank)
    bare = View(rank, "not known", doings, pending, waiting_s, holder)
    role = _role(bare)
    at_rest = role == "still" and holder is None
    served = work_for(bare.now, bare.activity, rank.children, bare.threads) if at_rest else ()
    return dataclasses.replace(bare, role="moving" if served else role, served=served)


def _polling(rank: RankEvidence, doings: tuple[Doing, ...]) -> tuple[Doing, ...]:
    """A loop that sleeps and looks again is at its sleep at one look and at its question at another, and gets no further by that."""
    asks = rank.only_asks
    sleeps = next((d for d in doings if (asks or d.wait in _POLLS) and d.users is not None), None)
    if sleeps is None or len({d.at for d in doings}) == 1 or isinstance(rank.activity, NotAvailable):
        return doings
    thread = thread_activity(rank.activity, sleeps.thread, rank.pid)
    seldom = asks or (thread is not None and thread.cpu_share <= _POLLS[sleeps.wait])
    return tuple(sleeps for _ in doings) if seldom and all(_passes(d, sleeps) for d in doings) else doings


def _passes(seen: Doing, loop: Doing) -> bool:
    """Whether the function in which `loop` sleeps is on the stack of `seen`."""
    frames = seen.thread.frames if seen.thread is not None else ()
    at = loop.users
    return at is not None and any((f.file, f.function) == (at.file, at.function) for f in frames)


def _at_the_gpu(rank: RankEvidence, doings: tuple[Doing, ...]) -> tuple[Doing, ...]:
    """A wait for the GPU (``loss.item()``) has no frame of its own and spins on the CPU, so it looks like computing: at the same line in
    every look, with a GPU that never was done.
    """
    pace = rank.pace
    if isinstance(pace, NotAvailable) or not pace.gpu_busy or pace.steps_in_window or len(doings) < 2:
        return doings
    if len({d.at for d in doings}) > 1 or doings[-1].kind not in ("computing", "native", "device", "unknown"):
        return doings
    return tuple(dataclasses.replace(d, kind="gpu", wait=Wait("gpu")) for d in doings)


def training_thread(process: ProcessStacks | None) -> Thread | None:
    """The thread that trains; in a worker or another child, its main thread."""
    if process is None or not process.threads:
        return None
    return next((t for t in process.threads if t.training), process.threads[0])


def _process(rank: RankEvidence, look: int) -> ProcessStacks | None:
    if not rank.looks:
        return None
    return next((p for p in rank.looks[look].processes if p.pid == rank.pid), None)


def _pending(collectives: RankCollectives | NotAvailable) -> tuple[Collective | None, float | None]:
    if isinstance(collectives, NotAvailable):
        return None, None
    call = next((c for c in collectives.calls if c.state != "completed"), None)
    waiting_s = None if isinstance(collectives.waiting_s, NotAvailable) else collectives.waiting_s
    return call, waiting_s if call is not None else None


def _gil_holder(rank: RankEvidence) -> Thread | None:
    """The thread that kept the GIL at the same place in every look, while our agent could not run.

    Plain Python code holds the GIL too, but it lets the agent in. Where the agent is kept out for another reason, only a holder that
    sleeps in C code counts.
    """
    seen = []
    for i in range(len(rank.looks)):
        process = _process(rank, i)
        if process is None or process.source == "agent":
            return None
        seen.append(next((t for t in process.threads if t.holds_gil is True), None))
    first = seen[0] if seen else None
    if first is None or any(t is None or t.frames != first.frames for t in seen):
        return None
    return seen[-1] if rank.shut_out or not rank.problem or first.state in ASLEEP else None


def _role(seen: View) -> Role:
    activity = seen.activity
    if activity is not None and activity.state in ("T", "t"):
        return "stopped"
    steps = 0 if seen.pace is None else seen.pace.steps_in_window
    if steps > 0 or seen.passes:
        return "stepping" if steps > 0 else "moving"
    if seen.holder is not None:
        return "still"
    if not seen.doings:
        return "not known"
    if _waits_for_others(seen):
        return "waiting"
    return "idle" if _rests(seen) else "moving" if _moves(seen) else "still"


def _rests(seen: View) -> bool:
    """Whether it is a kernel that runs no cell, or one of ours. As one rank of several it is not at rest: others may wait for what its cell
    left out.
    """
    if seen.evidence.world_size > 1:
        return False
    return seen.asks_us or all(
        d.kind == "idle" and d.users is None and d.thread is not None and _in_kernel_loop(d.thread) for d in seen.doings
    )


def without_calls(views: Sequence[View]) -> tuple[View, ...]:
    """Actors that run no call are at rest, unless others wait for them in theirs: then these have left it."""
    waiting = [v for v in views if v.role == "waiting"]
    return tuple(
        dataclasses.replace(v, role="idle")
        if v.has_no_call and not any(_is_awaited(v.rank, by) for by in waiting)
        else v
        for v in views
    )


def _is_awaited(rank: int, by: View) -> bool:
    """Whether a rank is a member of the group in whose call another one waits, as far as that is known."""
    groups = by.collectives.groups if by.collectives is not None else ()
    name = by.pending.group if by.pending is not None else None
    group = next((g for g in groups if g.name == name), None)
    return group is None or not group.ranks or bool(group.met_at) or rank in group.ranks


def _in_kernel_loop(thread: Thread) -> bool:
    return any(frame.file.endswith("ipykernel/kernelapp.py") for frame in thread.frames)


def _waits_for_others(seen: View) -> bool:
    """At every look. A wait without a frame of its own is one where the recorder has an open call."""
    kinds = {d.kind for d in seen.doings}
    if kinds <= FOR_OTHER_RANKS:
        return True
    if seen.collectives is None and seen.evidence.world_size > 1:
        return kinds <= FOR_OTHER_RANKS | {
            "backward"
        }  # no recorder tells: DDP's all_reduce is the likeliest wait there
    if seen.pending is None:
        return False
    spins: frozenset[Kind] = frozenset({"computing"}) if _spins(seen) else frozenset()
    return kinds <= FOR_OTHER_RANKS | _UNCLEAR | spins


def _spins(seen: View) -> bool:
    """A wait for the GPU spins on the CPU: at the same line in every look, with a call of NCCL's that is older than the looks."""
    looks, records = seen.evidence.looks, seen.collectives
    if len({d.at for d in seen.doings}) != 1 or len(seen.doings) < 2 or records is None or seen.pending is None:
        return False
    backend = next((g.backend for g in records.groups if g.name == seen.pending.group), "")
    return "nccl" in backend and seen.waiting_s is not None and seen.waiting_s > looks[-1].at_s - looks[0].at_s


def _merely_looks(seen: View, training: ThreadActivity | None) -> bool:
    """A loop that sleeps and looks again may be caught at its looking: that uses hardly any CPU all the same. It does not matter how much
    one uses that only asks for what is not there.
    """
    if seen.evidence.only_asks:
        return True
    if training is None or any(d.wait not in _POLLS for d in seen.doings):
        return False
    return training.cpu_share <= min(_POLLS[d.wait] for d in seen.doings)  # its waits for a CPU are no work


def _moves(seen: View) -> bool:
    training, activity = seen.training, seen.activity
    if (busy(training) and not _merely_looks(seen, training)) or flows(seen.now, activity, training):
        return True
    if seen.evidence.changed:
        return True
    if len({d.at for d in seen.doings}) > 1:
        return True
    if len(seen.doings) == 1 and training is None:
        return seen.now.kind == "computing"
    # OpenMP's or autograd's threads may work for it
    return activity is not None and activity.cpu_share > BUSY_SHARE and seen.now.kind in _UNCLEAR
