"""For whom a rank waits outside of its job, and for whom that one waits: from process to process, up to the one that stands still by itself,
that works, or that waits for the rank in turn.

Where a thread is at a channel, whoever has the other end is the next one; that is sure. Where it waits within its process (a server's event
loop, a queue) or in a collective, the next one is among all to whom the process is connected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...frames.waits import waiting_for
from ...model import Channel, Channels, JobEvidence, Partner, ThreadActivity
from ..collectives.joined import UNNAMED
from .doing import FOR_OTHER_RANKS, Doing, Kind, doing
from .motion import Work, busy, flows, thread_activity
from .ranks import View

__all__ = ["Chain", "Stop", "chains", "seen_with", "waits_outside"]

MOST_STEPS = 6
MOST_OTHERS = 4
"""A channel that leads to more than these says nothing of one of them."""
_WITHIN: frozenset[Kind] = frozenset({"idle", "native", "queue", "thread", "future", "lock", "sleep", "unknown"})
"""Waits whose end does not show at a channel; it may come from another process all the same."""
_TELLING: Sequence[str] = ("port", "tcp", "unix", "named pipe", "memory", "pipe")
"""Kinds of channels, those first that a program has most likely made to ask for something."""
_POLLING = ("poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2", "select", "pselect6")
_ACCEPTING = ("accept", "accept4")
_WORKS: frozenset[Kind] = frozenset({"computing", "unknown", "native", "backward"})
State = Literal["stopped", "asleep", "stands", "works", "inward", "idle"]
"""``inward``: it waits for another thread of its own process."""
_WORST_FIRST: Sequence[State] = ("stopped", "asleep", "works", "stands", "inward", "idle")


@dataclass(frozen=True)
class Stop:
    """A process on the way, and what one thread of it does. ``rank`` is None where it is none of the job's; ``over``: by which channel one
    comes there, None for a child and where all that is known is that it is below; ``sure``: whether the one before waits at that channel.
    ``together``: it waits in a call that all members of a process group have to issue, or may do so.
    """

    pid: int
    seen: Doing
    state: State
    rank: int | None = None
    command: str = ""
    tid: int = 0
    over: Channel | None = None
    sure: bool = True
    cpu_share: float = 0.0
    together: bool = False


@dataclass(frozen=True)
class Chain:
    """From a rank to where its wait ends, without the rank itself. ``ring``: the last one waits for the first. ``speechless``: these two are
    at the two ends of one connection, and each waits for the other to speak, or to listen.
    """

    stops: Sequence[Stop]
    ring: bool = False
    speechless: bool = False

    @property
    def last(self) -> Stop:
        return self.stops[-1]

    @property
    def sure(self) -> bool:
        return all(stop.sure for stop in self.stops)


def chains(evidence: JobEvidence, views: Sequence[View]) -> dict[int, Chain]:
    """By the rank that stands still; without those that lead nowhere. Pure; at most some hundred steps a rank."""
    if not evidence.partners and not any(c.at for c in evidence.channels.values()):
        return {}
    graph = _Graph(evidence, views)
    standing = [v for v in views if v.pid in evidence.channels and (v.role == "still" or _waits_beyond(v))]
    found = ((v.rank, graph.best(v)) for v in standing)
    return {rank: chain for rank, chain in found if chain is not None}


def seen_with(seen: View, chain: Chain) -> View:
    """One that waits for a process that works gets on; one that waits for another rank of the job is not to blame."""
    last = chain.last
    if seen.role != "still" or chain.ring:
        return seen
    if last.rank is not None:
        return replace(seen, role="waiting")
    if last.state != "works":
        return seen
    return replace(seen, role="moving", served=(Work("beside", last.command, pid=last.pid, cpu_share=last.cpu_share),))


def waits_outside(seen: View, chain: Chain) -> bool:
    """Whether a rank waits in a collective for a process that is none of the job's."""
    return not chain.ring and seen.role == "waiting" and chain.last.rank is None


def _waits_beyond(seen: View) -> bool:
    """Whether what a rank waits in may be a call of a group of which others than the ranks of the job are members."""
    if seen.role != "waiting" or seen.collectives is None:
        return False
    beyond = {group.name for group in seen.collectives.groups if group.met_at or group.name.startswith(UNNAMED)}
    return seen.pending is None or seen.pending.group in beyond


# --- the way -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Edge:
    pid: int
    over: Channel | None
    sure: bool


