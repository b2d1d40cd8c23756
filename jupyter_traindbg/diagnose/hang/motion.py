"""Whether something gets on: a thread that computes, data that flows; and what works for a rank whose training thread waits.

A rank that writes a large checkpoint to a slow disk, or waits for a program that computes, is at the same place at every look and uses no
CPU. That the file grows, or that the program computes, is its progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...frames.whose import user_frame
from ...language import text
from ...model import Activity, Flow, NotAvailable, OpenFile, Thread, ThreadActivity
from ...words.durations import time_words
from ...words.sizes import size
from .doing import Doing, Kind
from .words import command_words, process_words

__all__ = [
    "BUSY_SHARE",
    "FLOWING_SWITCHES",
    "Work",
    "busy",
    "flows",
    "moved_bytes",
    "started_for",
    "thread_activity",
    "work_for",
    "work_words",
]

BUSY_SHARE = 0.1
"""A thread that uses more than this of a CPU gets on with something."""
WANTED_SHARE = 0.25
"""The same with the time that it waited for a CPU, of which one that merely wakes up now and then has some, too, on a full machine."""
FLOWING_BYTES_PER_S, FLOWING_SWITCHES = 2**20, 8
"""More than our own agent's arrival reads; more often woken than by a time-out now and then."""
GROWN_BYTES, READ_BYTES, FLUSHED_BYTES = 4096, 2**16, 2**20
"""A buffered writer writes so much at once, a slow reader reads so much; a disk that answers is given so much of a checkpoint."""
_FLUSHES = ("fsync", "fdatasync")
_MOST = 3


def busy(seen: ThreadActivity | None) -> bool:
    """Whether a thread uses a CPU, or would if the machine had one left for it."""
    if seen is None:
        return False
    starved = 0.0 if isinstance(seen.starved_share, NotAvailable) else seen.starved_share
    return (
        seen.cpu_share > BUSY_SHARE
        or seen.cpu_share + starved > WANTED_SHARE
        or seen.state == "R"
        or seen.call == "running"
    )


def flows(seen: Doing, activity: Activity | None, thread: ThreadActivity | None) -> bool:
    """Whether data comes or goes at the place where a thread waits for a file, a pipe or the network."""
    if seen.kind not in ("file", "network", "pipe"):
        return False
    return _moves_bytes(activity) or (thread is not None and thread.switches >= FLOWING_SWITCHES)


def _moves_bytes(activity: Activity | None) -> bool:
    return activity is not None and _bytes_per_s(activity) > FLOWING_BYTES_PER_S


def _bytes_per_s(activity: Activity) -> float:
    rates = (activity.read_bytes_per_s, activity.written_bytes_per_s)
    return sum(rate for rate in rates if not isinstance(rate, NotAvailable))


def thread_activity(activity: Activity | None, thread: Thread | None, pid: int) -> ThreadActivity | None:
    """What /proc says of `thread`, by default of the main thread of `pid`."""
    if activity is None:
        return None
    tid = thread.tid if thread is not None and isinstance(thread.tid, int) else pid
    return next((t for t in activity.threads if t.tid == tid), None)


