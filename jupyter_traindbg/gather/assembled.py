"""From what was written down about each rank to the evidence about the job, with what follows from it."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..model import (
    Activity,
    Beside,
    Ending,
    HostFacts,
    JobEvidence,
    Joining,
    Look,
    Maybe,
    MeetingPoint,
    NotAvailable,
    PolledFile,
    ProcessStacks,
    RankCollectives,
    RankEvidence,
    RasReport,
    Silent,
    Soundness,
    SourceLine,
    Thread,
)
from ..outside import meeting, polled_files, procfs, sources
from ..outside.ending import Endings
from ..tasks import Task
from . import call_sites, partners, roster
from .by_source import Compared
from .reading import NOTHING_READ, Read, Reader, polled_paths, refined
from .watched import Watched

__all__ = ["Parts", "assemble"]

MEETING_S = 0.5
POLLED_S = 0.5


@dataclass(frozen=True)
class Parts:
    """What was taken. ``doing``: by the pid of a rank its own activity, then those of the processes below it."""

    name: str
    watched: Sequence[Watched]
    doing: Mapping[int, Sequence[Activity]]
    launcher_pid: int | None
    launcher: Look | None
    launcher_activity: Maybe[Activity]
    host: HostFacts | None
    ras: Maybe[RasReport]
    soundness: Mapping[int, Maybe[Soundness]]


def assemble(parts: Parts, began: float, ends: float) -> JobEvidence:
    """The evidence. What has to be read from disks or asked of a network for it may take until `ends`."""
    watched = parts.watched
    places = [_place(o, parts.doing.get(o.link.pid, ())) for o in watched]
    command = procfs.command(parts.launcher_pid) if parts.launcher_pid else ()
    nproc = next((p.local_world_size for p in places if p.local_world_size), None) or roster.told_nproc(command)
    told = (nproc or 1) * roster.told_nodes(command)
    world_size = max((o.link.world_size for o in watched), default=told)
    nproc = min(nproc, world_size) if nproc else None  # a variable of another job may be left in the environment
    absent = roster.missing(places, world_size, nproc, parts.launcher_pid)
    follows = _Follows(parts, places, absent, ends)
    read = follows.read.in_time(ends) or {}
    met = follows.partners.in_time(ends) or partners.Found()
    compared = follows.compared
    calls = compared.calls.in_time(ends) or call_sites.Read()
    polled = (
        Task(lambda: _polled(watched, read, world_size), "files").in_time(min(ends, time.monotonic() + POLLED_S)) or {}
    )
    alive = [
        dataclasses.replace(
            _present(o, p, parts.doing.get(o.link.pid, ()), world_size, follows.ending(o.link.pid, ends)),
            soundness=parts.soundness[o.link.pid],
            **_as_read(o, read.get(o.link.pid, NOTHING_READ)),
            polled=polled.get(o.link.pid, ()),
        )
        for o, p in zip(watched, places, strict=True)
    ]
    gone = [_absent(one, world_size, follows.ending_of_missing(one, ends)) for one in absent]
    return JobEvidence(
        name=parts.name,
        ranks=tuple(sorted([*alive, *gone], key=lambda r: (r.rank, r.pid))),
        world_size=world_size,
        hosts=(parts.host,) if parts.host is not None else (),
        launcher_pid=parts.launcher_pid,
        launcher_command=" ".join(command),
        nproc=nproc,
        silent=tuple(_silent(o) for o in watched if o.problem),
        sources={**calls.sources, **(follows.sources.in_time(ends) or {}), **partners.lines(met, ends)},
        meeting=follows.meeting.in_time(ends) or (),
        blocks=compared.blocks.in_time(ends) or {},
        forks=calls.forks,
        past=compared.past.in_time(ends) or (),
        launcher=parts.launcher,
        launcher_activity=parts.launcher_activity,
        launcher_running_s=_running_s(parts.launcher_pid),
        ras=parts.ras,
        beside={socket.gethostname(): Beside(met.channels, met.partners)},
        taken_s=time.monotonic() - began,
    )


class _Follows:
    """What is to be found out after the ranks were asked: all at once, as a disk or a name server may not answer."""

    def __init__(
        self, parts: Parts, places: Sequence[roster.Place], absent: Sequence[roster.Missing], ends: float
    ) -> None:
        alive = [one.link.pid for one in parts.watched if one.link.ended() is None]
        noted = {one.link.pid: one.link.noted for one in parts.watched}
        self._endings = Endings(parts.launcher_pid, alive, parts.launcher, noted)
        dead = {p.pid: (p.pid, p.rank, p.local_rank) for p in places if p.pid not in alive}
        lost = {m: (m.pid, m.rank, m.local_rank) for m in absent if m.why == "ended"}
        self._by_pid = {pid: self._ask(*about) for pid, about in dead.items()}
        self._missing = {m: self._ask(*about) for m, about in lost.items()}
        self.sources: Task[Mapping[str, SourceLine]] = Task(lambda: _sources(parts.watched), "sources")
        reader = Reader()
        self.compared = Compared(parts.watched, _text, reader)
        self.read = Task(lambda: _read(parts.watched, reader), "variables")
        self.partners = Task(lambda: partners.look(parts.watched, parts.launcher_pid, ends), "partners")
        self.meeting: Task[Sequence[MeetingPoint]] = Task(lambda: _meeting(parts), "meeting")

    def _ask(self, pid: int, rank: int, local_rank: int) -> Task[Ending]:
        return Task(lambda: self._endings.of(pid, rank, local_rank), f"ending-{rank}")

    def ending(self, pid: int, ends: float) -> Ending | None:
        return _in_time(self._by_pid[pid], pid, ends) if pid in self._by_pid else None

    def ending_of_missing(self, one: roster.Missing, ends: float) -> Ending | None:
        return _in_time(self._missing[one], one.pid, ends) if one in self._missing else None


def _in_time(task: Task[Ending], pid: int, ends: float) -> Ending:
    late = NotAvailable("the log, or the kernel's, did not answer in time")
    return task.in_time(ends) or Ending(pid, exit_code=late, signal=late, out_of_memory=late)


def _sources(watched: Sequence[Watched]) -> Mapping[str, SourceLine]:
    by_pid = {one.link.pid: one for one in watched}
    stacks = [process for one in watched for look in one.looks for process in look.processes]
    return sources.read(
        (*stacks, *(_awaiting(one) for one in watched if one.coroutines)),
        lambda process, file: (
            _text(by_pid[process.pid], file) if process.pid in by_pid else sources.text_of(process.pid, file)
        ),
    )


def _read(watched: Sequence[Watched], reader: Reader) -> Mapping[int, Read]:
    """By the pid of each rank."""
    return {
        one.pid: reader.read(one.scopes, partial(_text, one), one.rank, one.link.world_size, before=one.scopes_before)
        for one in watched
    }


def _polled(
    watched: Sequence[Watched], read: Mapping[int, Read], world_size: int
) -> Mapping[int, Sequence[PolledFile]]:
    """By the pid of each rank that sleeps in a loop that names files."""
    ranks = [one.link.pid for one in watched]
    named = {
        one.link.pid: polled_paths(read[one.link.pid], one.looks, one.link.pid)
        for one in watched
        if one.link.pid in read
    }
    return polled_files.look({pid: paths for pid, paths in named.items() if paths}, ranks, world_size)


def _text(one: Watched, file: str) -> str | None:
    text = sources.text_of(one.link.pid, file)
    return one.cell(file) if text is None else text


def _as_read(one: Watched, read: Read) -> dict[str, Any]:
    return {
        "looks": refined(one.looks, one.link.pid, read),
        "scopes": tuple(one.scopes),
        "looks_at": tuple(read.looks_at),
        "only_asks": read.awaited is not None and read.awaited.polled,
        "changed": tuple(read.changed),
        "variables": tuple(read.variables),
    }


def _awaiting(one: Watched) -> ProcessStacks:
    """Its coroutines in the form of stacks, which they are on none of."""
    unseen = NotAvailable("it is on no thread's stack")
    threads = tuple(Thread(c.name, unseen, unseen, c.frames) for c in one.coroutines)
    return ProcessStacks(one.link.rank, one.link.pid, "rank", "agent", threads)


def _meeting(parts: Parts) -> Sequence[MeetingPoint]:
    """Where ranks are to meet that are still joining; where there is none, where their launchers are to."""
    told = [(one.link.pid, one.joining) for one in parts.watched if isinstance(one.joining, Joining)]
    if not parts.watched and parts.launcher_pid:
        endpoint = roster.told_endpoint(procfs.command(parts.launcher_pid))
        told = [(parts.launcher_pid, Joining(None, None, *endpoint))] if endpoint else []
    return meeting.meeting_points(told, MEETING_S)


def _running_s(pid: int | None) -> float | None:
    process = procfs.stat(pid) if pid else None
    return procfs.running_s(process) if process is not None else None


# --- one rank ------------------------------------------------------------------------------------------------------


def _place(one: Watched, doing: Sequence[Activity]) -> roster.Place:
    environ = one.environ if isinstance(one.environ, Mapping) else {}
    own = next((a for a in doing if a.pid == one.link.pid), None)
    joined = isinstance(one.collectives, RankCollectives) and one.collectives.groups
    return roster.place(one.link.pid, one.link.rank, environ, own.sockets if own is not None and joined else ())


def _present(
    one: Watched, place: roster.Place, doing: Sequence[Activity], world_size: int, ended: Ending | None
) -> RankEvidence:
    pid = one.link.pid
    own = next((a for a in doing if a.pid == pid), None)
    seen: Maybe[Activity] = own if own is not None else NotAvailable("the process is gone")
    roles = {
        p.pid: p.role for look in one.looks for p in look.processes
    }  # old torch names its workers in their stacks only
    return RankEvidence(
        rank=one.link.rank,
        world_size=world_size,
        local_rank=place.local_rank,
        pid=pid,
        host=socket.gethostname(),
        looks=tuple(one.looks),
        activity=seen,
        children=tuple(dataclasses.replace(a, role=roles.get(a.pid, a.role)) for a in doing if a.pid != pid),
        pace=one.pace,
        collectives=one.collectives,
        call_sites=one.call_sites,
        calls_in_window=one.calls_in_window,
        environ=one.environ,
        ending=ended,
        joining=one.joining,
        making=one.making,
        coroutines=one.coroutines,
        handled=one.handled,
        replicas=one.replicas,
        compilations=one.compilations,
        problem=one.problem,
        shut_out=one.shut_out,
    )


_REASONS = {
    "ended": "the process is gone",
    "elsewhere": "it belongs to another host",
    "not known": "no process of this host has this rank now",
}


def _absent(one: roster.Missing, world_size: int, ended: Ending | None) -> RankEvidence:
    nothing = NotAvailable(_REASONS[one.why])
    return RankEvidence(
        rank=one.rank,
        world_size=world_size,
        local_rank=one.local_rank,
        pid=one.pid or (ended.pid if ended is not None else 0),
        host=socket.gethostname() if one.why == "ended" else "",
        activity=nothing,
        pace=nothing,
        collectives=nothing,
        call_sites=nothing,
        calls_in_window=nothing,
        environ=nothing,
        joining=nothing,
        compilations=nothing,
        soundness=nothing,
        ending=ended,
        problem=nothing.reason,
    )


def _silent(one: Watched) -> Silent:
    reason = one.link.problem
    return Silent(one.link.rank, one.link.pid, one.problem, reason.next_step if reason is not None else "")