class _Graph:
    """All processes of which something is known, and who is connected with whom."""

    def __init__(self, evidence: JobEvidence, views: Sequence[View]) -> None:
        self._evidence = evidence
        self._partners = evidence.partners
        self._by_pid = {v.pid: v for v in views}
        self._others_stand = [v.rank for v in views if v.role not in ("waiting", "ended", "not seen")]

    def best(self, view: View) -> Chain | None:
        """Of all ways from a rank the one that says most."""
        start = Stop(view.pid, view.now, "stands", view.rank, tid=_tid(view), together=view.role == "waiting")
        return min(self._ways(view, [start]), key=_worth, default=None)

    def _ways(self, view: View, path: list[Stop]) -> Iterator[Chain]:
        here = path[-1]
        for edge in self._edges(here):
            if edge.pid == view.pid:
                if (
                    len(path) > 1
                ):  # who merely waits to be told something by a rank in a collective does not know of the call
                    yield Chain(path[1:], ring=not path[0].together or here.together)
                continue
            if any(edge.pid == stop.pid for stop in path):
                continue
            for stop in self._stops(edge, here):
                chain = Chain([*path[1:], stop])
                if self._reads_the_same(here, stop):
                    yield replace(chain, ring=True, speechless=len(path) == 1) if len(path) == 1 else chain
                elif stop.rank is not None:
                    yield from self._at_a_rank(view, chain)
                else:
                    further = list(self._ways(view, [*path, stop])) if len(path) < MOST_STEPS else []
                    yield from further
                    if not further and (_tells(here, stop) or self._is_asked(here, stop)):
                        yield chain

    def _at_a_rank(self, view: View, chain: Chain) -> Iterator[Chain]:
        """Another rank of the job that waits for others waits for the first one, where that alone keeps them waiting."""
        other = self._by_pid[chain.last.pid]
        alone = self._others_stand == [view.rank] or view.role == "waiting"
        if other.role == "waiting":
            if alone and (view.role != "waiting" or len(chain.stops) > 1):
                yield replace(chain, ring=True)
        elif chain.sure:
            yield chain

    def _reads_the_same(self, here: Stop, stop: Stop) -> bool:
        """Whether both are in a call on the same connection: each waits for the other."""
        if stop.over is None or not stop.sure or not stop.over.accepted or stop.rank is not None:
            return False
        return stop.state in ("stands", "idle") and self._at_the_other_end(here.pid, stop)

    def _at_the_other_end(self, pid: int, stop: Stop) -> bool:
        """Whether the thread is in a call on the connection by which one comes to it."""
        back = self._channels(stop.pid).waited_at(stop.tid) if stop.seen.kind != "idle" else []
        meet = stop.over is not None and len(back) == 1 and _ends_meet(stop.over, back[0])
        return meet and pid in back[0].others

    def _is_asked(self, here: Stop, stop: Stop) -> bool:
        """Whether a rank that sleeps and looks again asks that process each time, and so wakes it."""
        partner = self._partners.get(stop.pid)
        if (
            here.rank is None
            or here.seen.kind != "sleep"
            or stop.over is None
            or partner is None
            or partner.stacks is None
        ):
            return False
        own = {thread.tid for thread in partner.stacks.threads}
        return any(thread.switches for thread in partner.activity.threads if thread.tid in own)

    def _edges(self, here: Stop) -> Iterator[_Edge]:
        channels = self._channels(here.pid)
        at = channels.waited_at(here.tid)
        if here.state == "idle" or (here.seen.kind == "idle" and len(at) > 1):
            at = []  # an event loop, in which all its connections are, or a server that waits for a client to ask
        sure = [
            _Edge(pid, channel, sure=True)
            for channel in at
            if len(channel.others) <= MOST_OTHERS
            for pid in channel.others
        ]
        waited = self._waited_child(here)
        owner = self._evidence.lock_holders.get(here.pid) if here.seen.kind == "lock" else None
        sure += [_Edge(pid, None, sure=True) for pid in (waited, owner.pid if owner else None) if pid is not None]
        known = [e for e in sure if e.pid in self._partners or e.pid in self._by_pid]
        yield from known
        if not sure and (here.together or here.seen.kind in _WITHIN or here.seen.kind in ("process", "network")):
            yield from self._unsure(here, channels)

    def _unsure(self, here: Stop, channels: Channels) -> Iterator[_Edge]:
        """To all with whom it is connected and who do not wait for it themselves; in a collective, to all who may be in it."""
        told: set[int] = set()
        for channel in sorted(channels.open, key=lambda c: _TELLING.index(c.kind)):
            for pid in channel.others if len(channel.others) <= MOST_OTHERS else ():
                if pid not in told and self._may_be_asked(here, channel, pid):
                    told.add(pid)
                    yield _Edge(pid, channel, sure=False)
        if not here.together:
            below = [p.pid for p in self._partners.values() if p.activity.parent_pid == here.pid]
            yield from (_Edge(pid, None, sure=False) for pid in below if pid not in told)

    def _may_be_asked(self, here: Stop, channel: Channel, pid: int) -> bool:
        partner = self._partners.get(pid)
        if partner is None:
            return here.together and here.rank is None and pid in self._by_pid
        return partner.trains if here.together else not self._waits_at(partner, channel, here.pid)

    def _waits_at(self, partner: Partner, channel: Channel, pid: int) -> bool:
        """Whether a thread of its program waits for `pid` at the other end of `channel`: an event loop, or a thread of a library, does not."""
        return any(
            seen.kind != "idle"
            and (seen.users or not partner.stacks)
            and len(waited) == 1
            and pid in waited[0].others
            and _ends_meet(channel, waited[0])
            for seen, thread in self._threads(partner)
            for waited in [partner.channels.waited_at(thread.tid)]
        )

    def _channels(self, pid: int) -> Channels:
        partner = self._partners.get(pid)
        return partner.channels if partner is not None else self._evidence.channels.get(pid, Channels())

    def _waited_child(self, here: Stop) -> int | None:
        view, partner = self._by_pid.get(here.pid), self._partners.get(here.pid)
        activity = partner.activity if partner is not None else view.activity if view is not None else None
        if activity is None or here.seen.kind != "child":
            return None
        return next((t.child_pid for t in activity.threads if t.tid == here.tid), None)

    # --- one process

    def _stops(self, edge: _Edge, before: Stop) -> list[Stop]:
        """What the process at the end of `edge` does: its threads that stand still in code of the user; else one that says what it does."""
        view = self._by_pid.get(edge.pid)
        if view is not None:
            together = view.role == "waiting"
            return [
                Stop(view.pid, view.now, "stands", view.rank, "", _tid(view), edge.over, edge.sure, together=together)
            ]
        partner = self._partners[edge.pid]
        about = partner.activity
        found = [self._stop(edge, partner, seen, thread) for seen, thread in self._threads(partner)]
        if about.state in ("T", "t", "D"):
            return [replace(found[0], state="asleep" if about.state == "D" else "stopped")] if found else []
        working = [stop for stop in found if stop.state == "works"]
        if working:
            return working[:1]
        standing = [stop for stop in found if stop.state in ("stands", "inward")]
        listening = [stop for stop in found if self._at_the_other_end(before.pid, stop)]
        apart = [s for s in standing if s.state == "stands" and s.seen.kind != "sleep" and not self._hears(s)]
        return apart or listening or standing or found[:1]

    def _stop(self, edge: _Edge, partner: Partner, seen: Doing, thread: ThreadActivity) -> Stop:
        return Stop(
            partner.pid,
            seen,
            _state(seen, thread, partner),
            command=partner.activity.command,
            tid=thread.tid,
            over=edge.over,
            sure=edge.sure,
            cpu_share=thread.cpu_share,
            together=seen.kind in FOR_OTHER_RANKS
            or (seen.kind == "native" and seen.users is not None and partner.trains),
        )

    def _hears(self, stop: Stop) -> bool:
        """Whether the thread waits for a client to say something."""
        return any(channel.answers for channel in self._channels(stop.pid).waited_at(stop.tid))

    def _threads(self, partner: Partner) -> Iterator[tuple[Doing, ThreadActivity]]:
        """Those of Python by their stacks, of others by the kernel; the main thread first."""
        told = partner.stacks.threads if partner.stacks is not None else ()
        for thread in told:
            seen = thread_activity(partner.activity, thread, partner.pid)
            if seen is not None:
                yield doing(thread, self._evidence.sources), seen
        if not told:
            for one in partner.activity.threads:
                wait = waiting_for((), one.call or None, one.on)
                yield Doing(wait.kind if wait is not None else "computing" if busy(one) else "unknown", wait), one