# --- what works for a rank that waits ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """Something that gets on while a rank's training thread waits: a file that is written or read, a process below it, another thread.

    ``name``: the path, the process's command, the thread's name; ``beside`` is a process that is not below it, ``programs`` are those that
    the rank had started and that have ended meanwhile. ``pid``: of that process; ``host``: where it is, if that is another one; ``who``:
    how its job calls it. ``bytes``: by how much the position in the file moved during the look, and of one that is ``flushed`` what its
    disk was given; ``cpu_share``: of one CPU. ``flow``: what has come or gone over the channel ``name`` of one that is a ``flow``, or
    between a process ``beside`` and whoever waits for it.
    """

    kind: Literal["written", "in place", "read", "flushed", "process", "programs", "thread", "beside", "flow"]
    name: str
    pid: int = 0
    host: str = ""
    bytes: int = 0
    cpu_share: float = 0.0
    flow: Flow | None = None
    who: str = ""


@dataclass(frozen=True)
class _Rank:
    """What may work for a rank: itself, and the processes below it."""

    now: Doing
    own: Activity | None
    below: Sequence[Activity]
    threads: Sequence[Thread]


def work_for(
    now: Doing, own: Activity | None, below: Sequence[Activity], threads: Sequence[Thread]
) -> tuple[Work, ...]:
    """What gets on while the training thread waits as in `now`; the first few. `own` and `below`: the activity of its process and of those
    below it; `threads`: all of its process.
    """
    if now.kind == "idle" and now.users is None:
        return ()
    rank = _Rank(now, own, below, threads)
    found = [work for look in _SOURCES.get(now.kind, ()) for work in look(rank)]
    return tuple(dict.fromkeys(found))[:_MOST]


def _written(rank: _Rank) -> Iterable[Work]:
    return _grown([] if rank.own is None else [rank.own])


def _written_in_place(rank: _Rank) -> Iterable[Work]:
    """By pwrite(), which moves no position: the process has written, and has a file open for that."""
    own = rank.own
    if own is None or isinstance(own.written_bytes_per_s, NotAvailable):
        return
    written, file = int(own.written_bytes_per_s * own.window_s), next((f for f in own.files if f.mode == "write"), None)
    if file is not None and written >= GROWN_BYTES and not any(f.moved for f in own.files):
        yield Work("in place", file.path, bytes=written)


def _written_below(rank: _Rank) -> Iterable[Work]:
    return _grown(_programs(rank))


def _grown(processes: Sequence[Activity]) -> Iterable[Work]:
    files = (f for process in processes for f in process.files)
    return (Work("written", f.path, bytes=f.moved) for f in files if f.mode == "write" and f.moved >= GROWN_BYTES)


def _read(rank: _Rank) -> Iterable[Work]:
    files: Sequence[OpenFile] = () if rank.own is None else rank.own.files
    return (Work("read", f.path, bytes=f.moved) for f in files if f.mode == "read" and f.moved >= READ_BYTES)


def _flushed(rank: _Rank) -> Iterable[Work]:
    """What is written already and has to reach the disk: torch's distributed checkpoints wait for that."""
    if rank.own is None:
        return
    flushes = {t.on for t in rank.own.threads if t.call in _FLUSHES}
    for file in rank.own.files:
        if file.path in flushes and file.to_disk is not None and file.to_disk >= FLUSHED_BYTES:
            yield Work("flushed", file.path, bytes=file.to_disk)


def _threads(rank: _Rank) -> Iterable[Work]:
    """Threads with code of the user that compute."""
    for thread in rank.threads:
        if thread == rank.now.thread or user_frame(thread.frames) is None or rank.own is None:
            continue
        seen = thread_activity(rank.own, thread, rank.own.pid)
        if seen is not None and seen.tid != rank.own.pid and busy(seen):
            yield Work("thread", thread.name, cpu_share=seen.cpu_share)


def _programs(rank: _Rank) -> list[Activity]:
    return [a for a in rank.below if a.role != "DataLoader worker"]


def _computing(rank: _Rank) -> Iterable[Work]:
    return (_process(a) for a in _programs(rank) if _computes(a))


def _came_and_went(rank: _Rank) -> Iterable[Work]:
    """Programs that the threads of a pool start, one after the other: each may last for less than the look."""
    if rank.own is not None and rank.own.ended_cpu_share > BUSY_SHARE:
        yield Work("programs", "")


def _computes(seen: Activity) -> bool:
    return seen.cpu_share + seen.ended_cpu_share > BUSY_SHARE or _moves_bytes(seen)


def started_for(below: Sequence[Activity], within_s: float) -> tuple[Work, ...]:
    """Programs that get on and were started within the last `within_s` seconds, those below them counted in: what a rank that sleeps looks
    at now and then. One that has been there for longer, as a logger's helper has, is no sign of that.
    """
    young = {a.pid for a in below if not isinstance(a.running_s, NotAvailable) and a.running_s <= within_s}
    return tuple(_process(a) for a in below if a.role == "child" and a.pid in young and _computes(a))[:_MOST]


def _loading(rank: _Rank) -> Iterable[Work]:
    return (_process(a) for a in rank.below if a.role == "DataLoader worker" and _loads(a))


def _loads(worker: Activity) -> bool:
    main = thread_activity(worker, None, worker.pid)
    if worker.state in ("T", "t") or main is None:
        return False
    wakes_up = main.switches > 0 and main.call in ("nanosleep", "clock_nanosleep")
    return busy(main) or wakes_up or _moves_bytes(worker)


