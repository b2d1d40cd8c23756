"""The processes beside a job for which its ranks may be waiting: an engine, a server, a program at the other end of a pipe; and for whom
those wait in turn; and whether anything comes or goes where they wait. Seen from outside alone: nothing enters them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..attach.base import Link
from ..attach.discover import launcher_of
from ..command_lines import is_rays, is_tracker
from ..frames.whose import of_our_agent
from ..model import (
    Activity,
    Beside,
    Channel,
    Channels,
    FarEnd,
    Flow,
    JobProcess,
    Pace,
    Partner,
    ProcessStacks,
    RankCollectives,
    SourceLine,
    TcpEnds,
    Thread,
    Value,
    Wait,
)
from ..outside import activity, filelocks, procfs, sources
from ..outside import stacks as outside
from ..outside.channels import Ends
from ..outside.flows import Flows, Place
from ..redact import redact
from ..tasks import Task, each
from .watched import Watched

__all__ = ["Found", "OtherEnds", "at_other_ends", "lines", "locks_a_file", "look"]

WINDOW_S = 0.5
MORE_S = 4.0
"""So much longer does one look where something has come or gone just before, and might again: a stream with pauses."""
GLANCE_S = 0.25
RESERVE_S = 0.3
SETTLED_SHARE = 0.2
"""Of the window, after which the stacks are taken."""
MOST_SEEDS, MOST_PARTNERS, MOST_STEPS = 16, 24, 6
MOST_VALUES, LEAST_PORT, MOST_PORT = 500, 1024, 65535
_HOST_AND_PORT = re.compile(r"(?<![\w.-])([\w.-]*\w|\[[\da-fA-F:.]+\]):(\d{4,5})\b")
STACKS_S = 2.0
AT_ONCE = 8
_FOR_OTHER_RANKS = ("collective", "peer", "init", "teardown", "backward")
_FOR_NO_DATA = ("sleep", "store", "lock")
EVENT_LOOP = Wait("idle", "events")
_OF_ITS_OWN = ("loader", "loader_end", "gpu", "terminal", "ray")


@dataclass(frozen=True)
class Found:
    """``channels``: by the pid of each rank that was followed. ``partners``: by pid."""

    channels: Mapping[int, Channels] = field(default_factory=dict)
    partners: Mapping[int, Partner] = field(default_factory=dict)


@dataclass(frozen=True)
class OtherEnds:
    """``ends``: who has each connection of which this host has the other end. ``beside``: where these lead; ``sources``: the lines at which
    those stand.
    """

    ends: Mapping[TcpEnds, FarEnd]
    beside: Beside
    sources: Mapping[str, SourceLine]


def look(watched: Sequence[Watched], launcher_pid: int | None, ends_at: float) -> Found:
    """Follow the ranks that stand still to whom they are connected with, and those on, and see what these do. Nothing where no rank
    stands still; where nobody is found, some 3 us for each descriptor of each process of this host; else 0.6 s and 25 ms a process, and
    `MORE_S` more where a stream may merely pause.
    """
    ranks = {one.link.pid for one in watched}
    seeds = [one for one in watched if _stands(one)][:MOST_SEEDS]
    if not seeds:
        return Found()
    trail = _Trail(ranks, launcher_pid)
    for one in seeds:
        trail.begin_at_a_rank(one.link.pid, _named_servers(one))
    trail.follow(_next(trail.ends, trail.known, list(trail.known)))
    waiting = [one.link.pid for one in seeds if _may_be_sent_something(one)]
    waits = [place for one in seeds if one.link.pid in waiting for place in _places_of(one, trail.known[one.link.pid])]
    return _what_they_do(trail, waits, waiting, ends_at)


def at_other_ends(
    links: Sequence[Link], asked: Sequence[TcpEnds], called: Mapping[int, JobProcess], deadline_s: float
) -> OtherEnds:
    """Who on this host has the connections with these ends, at which somebody waits on another one, what those do that were `called`, by
    pid, and on whom all of these wait; the ranks on this host are behind `links`. Some 3 us for each descriptor of each process of this
    host; 0.6 s and 25 ms a process where somebody is found that is no rank, and `MORE_S` more where a stream may merely pause.
    """
    ends_at = time.monotonic() + deadline_s
    pids = [link.pid for link in links if link.ended() is None]
    trail = _Trail(pids, next((above for pid in pids if (above := launcher_of(pid)) is not None), None))
    ends = {one: end for one in dict.fromkeys(asked) if (end := trail.ends.at(one)) is not None}
    waited = list(dict.fromkeys([*called, *(pid for end in ends.values() for pid in end.others)]))
    trail.follow(waited)
    asked_here = [pid for pid in waited if pid in trail.partners]
    waits = [place for pid in asked_here for place in _places(pid, _asking(trail.known[pid]), trail.known[pid])]
    found = _what_they_do(trail, waits, asked_here, ends_at)
    found = replace(found, partners={p: _with_coroutines(one, called.get(p)) for p, one in found.partners.items()})
    locked = filelocks.holders([p.pid for p in found.partners.values() if locks_a_file(p.activity)])
    return OtherEnds(ends, Beside(found.channels, found.partners, locked), lines(found, ends_at))


def lines(found: Found, ends_at: float) -> Mapping[str, SourceLine]:
    """The lines at which the processes beside the job stand; none where the disk that has them does not answer."""
    stacks = [partner.stacks for partner in found.partners.values() if partner.stacks is not None]
    return Task(lambda: sources.read(stacks), "sources-beside").in_time(ends_at) or {}


def locks_a_file(about: Activity) -> bool:
    """Whether one of its threads sits in a call that does that."""
    return any(thread.call in ("flock", "fcntl") for thread in about.threads)


def _what_they_do(trail: _Trail, waits: Sequence[Place], waiting: Sequence[int], ends_at: float) -> Found:
    """What comes and goes at the places where they wait, the ones that are `waiting` and whom these have asked, and what all of them do."""
    flows = Flows([*waits, *_places_beyond(waiting, trail.known, trail.partners)])
    seen = _seen(trail.partners, min(ends_at, time.monotonic() + STACKS_S + WINDOW_S)) if trail.partners else {}
    flowing = _what_flows(flows, {place.pid for place in waits}, ends_at - RESERVE_S)
    known = _with_flows(trail.known, flowing, flows.silences())
    return Found(
        {pid: known[pid] for pid in known if pid in trail.ranks},
        {pid: _partner(about, known[pid], stacks) for pid, (about, stacks) in seen.items()},
    )


def _partner(about: Activity, channels: Channels, stacks: ProcessStacks | None) -> Partner:
    """Its command line without secrets: it is somebody's server, of which the job's log need not tell the key."""
    return Partner(replace(about, command=redact(about.command)), channels, stacks, _trains(about))


def _with_coroutines(partner: Partner, process: JobProcess | None) -> Partner:
    """With what runs in its event loop in place of the loop."""
    awaiting = [one for one in process.coroutines if one.waits_for] if process is not None else []
    threads = partner.stacks.threads if partner.stacks is not None else ()
    loops = [t for t in threads if t.waiting_for == EVENT_LOOP]
    if partner.stacks is None or not awaiting or len(loops) != 1:
        return partner
    (loop,) = loops
    told = [
        replace(loop, name=one.name, frames=one.frames, waiting_for=Wait("coroutine", on=one.waits_for or ""))
        for one in awaiting
    ]
    return replace(
        partner, stacks=replace(partner.stacks, threads=(*told, *(one for one in threads if one is not loop)))
    )


# --- whom to follow ------------------------------------------------------------------------------------------------


def _stands(one: Watched) -> bool:
    """Whether a rank makes no step, and waits at the last look for what may be another process's to give."""
    if (isinstance(one.pace, Pace) and one.pace.steps_in_window) or one.link.ended() is not None:
        return False
    thread = _training_thread(one)
    wait = thread.waiting_for if thread is not None else None
    if wait is None or wait.kind in _OF_ITS_OWN:
        return False
    if wait.kind not in _FOR_OTHER_RANKS:
        return True
    told = one.collectives
    return isinstance(told, RankCollectives) and any(group.met_at for group in told.groups)


