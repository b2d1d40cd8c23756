"""For whom a rank waits outside of its job, and for whom that one waits: from process to process, up to the one that stands still by
itself, that works, or that waits for the rank in turn.

Where a thread is at a channel, whoever has the other end is the next one; that is sure. Where it waits within its process (a server's event
loop, a queue) or in a collective, the next one is among all to whom the process is connected.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...model import Beside, Channel, Channels, HostPid, JobEvidence
from ..collectives.joined import UNNAMED
from .doing import Kind
from .motion import Work
from .ranks import View
from .stops import ENDS, WORST_FIRST, Edge, Stop, meet, of_partner, of_rank, threads

__all__ = ["Chain", "chains", "seen_with", "waits_outside", "with_flow"]

MOST_STEPS, PAIR = 6, 2
_STORE = "pt_tcpstore"
"""How torch calls the thread that serves its store."""
_TELLING = ("call", "port", "tcp", "unix", "named pipe", "memory", "pipe")
"""Kinds of channels, those first that a program has most likely made to ask for something."""
_OUTSIDE: frozenset[Kind] = frozenset({"idle", "network", "process", "sleep"})
"""Waits of a rank that may be for another process although it is at no channel of its own."""
_WITHIN: frozenset[Kind] = _OUTSIDE | {"native", "queue", "thread", "future", "coroutine", "lock", "unknown"}
"""The same of a process that is itself waited for."""
_FOR_A_RESULT: frozenset[Kind] = frozenset({"ray", "coroutine"})
_FOR_ANOTHER_THREAD: frozenset[Kind] = frozenset({"queue", "thread", "future"})
_FLOWING: frozenset[Kind] = _FOR_ANOTHER_THREAD | {"idle", "network", "pipe", "file", "native", "process", "unknown"}
"""Waits of a rank that may be for what comes over a channel; a named pipe is a file by its name."""


@dataclass(frozen=True)
class Chain:
    """From a rank to where its wait ends, without the rank itself. ``ring``: the last one waits for the first. ``speechless``: these two
    are at the two ends of one connection, and each waits for the other to speak, or to listen.
    """

    stops: Sequence[Stop]
    ring: bool = False
    speechless: bool = False
    guessed: bool = False
    """Whether that the last one waits for the first is not sure."""

    @property
    def last(self) -> Stop:
        return self.stops[-1]

    @property
    def unsure(self) -> int:
        """How many steps of it are not sure."""
        return self.guessed + sum(not stop.edge.sure for stop in self.stops)


def chains(evidence: JobEvidence, views: Sequence[View]) -> dict[int, Chain]:
    """By the rank that stands still; without those that lead nowhere, or no further than to processes of its own (`hang.below` has these).
    Pure; linear in the connections of all processes, for each rank.
    """
    graph = _Graph(evidence, views)
    standing = [v for v in views if graph.begins_at(v) and (v.role == "still" or _waits_beyond(v))]
    found = ((v, min(graph.chains_of(v), key=_worth, default=None)) for v in standing)
    return {v.rank: chain for v, chain in found if chain is not None and _leads_out(v, chain)}


def _leads_out(seen: View, chain: Chain) -> bool:
    below = {activity.pid for activity in seen.evidence.children}
    return any(stop.pid not in below or stop.host not in ("", seen.host) for stop in chain.stops)


def seen_with(seen: View, chain: Chain) -> View:
    """One that waits for a process that works gets on; one that waits for another rank of the job is not to blame."""
    last = chain.last
    if seen.role != "still" or chain.ring:
        return seen
    if last.rank is not None:
        return replace(seen, role="waiting")
    if last.state != "works":
        return seen
    host = "" if last.host == seen.host else last.host
    work = Work("beside", last.command, last.pid, host, last.bytes, last.cpu_share, last.flow, last.who)
    return replace(seen, role="moving", served=(work,))


def with_flow(seen: View, evidence: JobEvidence) -> View:
    """One that waits where something comes or goes gets on, however little that is. Of several channels, what others ask of it is nothing
    for which it waits.
    """
    beside = evidence.beside.get(seen.host, Beside())
    channels = beside.channels.get(seen.pid, Channels())
    if seen.role != "still" or seen.holder is not None or seen.now.kind not in _FLOWING:
        return seen
    threads = [t.tid for t in seen.threads if isinstance(t.tid, int) and any(not f.library for f in t.frames)]
    tids = threads if seen.now.kind in _FOR_ANOTHER_THREAD else [seen.training.tid] if seen.training is not None else []
    waits = [channels.waited_at(tid) for tid in tids]
    flowing = [one for at in waits for one in at if one.flow is not None and (len(at) == 1 or not one.answers)]
    return replace(seen, role="moving", served=(_speaking(flowing[0], seen.host, evidence),)) if flowing else seen


def _speaking(over: Channel, host: str, evidence: JobEvidence) -> Work:
    """The process at the other end, where one alone is known to have it; else the channel."""
    partners = evidence.beside.get(over.host or host, Beside()).partners
    if len(over.others) == 1 and (partner := partners.get(over.others[0])) is not None:
        return Work("beside", partner.activity.command, partner.pid, over.host, flow=over.flow, who=partner.who)
    return Work("flow", over.name, flow=over.flow)


def waits_outside(seen: View, chain: Chain) -> bool:
    """Whether a rank waits in a collective for a process that is none of the job's."""
    return not chain.ring and seen.role == "waiting" and chain.last.rank is None