def _state(seen: Doing, thread: ThreadActivity, partner: Partner) -> State:
    if (busy(thread) and seen.kind in _WORKS) or flows(seen, partner.activity, thread):
        return "works"
    waited = partner.channels.waited_at(thread.tid)
    if seen.kind == "idle" or thread.call in _ACCEPTING or (thread.call in _POLLING and len(waited) != 1):
        return "idle"
    if seen.users is None and partner.stacks is not None:
        return "idle"  # in a server's own code, between two requests
    if seen.kind == "queue" and seen.wait is not None and seen.wait.op != "put":
        return "idle"
    return "inward" if seen.kind in ("queue", "thread", "future") else "stands"


def _tid(view: View) -> int:
    return view.training.tid if view.training is not None else view.pid


def _ends_meet(one: Channel, other: Channel) -> bool:
    """Whether these are the two ends of one connection, as each has it."""
    if one.kind != other.kind or one.kind == "memory":
        return False
    if one.kind == "tcp":
        near, _, far = one.name.removeprefix("tcp ").rpartition(" ")[0].partition(" -> ")
        return other.name.startswith(f"tcp {far} -> {near} ")
    return one.key == other.key or one.kind == "unix"


def _tells(before: Stop, last: Stop) -> bool:
    """Whether it says something that a way ends there: whoever has nothing to do, or sleeps, may be no part of it unless somebody waits at
    his door, or in a collective with him.
    """
    if last.sure or before.together:
        return True
    return last.state not in ("idle", "inward") and last.seen.kind != "sleep"


def _worth(chain: Chain) -> tuple[object, ...]:
    unsure = sum(not stop.sure for stop in chain.stops)
    return (
        not chain.ring and chain.last.state in ("idle", "inward"),
        unsure,
        not chain.ring,
        _WORST_FIRST.index(chain.last.state),
        len(chain.stops),
    )