def _process(seen: Activity) -> Work:
    return Work("process", seen.command, pid=seen.pid, cpu_share=seen.cpu_share + seen.ended_cpu_share)


_Source = Callable[[_Rank], Iterable[Work]]
_ITSELF: Sequence[_Source] = (_written, _written_in_place)
_READER: Sequence[_Source] = (_written, _written_in_place, _read, _flushed)
_THREAD: Sequence[_Source] = (_threads, _written, _read, _flushed)
_PROCESS: Sequence[_Source] = (_computing, _written_below, _written)
_SOURCES: Mapping[Kind, Sequence[_Source]] = {
    "file": _READER,
    "device": _ITSELF,
    "sleep": _ITSELF,
    "network": _ITSELF,
    "native": _ITSELF,
    "lock": (_written, _flushed),
    "thread": _THREAD,
    "queue": _THREAD,
    "future": (*_THREAD, _computing, _came_and_went),
    "pipe": _PROCESS,
    "process": _PROCESS,
    "child": _PROCESS,
    "idle": (*_THREAD, *_PROCESS),
    "loader": (_loading,),
}
"""By what the training thread waits for, what may be working on that. ``idle``: in the user's event loop."""


def moved_bytes(seen: Activity) -> int:
    """How much a process has read and written during the look: of its files, else of anything; 0 where that is too little to tell. Logs do
    not count.
    """
    read = sum(f.moved for f in seen.files if f.mode == "read")
    written = sum(f.moved for f in seen.files if f.mode == "write")
    of_files = (read if read >= READ_BYTES else 0) + (written if written >= GROWN_BYTES else 0)
    rate = _bytes_per_s(seen)
    return of_files or (int(rate * seen.window_s) if rate > FLOWING_BYTES_PER_S else 0)


def work_words(work: Work) -> str:
    """``/ckpt/step-100.pt grew by 3.1 MiB during the look``, ``process 4711 (`gzip -dc shard.gz`) uses 98% of a CPU``: for evidence."""
    amount = f"{work.bytes / 2**20:.1f} MiB" if work.bytes >= 2**17 else f"{work.bytes / 2**10:.0f} KiB"
    if work.kind == "written":
        return text("{name} grew by {amount} during the look", name=work.name, amount=amount)
    if work.kind == "in place":
        return text("{amount} were written during the look, and {name} is open for that", amount=amount, name=work.name)
    if work.kind == "read":
        return text("{amount} of {name} were read during the look", amount=amount, name=work.name)
    if work.kind == "flushed":
        return text("{amount} reached the disk below {name} during the look", amount=amount, name=work.name)
    if work.flow is not None:
        return _flow_words(work, work.flow)
    return _share_words(work, f"{work.cpu_share:.0%}", command_words(work.name))


def _flow_words(work: Work, flow: Flow) -> str:
    amount = text("something") if isinstance(flow.bytes, NotAvailable) else size(flow.bytes)
    within = time_words(flow.within_s)
    if work.kind == "beside":
        return text(
            "{process}, for which it waits, has sent or taken {amount} within {within}",
            process=_beside(work),
            amount=amount,
            within=within,
        )
    return text(
        "over {name}, where it waits, {amount} came or went within {within}",
        name=work.name,
        amount=amount,
        within=within,
    )


def _beside(work: Work) -> str:
    return process_words((work.host, work.pid), f" (`{command_words(work.name)}`)", work.who)


def _share_words(work: Work, share: str, command: str) -> str:
    if work.kind == "thread":
        return text("its thread {name} uses {share} of a CPU", name=work.name, share=share)
    if work.kind == "programs":
        return text("programs that it had started have used a CPU, and ended during the look")
    if work.kind == "beside" and work.bytes:
        return text(
            "{process}, for which it waits, has read or written {amount} during the look",
            process=_beside(work),
            amount=f"{work.bytes / 2**10:.0f} KiB",
        )
    if work.kind == "beside":
        return text("{process}, for which it waits, uses {share} of a CPU", process=_beside(work), share=share)
    return text(
        "process {pid} (`{command}`) below it uses {share} of a CPU", pid=work.pid, command=command, share=share
    )