def _waits_beyond(seen: View) -> bool:
    """Whether what a rank waits in may be a call of a group of which others than the ranks of the job are members."""
    if seen.role != "waiting" or seen.collectives is None:
        return False
    beyond = {group.name for group in seen.collectives.groups if group.met_at or group.name.startswith(UNNAMED)}
    return seen.pending is None or seen.pending.group in beyond


def _worth(chain: Chain) -> tuple[object, ...]:
    """The less, the more it says."""
    last = chain.last
    ends_idle = not chain.ring and (last.state == "idle" or (last.state == "inward" and not last.edge.is_a_call))
    for_others = not chain.ring and last.together
    return ends_idle, for_others, chain.unsure, not chain.ring, WORST_FIRST.index(chain.last.state), len(chain.stops)


def _in_one_call(first: Stop, other: Stop) -> bool:
    """Whether both may be in the same call of a group: they wait for a third one then, and not for each other."""
    calls = {first.seen.operation, other.seen.operation} - {""}
    return first.together and other.together and len(calls) < PAIR


# --- the search ----------------------------------------------------------------------------------------------------


@dataclass(order=True)
class _Way:
    """A way from a rank, the surest and shortest first."""

    unsure: int
    length: int
    number: int
    stops: Sequence[Stop] = field(compare=False)
    before: _Way | None = field(compare=False, default=None)
    fruitful: bool = field(compare=False, default=False)
    """Whether something that tells was found on it, or behind it."""
    joins: list[_Way] = field(compare=False, default_factory=list)
    """Better ways to processes to which it leads on, too."""