def _training_thread(one: Watched) -> Thread | None:
    own = [p for look in one.looks[-1:] for p in look.processes if p.pid == one.link.pid]
    threads = own[0].threads if own else ()
    return next((t for t in threads if t.training), None)


class _Trail:
    """From process to process of this host: the channels of all that were come by (``known``), and, the nearest first, those that are no
    ranks (``partners``).
    """

    def __init__(self, ranks: Collection[int], launcher_pid: int | None) -> None:
        """The launcher has to do with all ranks, and leads nowhere."""
        self.ends, self.ranks = Ends(), ranks
        self.known: dict[int, Channels] = {}
        self.partners: list[int] = []
        self._apart = {os.getpid(), os.getppid(), 1, launcher_pid or 0}

    def begin_at_a_rank(self, pid: int, servers: Iterable[tuple[str, int]]) -> None:
        """`servers`: the hosts, where it says which, and the ports that its variables name."""
        own = self.ends.of(pid)
        named = [one for host, port in servers if (one := self.ends.server(pid, host, port)) is not None]
        self.known[pid] = Channels((*own.open, *named), own.at)

    def follow(self, following: Iterable[int]) -> None:
        """To these processes, and on from those of them that are no ranks."""
        for _ in range(MOST_STEPS):
            new = dict.fromkeys(pid for pid in following if pid not in self.known and pid not in self._apart)
            leading = [pid for pid in new if pid not in self.ranks and not _leads_nowhere(self.ends, pid)]
            frontier = leading[: MOST_PARTNERS - len(self.partners)]
            self.partners += frontier
            self.known.update({pid: self.ends.of(pid) for pid in (*frontier, *(p for p in new if p in self.ranks))})
            if not frontier:
                break
            following = _next(self.ends, self.known, frontier)


