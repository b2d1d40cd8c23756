"""What a process beside the job does, as far as it matters to whoever waits for it: each of its threads in a word. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...frames.waits import waiting_for
from ...model import Channel, Channels, Flow, HostPid, Partner, SourceLine, ThreadActivity
from .doing import FOR_OTHER_RANKS, Doing, Kind, doing
from .motion import BUSY_SHARE, busy, flows, moved_bytes, thread_activity
from .ranks import View

__all__ = ["ENDS", "WORST_FIRST", "Edge", "Stop", "meet", "of_partner", "of_rank", "threads"]

_POLLING = ("poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2", "select", "pselect6")
_ACCEPTING = ("accept", "accept4")
_WORKS: frozenset[Kind] = frozenset({"computing", "unknown", "native", "backward"})
State = Literal["stopped", "asleep", "stands", "works", "inward", "idle"]
"""``inward``: it waits for another thread of its own process."""
ENDS: Sequence[State] = ("stopped", "asleep", "works")
"""What a process does that waits for nobody."""
WORST_FIRST: Sequence[State] = ("stopped", "asleep", "works", "stands", "inward", "idle")


@dataclass(frozen=True)
class Edge:
    """A way to a process from another. ``over`` is None where that has started this one, or waits for its lock. ``sure``: whether a thread
    waits there.
    """

    to: HostPid
    over: Channel | None = None
    sure: bool = True

    @property
    def is_a_call(self) -> bool:
        """Whether the process runs a call, for whose result the one before waits."""
        return self.over is not None and self.over.kind == "call"


@dataclass(frozen=True)
class Stop:
    """A process on the way, the edge by which one comes there, and what one thread of it does. ``rank`` is None where it is none of the
    job's. ``together``: it waits in a call that all members of a process group have to issue, or may do so.
    """

    seen: Doing
    state: State
    edge: Edge
    tid: int = 0
    rank: int | None = None
    who: str = ""
    """How its job calls it; empty where it is of none."""
    command: str = ""
    cpu_share: float = 0.0
    bytes: int = 0
    flow: Flow | None = None
    """What it is sent itself, or has taken from it, where it waits: a stream that it gathers, in however small pieces."""
    together: bool = False
    wakes: bool = False
    """Whether its thread was given a CPU during the look."""

    @property
    def process(self) -> HostPid:
        return self.edge.to

    @property
    def host(self) -> str:
        """Empty where all that is known of is on one."""
        return self.edge.to[0]

    @property
    def pid(self) -> int:
        return self.edge.to[1]


def of_rank(view: View, edge: Edge) -> Stop:
    """A rank, by its training thread; or another process of the job that was looked at as one."""
    tid = view.training.tid if view.training is not None else view.pid
    rank = None if view.evidence.who else view.rank
    return Stop(view.now, "stands", edge, tid, rank, view.evidence.who, together=view.role == "waiting")


def of_partner(partner: Partner, edge: Edge, before: HostPid, sources: Mapping[str, SourceLine]) -> list[Stop]:
    """What a process does for the one before it on the way: one that works; else those of its threads that stand still; else whoever
    listens to the one before; else those that sleep, or wait within the process; else one in code of the user that waits for something to
    do. Those that wait for another client to speak come after all of these, and a server's loop last.
    """
    found = [_stop(partner, edge, seen, thread, sources) for seen, thread in threads(partner, sources)]
    hears = {s.tid for s in found if any(one.answers for one in partner.channels.waited_at(s.tid))}
    found.sort(key=lambda stop: (stop.seen.kind == "idle" or stop.seen.users is None, stop.tid in hears))
    working = [stop for stop in found if stop.state in ENDS]
    if working:
        return working[:1]
    standing = [stop for stop in found if stop.state in ("stands", "inward")]
    listening = [stop for stop in found if edge.sure and meet(edge, before, stop, partner.channels)]
    answering = [stop for stop in standing if stop.tid not in hears]
    apart = [stop for stop in answering if stop.state == "stands" and stop.seen.kind != "sleep"]
    own = [stop for stop in found if stop.seen.kind != "idle" and stop.seen.users is not None and stop.tid not in hears]
    return apart or listening or answering or own[:1] or standing or found[:1]


def meet(edge: Edge, before: HostPid, stop: Stop, channels: Channels) -> bool:
    """Whether a thread is in a call on the very connection by which one comes to it."""
    if edge.over is None or stop.seen.kind == "idle":
        return False
    back = channels.waited_led(stop.tid)
    return len(back) == 1 and before in back[0].beyond(stop.host) and edge.over.meets(back[0])


def threads(partner: Partner, sources: Mapping[str, SourceLine]) -> Iterator[tuple[Doing, ThreadActivity]]:
    """Those of Python by their stacks, the main thread first; of another process by the kernel."""
    if partner.stacks is None:
        for one in partner.activity.threads:
            wait = waiting_for((), one.call or None, one.on)
            yield Doing(wait.kind if wait is not None else "computing" if busy(one) else "unknown", wait), one
        return
    for thread in partner.stacks.threads:
        seen = thread_activity(partner.activity, thread, partner.pid)
        if seen is not None:
            yield doing(thread, sources), seen


def _stop(partner: Partner, edge: Edge, seen: Doing, thread: ThreadActivity, sources: Mapping[str, SourceLine]) -> Stop:
    return Stop(
        seen,
        _state(seen, thread, partner, called=edge.is_a_call),
        edge,
        thread.tid,
        who=partner.who,
        command=partner.activity.command,
        cpu_share=thread.cpu_share,
        bytes=0 if busy(thread) else moved_bytes(partner.activity),
        flow=None if busy(thread) else _flow(seen, thread, partner),
        together=seen.kind in FOR_OTHER_RANKS or (partner.trains and _awaits_work(seen, sources)),
        wakes=thread.switches > 0,
    )


def _flow(seen: Doing, thread: ThreadActivity, partner: Partner) -> Flow | None:
    """Over the one channel at which a thread of the program waits, and not to be asked."""
    at = partner.channels.waited_at(thread.tid)
    its_own = seen.users is not None or partner.stacks is None
    return at[0].flow if its_own and len(at) == 1 and not at[0].answers else None


def _awaits_work(seen: Doing, sources: Mapping[str, SourceLine]) -> bool:
    """Whether it is in C code at a line as ``work.wait()``: that of a collective has no frame."""
    at = seen.users
    line = sources.get(f"{at.file}:{at.line}") if at is not None and seen.kind == "native" else None
    return line is not None and ".wait(" in line.text


def _state(seen: Doing, thread: ThreadActivity, partner: Partner, *, called: bool) -> State:
    """`called`: it is known to run a call for another one, so that with code of the user's it has something to do."""
    if partner.activity.state in ("T", "t"):
        return "stopped"
    if partner.activity.state == "D":
        return "asleep"
    gets_on = seen.users is not None and moved_bytes(partner.activity) > 0
    computes = busy(thread) if seen.kind in _WORKS else seen.kind == "sleep" and thread.cpu_share > BUSY_SHARE
    if computes or flows(seen, partner.activity, thread) or gets_on or _flow(seen, thread, partner) is not None:
        return "works"
    in_the_call = called and (seen.kind == "coroutine" or (seen.users is not None and seen.kind != "idle"))
    if _idle(seen, thread, partner) and not in_the_call:
        return "idle"
    return "inward" if seen.kind in ("queue", "thread", "future") else "stands"


def _idle(seen: Doing, thread: ThreadActivity, partner: Partner) -> bool:
    """Whether it waits for something to do: a client, an event, an item; or is in a library's own code, as between two requests."""
    if seen.kind == "idle" or thread.call in _ACCEPTING or (seen.users is None and partner.stacks is not None):
        return True
    if thread.call in _POLLING and len(partner.channels.waited_led(thread.tid)) != 1:
        return True
    return seen.kind == "queue" and seen.wait is not None and seen.wait.op != "put"