class _Graph:
    """All processes of which something is known, and who is connected with whom."""

    def __init__(self, evidence: JobEvidence, views: Sequence[View]) -> None:
        known, self._sources = evidence.beside, evidence.sources
        hosts = {v.host for v in views if v.host} | {host for host, b in known.items() if b.channels or b.partners}
        self._several = len(hosts) > 1
        self._of_ranks = {
            self._process(h, pid): channels for h, b in known.items() for pid, channels in b.channels.items()
        }
        self._partners = {
            self._process(h, pid): partner for h, b in known.items() for pid, partner in b.partners.items()
        }
        self._lock_holders = {
            self._process(h, pid): held.pid for h, b in known.items() for pid, held in b.lock_holders.items()
        }
        self._ranks = {self._process(v.host, v.pid): v for v in views}
        self._others_stand = [v.rank for v in views if v.role not in ("waiting", "ended", "not seen")]

    def _process(self, host: str, pid: int) -> HostPid:
        return host if self._several else "", pid

    def begins_at(self, view: View) -> bool:
        """Whether its channels are known."""
        return self._process(view.host, view.pid) in self._of_ranks

    def chains_of(self, view: View) -> list[Chain]:
        """The ways from a rank that end where it tells something; each thread of each process is passed once, by the best way to it."""
        own = self._process(view.host, view.pid)
        start = of_rank(view, Edge(own))
        ways, numbers, found = [_Way(0, 1, 0, [start])], itertools.count(1), []
        best: dict[tuple[HostPid, int], _Way] = {}
        while ways:
            way = heapq.heappop(ways)
            here = way.stops[-1]
            known = best.setdefault((here.process, here.tid), way)
            if known is not way:
                if way.before is not None and way.unsure == way.before.unsure:
                    way.before.joins.append(known)
                continue
            for edge in self._edges(here, view):
                if edge.to == own:
                    found += self._closed(way, edge)
                elif way.length < MOST_STEPS and all(edge.to != stop.process for stop in way.stops):
                    for stop in self._stops(edge, here):
                        if _in_one_call(start, stop):
                            continue
                        more = _Way(
                            way.unsure + (not edge.sure), way.length + 1, next(numbers), [*way.stops, stop], way
                        )
                        heapq.heappush(ways, more)
        passed = [way for way in reversed(best.values()) if way.before is not None]  # those further on first
        for way in (*(w for w in passed if not w.joins), *(w for w in passed if w.joins)):
            if any(one.fruitful for one in way.joins):
                way.fruitful = True
            elif not way.fruitful:
                ends = self._ends(view, way.stops)
                found += ends
                way.fruitful = bool(ends)
            if way.before is not None:
                way.before.fruitful |= way.fruitful
        return found

    def _closed(self, way: _Way, edge: Edge) -> list[Chain]:
        """A way that leads back to its rank. Who merely waits for a rank in a collective to speak does not know of that call."""
        if way.length == 1:
            return []
        way.fruitful = True
        last = way.stops[-1]
        told = not way.stops[0].together or last.together
        return [Chain(way.stops[1:], told, self._speechless(way.stops), guessed=told and not edge.sure)]

    def _speechless(self, stops: Sequence[Stop]) -> bool:
        """Whether these are a rank and a process of which both are in a call on one connection."""
        first, *_, last = stops
        edge = last.edge
        both = edge.sure and edge.over is not None and edge.over.accepted
        return both and len(stops) == PAIR and meet(edge, first.process, last, self._channels(last.process))

    def _ends(self, view: View, stops: Sequence[Stop]) -> list[Chain]:
        """The chain that ends with the last of `stops`, if that tells something."""
        before, last = stops[-2:]
        chain = Chain(stops[1:])
        if last.rank is not None:
            return self._at_a_rank(view, chain)
        if self._speechless(stops):
            return [replace(chain, ring=True, speechless=True)]
        if before.together and last.seen.thread is None:
            return []  # where it stands cannot be seen: it may be in that call
        telling = last.state not in ("idle", "inward") and last.seen.kind != "sleep"
        asked = self._is_asked(before, last.process, last.edge.over)
        return [chain] if last.edge.sure or before.together or telling or asked else []

    def _at_a_rank(self, view: View, chain: Chain) -> list[Chain]:
        """Another rank of the job that waits for others waits for the first one, where that alone keeps them waiting."""
        alone = self._others_stand == [view.rank] or view.role == "waiting"
        if self._ranks[chain.last.process].role != "waiting":
            return [] if chain.unsure else [chain]
        return [replace(chain, ring=True)] if alone and (view.role != "waiting" or len(chain.stops) > 1) else []

    def _stops(self, edge: Edge, before: Stop) -> list[Stop]:
        view = self._ranks.get(edge.to)
        if view is not None:
            return [of_rank(view, edge)]
        return of_partner(self._partners[edge.to], edge, before.process, self._sources)

    def _is_asked(self, here: Stop, process: HostPid, over: Channel | None) -> bool:
        """Whether a rank that sleeps and looks again asks that process each time: its thread at the other end woke up."""
        partner = self._partners.get(process)
        if here.rank is None or here.seen.kind != "sleep" or partner is None or over is None:
            return False
        if over.kind == "port":  # who serves it takes a new connection each time
            told = threads(partner, self._sources)
            return any(thread.switches for seen, thread in told if seen.kind in ("idle", "process", "network"))
        hears = {tid for tid, keys in partner.channels.at.items() if over.far in keys}
        return any(thread.switches for thread in partner.activity.threads if thread.tid in hears)

    # --- from one process to the next

    def _edges(self, here: Stop, view: View) -> Iterator[Edge]:
        if here.state in ENDS:
            return
        channels = self._channels(here.process)
        sure = [Edge(to, one) for one in self._at(here, view, channels) for to in one.beyond(here.host) if one.tells]
        sure += [
            Edge((here.host, pid)) for pid in (self._waited_child(here), self._lock_holder(here)) if pid is not None
        ]
        yield from (edge for edge in sure if self._answers_itself(edge))
        if not sure and (here.together or here.seen.kind in (_WITHIN if here.rank is None else _OUTSIDE)):
            yield from self._unsure(here, channels)

    def _answers_itself(self, edge: Edge) -> bool:
        """Whether an edge leads to a known process whose program would answer: torch's store is served by a thread of torch's."""
        view, partner = self._ranks.get(edge.to), self._partners.get(edge.to)
        at = {} if edge.over is None else self._channels(edge.to).at
        serving = [tid for tid, keys in at.items() if edge.over is not None and edge.over.far in keys]
        if partner is not None:
            return not any(t.name.startswith(_STORE) for t in partner.activity.threads if t.tid in serving)
        return view is not None and set(serving) <= {thread.tid for thread in view.threads}

    def _at(self, here: Stop, view: View, channels: Channels) -> list[Channel]:
        """The channels at which it waits. Not those of an event loop, which has all in one, or of a server that waits to be asked; nor that
        of torch's store, which gives what another rank has set.
        """
        at = channels.waited_at(here.tid)
        if here.seen.kind in _FOR_A_RESULT:
            return [channel for channel in at if channel.kind == "call"]
        if here.seen.kind == "store" or here.state == "idle" or (here.seen.kind == "idle" and len(at) > 1):
            return []
        if here.rank is None or here.seen.kind not in _FOR_ANOTHER_THREAD:
            return at
        others = [t.tid for t in view.threads if isinstance(t.tid, int) and any(not f.library for f in t.frames)]
        return [channel for tid in others for channel in channels.waited_at(tid)]

    def _unsure(self, here: Stop, channels: Channels) -> Iterator[Edge]:
        """To all with whom it is connected and who do not wait for it themselves; in a collective, to all who may be in it."""
        told: set[HostPid] = set()
        for channel in sorted(channels.open, key=lambda c: _TELLING.index(c.kind)):
            own = channel.tells and not self._inherits(here.process, channel, channel.key)
            for to in channel.beyond(here.host) if own else ():
                if (
                    to not in told
                    and not self._inherits(to, channel, channel.far)
                    and self._may_be_asked(here, channel, to)
                ):
                    told.add(to)
                    yield Edge(to, channel, sure=False)
        if not here.together and here.rank is None:
            below = [to for to, one in self._partners.items() if (to[0], one.activity.parent_pid) == here.process]
            yield from (Edge(to, sure=False) for to in below if to not in told)

    def _inherits(self, process: HostPid, channel: Channel, end: str) -> bool:
        """Whether a process merely has that end of a connection because it was forked from one that talks there."""
        partner = self._partners.get(process)
        if partner is None or channel.kind != "tcp" or partner.activity.parent_pid is None:
            return False
        return any(one.key == end for one in self._channels((process[0], partner.activity.parent_pid)).open)

    def _may_be_asked(self, here: Stop, channel: Channel, process: HostPid) -> bool:
        """A rank may have all kinds of connections that have nothing to do with its wait: what it asks again and again, or waits at."""
        partner = self._partners.get(process)
        if partner is None:
            return here.together and here.rank is None and process in self._ranks and not self._is_called(process)
        if here.together:
            return partner.trains
        if partner.who:  # all of a Ray job are connected: its calls lead there, or a connection at which one waits
            return False
        if here.rank is not None and here.seen.kind == "sleep":
            return channel.kind == "memory" or self._is_asked(here, process, channel)
        if here.rank is not None and not self._channels(here.process).is_waited_at(channel):
            return False
        return not self._waits_at(process, channel, here.process)

    def _is_called(self, process: HostPid) -> bool:
        """Whether it is looked at as a rank without being one."""
        return bool(self._ranks[process].evidence.who)

    def _waits_at(self, process: HostPid, channel: Channel, other: HostPid) -> bool:
        """Whether a thread of its program waits for `other` at the other end: an event loop, or a thread of a library, does not."""
        partner = self._partners[process]
        for seen, thread in threads(partner, self._sources):
            waited = partner.channels.waited_led(thread.tid)
            if len(waited) == 1 and other in waited[0].beyond(process[0]) and channel.meets(waited[0]):
                return seen.kind != "idle" and (seen.users is not None or partner.stacks is None)
        return False

    def _channels(self, process: HostPid) -> Channels:
        partner = self._partners.get(process)
        return partner.channels if partner is not None else self._of_ranks.get(process, Channels())

    def _waited_child(self, here: Stop) -> int | None:
        view, partner = self._ranks.get(here.process), self._partners.get(here.process)
        activity = partner.activity if partner is not None else view.activity if view is not None else None
        if activity is None or here.seen.kind != "child":
            return None
        return next((t.child_pid for t in activity.threads if t.tid == here.tid), None)

    def _lock_holder(self, here: Stop) -> int | None:
        return self._lock_holders.get(here.process) if here.seen.kind == "lock" else None