def _leads_nowhere(ends: Ends, pid: int) -> bool:
    """Whether it has to do with everybody: multiprocessing's own, or Ray's."""
    process = ends.processes.get(pid)  # the command line of one in uninterruptible sleep might not come
    if process is None or process.state == "D":
        return False
    command = procfs.command(pid)
    return is_tracker(command) or is_rays(command)


def _named_servers(one: Watched) -> list[tuple[str, int]]:
    """What may be a port, and the host before it, in the variables of a rank that sleeps and looks again."""
    thread = _training_thread(one)
    if thread is None or thread.waiting_for is None or thread.waiting_for.kind != "sleep":
        return []
    values = [value for scope in one.scopes for value in scope.variables.values()]
    values += [part for value in values if value.kind == "object" for part in value.parts.values()]
    return list(dict.fromkeys(server for value in values[:MOST_VALUES] for server in _servers(value)))


def _servers(value: Value) -> Iterator[tuple[str, int]]:
    said = value.plain if isinstance(value.plain, (int, str)) and not isinstance(value.plain, bool) else value.words
    found = [("", str(said))] if isinstance(said, int) or said.isdigit() else _HOST_AND_PORT.findall(said)
    told = ((host.strip("[]"), int(port)) for host, port in found if len(port) <= 5)
    yield from (one for one in told if LEAST_PORT <= one[1] <= MOST_PORT)


def _next(ends: Ends, known: Mapping[int, Channels], frontier: Sequence[int]) -> Iterator[int]:
    """First those at whose channel somebody waits, then all others, then the children, and who holds a file's lock for which one waits."""
    for waited in (True, False):
        for pid in frontier:
            for channel in known[pid].open:
                if channel.tells and known[pid].is_waited_at(channel) is waited:
                    yield from channel.others
    yield from (child.pid for child in procfs.children(frontier, ends.processes))
    yield from (holder.pid for holder in filelocks.holders(frontier).values())


# --- where they wait, and what comes there --------------------------------------------------------------------------


def _may_be_sent_something(one: Watched) -> bool:
    """Whether a rank waits for what may come over a channel; a key of torch's store is set by another rank."""
    thread = _training_thread(one)
    return thread is not None and thread.waiting_for is not None and thread.waiting_for.kind not in _FOR_NO_DATA


def _places_of(one: Watched, known: Channels) -> list[Place]:
    """Where it waits: its training thread, or another with code of the user."""
    own = [p for look in one.looks[-1:] for p in look.processes if p.pid == one.link.pid]
    tids = [t.tid for t in own[0].threads if isinstance(t.tid, int) and not all(f.library for f in t.frames)]
    return _places(one.link.pid, tids, known)


def _places_beyond(waiting: Sequence[int], known: Mapping[int, Channels], partners: Collection[int]) -> Iterator[Place]:
    """The same of the processes that they have asked, if only by a thread of a library, and of those that these have asked."""
    ahead, passed = list(waiting), set(waiting)
    while ahead:
        own = known[ahead.pop()]
        asked = {
            pid for one in own.open if own.is_waited_at(one) and not one.answers and one.tells for pid in one.others
        }
        following = (asked & set(partners)) - passed
        passed |= following
        ahead += following
        yield from (one for pid in following for one in _places(pid, _asking(known[pid]), known[pid]))


def _asking(known: Channels) -> Iterator[int]:
    """The threads of a process beside the job that wait at one channel alone, and not to be asked."""
    waits = ((tid, known.waited_at(tid)) for tid in known.at)
    return (tid for tid, at in waits if len(at) == 1 and not at[0].answers)


def _places(pid: int, tids: Iterable[int], known: Channels) -> list[Place]:
    found = ((tid, [channel.key for channel in known.waited_at(tid)]) for tid in tids)
    return [Place(pid, tid, keys) for tid, keys in found if keys]


def _what_flows(flows: Flows, ranks: Collection[int], ends_at: float) -> Mapping[tuple[int, str], Flow]:
    """Within the window; longer where something may come, up to when it has for all of `ranks`, those that wait at a place of their own."""
    if not flows.places:
        return {}
    ends = min(ends_at, flows.began + WINDOW_S)
    if flows.may_come:
        ends = min(ends_at, ends + MORE_S)
    while True:
        now = flows.now()
        left = ends - time.monotonic()
        if left <= 0 or (now and {pid for pid, _ in now} >= set(ranks)):
            return now
        time.sleep(min(GLANCE_S, left))


def _with_flows(
    known: Mapping[int, Channels], flows: Mapping[tuple[int, str], Flow], silences: Mapping[tuple[int, str], float]
) -> dict[int, Channels]:
    def told(pid: int, one: Channel) -> Channel:
        return replace(one, flow=flows.get((pid, one.key)), silent_s=silences.get((pid, one.key)))

    return {pid: Channels(tuple(told(pid, one) for one in c.open), c.at) for pid, c in known.items()}


# --- what they do --------------------------------------------------------------------------------------------------


def _seen(pids: Sequence[int], ends_at: float) -> dict[int, tuple[Activity, ProcessStacks | None]]:
    """What each does over one window that they share, and where it stands in the middle of it."""
    began = time.monotonic()
    stuck = set(procfs.uninterruptible(pids))
    taken: dict[int, ProcessStacks] = {}

    def take(pid: int) -> None:
        time.sleep(max(0.0, began + SETTLED_SHARE * WINDOW_S - time.monotonic()))
        seen = outside.dump(pid, deadline_s=max(0.1, ends_at - time.monotonic()), children=False)[0]
        taken[pid] = replace(seen, threads=tuple(t for t in seen.threads if not of_our_agent(t.frames)))

    python = [pid for pid in pids if pid not in stuck and procfs.is_python(pid)]
    watching = Task(lambda: activity.watch(pids, WINDOW_S, roles=dict.fromkeys(pids, "beside")), "partners")
    each(python, take, STACKS_S, at_once=AT_ONCE)
    return {pid: (about, taken.get(pid)) for pid, about in (watching.in_time(ends_at) or {}).items()}


def _trains(about: Activity) -> bool:
    return about.state != "D" and procfs.maps_library(about.pid, b"libtorch")
