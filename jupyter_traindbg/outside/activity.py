"""What processes do over a short window, from two readings of /proc: CPU, state, system call, I/O, page faults, sockets. No help from them.

One look cannot tell waiting from working: a thread that sleeps now may run a millisecond later. The difference of two readings can: its CPU
time, and how often it was given a CPU at all. Costs 60 us a thread and reading, and nothing to the process. Never blocks on a process in
uninterruptible sleep: whatever needs the lock of its memory map is left out.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..model import Activity, Maybe, NotAvailable, Socket, ThreadActivity
from . import open_files, procfs, sockets

__all__ = ["watch"]

MOST_SOCKETS = 64
_LONGEST = 200
_NO_IO = NotAvailable("the kernel shows it to the process's own user only")
_SOCKET_CALLS = ("poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2")
_NO_DELAYS = NotAvailable("this kernel does not count it")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def watch(pids: Iterable[int], window_s: float, *, roles: Mapping[int, str] | None = None) -> dict[int, Activity]:
    """What each of `pids` did during the next `window_s` seconds: two readings around one window that they share.

    `roles` are what to call them (else ``"rank"``). Takes `window_s` and about 1 ms a process. Those that are gone at the end are not
    in the answer; one that has ended and was not buried yet is, with state Z.
    """
    roles = roles or {}
    wanted = list(dict.fromkeys(pids))
    ends = time.monotonic() + window_s
    stuck = frozenset(procfs.uninterruptible(wanted))
    before = {pid: _read(pid) for pid in wanted}
    time.sleep(max(0.0, ends - time.monotonic()))
    tables = _Tables()
    found = {}
    for pid in wanted:
        then, now = before[pid], _read(pid)
        if then is not None and now is not None:
            found[pid] = _activity(pid, roles.get(pid, "rank"), then, now, tables, careful=pid in stuck)
    return found


# --- one reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Clock:
    """Of a thread: CPU time, how often it was given a CPU, and how long it was ready and had none (None: not counted)."""

    cpu_ns: int
    runs: int
    starved_ns: int | None


@dataclass(frozen=True)
class _Reading:
    """The counters of a process at one moment."""

    at_s: float
    threads: Mapping[int, _Clock]
    read_bytes: int | None
    written_bytes: int | None
    major_faults: int
    swap_bytes: Maybe[int]
    files: Mapping[tuple[str, open_files.Mode], open_files.Seen] = field(default_factory=dict)
    ended_ns: int = 0
    """CPU time of the children that have ended and were waited for, and of theirs."""


def _read(pid: int) -> _Reading | None:
    fields = procfs.text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields:
        return None
    io = procfs.fields(f"/proc/{pid}/io")
    tids = _tids(pid)
    at = time.monotonic()
    return _Reading(
        at,
        {tid: _cpu(pid, tid) for tid in tids},
        _most(io, "rchar", "read_bytes"),
        _most(io, "wchar", "write_bytes"),
        int(fields[9]),
        _kib(procfs.fields(f"/proc/{pid}/status"), "VmSwap"),
        open_files.read(pid),
        sum(map(int, fields[13:15])) * _TICK_NS,
    )


def _most(io: Mapping[str, str], *names: str) -> int | None:
    """The greatest of some counters: bytes through read() count as one, those that a memory map brings from the disk as another."""
    return max((int(io[name]) for name in names if name in io), default=None)


def _tids(pid: int) -> list[int]:
    try:
        return sorted((int(name) for name in os.listdir(f"/proc/{pid}/task")), key=lambda tid: (tid != pid, tid))
    except OSError:
        return []


def _cpu(pid: int, tid: int) -> _Clock:
    """From coarser clocks where the kernel keeps no fine ones."""
    fine = procfs.text(f"/proc/{pid}/task/{tid}/schedstat").split()
    if len(fine) == 3:
        return _Clock(int(fine[0]), int(fine[2]), int(fine[1]))
    ticks = procfs.text(f"/proc/{pid}/task/{tid}/stat").rpartition(")")[2].split()[11:13]
    status = procfs.fields(f"/proc/{pid}/task/{tid}/status")
    switches = (int(status.get(f"{kind}voluntary_ctxt_switches", "0")) for kind in ("", "non"))
    return _Clock(sum(map(int, ticks)) * _TICK_NS, sum(switches), None)


# --- from two readings to an Activity ------------------------------------------------------------------------------


class _Tables:
    """The socket tables, read once for each network namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Socket]] = {}

    def of(self, pid: int) -> dict[str, Socket]:
        try:
            namespace = os.readlink(f"/proc/{pid}/ns/net")
        except OSError:
            return {}
        if namespace not in self._by_namespace:
            self._by_namespace[namespace] = sockets.table(pid)
        return self._by_namespace[namespace]


def _activity(pid: int, role: str, then: _Reading, now: _Reading, tables: _Tables, *, careful: bool) -> Activity:
    window_s = max(1e-6, now.at_s - then.at_s)
    status = procfs.fields(f"/proc/{pid}/status")
    kernel = {t.tid: t for t in procfs.threads(pid)}
    known = tables.of(pid)
    threads = tuple(
        _thread(pid, kernel[tid], _spent(then, now, tid), window_s, None if careful else known)
        for tid in now.threads
        if tid in kernel
    )
    main, process = kernel.get(pid), procfs.stat(pid)
    tracer = int(status.get("TracerPid", "0"))
    return Activity(
        pid=pid,
        role=role,
        command=_command(pid, careful),
        window_s=window_s,
        state=main.state if main is not None else "X",
        cpu_share=sum(t.cpu_share for t in threads),
        threads=threads,
        read_bytes_per_s=_rate(then.read_bytes, now.read_bytes, window_s),
        written_bytes_per_s=_rate(then.written_bytes, now.written_bytes, window_s),
        major_faults_per_s=(now.major_faults - then.major_faults) / window_s,
        rss_bytes=procfs.rss_bytes(pid),
        swap_bytes=now.swap_bytes,
        swap_growth_bytes_per_s=_growth(then.swap_bytes, now.swap_bytes, window_s),
        files=open_files.between(then.files, now.files),
        traced_by=tracer or None,
        running_s=NotAvailable("the process is gone") if process is None else procfs.running_s(process),
        sockets=tuple(sockets.of(pid, known)[:MOST_SOCKETS]),
        parent_pid=0 if process is None else process.parent,
        ended_cpu_share=max(0, now.ended_ns - then.ended_ns) / 1e9 / window_s,
    )


def _spent(then: _Reading, now: _Reading, tid: int) -> _Clock:
    """Within the window. A thread that began within it counts from its beginning."""
    last, first = now.threads[tid], then.threads.get(tid, _Clock(0, 0, 0))
    starved_ns = None if last.starved_ns is None or first.starved_ns is None else last.starved_ns - first.starved_ns
    return _Clock(max(0, last.cpu_ns - first.cpu_ns), max(0, last.runs - first.runs), starved_ns)


def _thread(
    pid: int,
    seen: procfs.KernelThread,
    spent: _Clock,
    window_s: float,
    known: Mapping[str, Socket] | None,
) -> ThreadActivity:
    """`known` are the connections by the targets of their descriptors; None where the process's memory must be left alone."""
    call = procfs.system_call(pid, seen.tid, memory=known is not None)
    wchan = procfs.text(f"/proc/{pid}/task/{seen.tid}/wchan")
    on, child = sockets.named(call.on, known or {}), None
    if on is None and known is not None:
        raw = procfs.raw_system_call(pid, seen.tid)
        child = _child(*raw)
        on = _polled(pid, *raw, known) if child is None else _child_words(child)
    return ThreadActivity(
        tid=seen.tid,
        name=seen.name,
        state=seen.state,
        cpu_share=min(1.0, spent.cpu_ns / 1e9 / window_s),
        switches=spent.runs,
        wchan=wchan if wchan.strip("0") else NotAvailable("it runs, or the kernel does not show it"),
        call=call.name,
        on=on,
        starved_share=_NO_DELAYS if spent.starved_ns is None else min(1.0, max(0, spent.starved_ns) / 1e9 / window_s),
        child_pid=child,
    )


def _child(call: str, arguments: tuple[int, ...]) -> int | None:
    """For the end of which child a thread waits in `call`; None where it waits for none, or for any."""
    if call != "wait4" and not (call == "waitid" and arguments[0] == os.P_PID):
        return None
    child = ctypes.c_int32(arguments[call == "waitid"]).value
    return child if child > 0 else None


def _child_words(pid: int) -> str:
    return f"process {pid}: {' '.join(procfs.command(pid))[:_LONGEST]}"


def _polled(pid: int, call: str, arguments: tuple[int, ...], known: Mapping[str, Socket]) -> str | None:
    """The connections of a poll, which names no descriptor in its first place."""
    if call not in _SOCKET_CALLS:
        return None
    tcp = [str(known[on]) for on in sockets.polled(pid, call, arguments) if on in known]
    return None if not tcp else tcp[0] if len(tcp) == 1 else f"{tcp[0]} and {len(tcp) - 1} more"


def _command(pid: int, careful: bool) -> str:
    """The command line; only the name where reading it could block, or where none is left, as of one that has ended."""
    line = "" if careful else " ".join(procfs.command(pid))
    process = None if line else procfs.stat(pid)
    return line if process is None else process.comm


def _rate(then: int | None, now: int | None, window_s: float) -> Maybe[float]:
    return _NO_IO if then is None or now is None else (now - then) / window_s


def _growth(then: Maybe[int], now: Maybe[int], window_s: float) -> Maybe[float]:
    if isinstance(then, NotAvailable):
        return then
    return now if isinstance(now, NotAvailable) else (now - then) / window_s


def _kib(status: Mapping[str, str], name: str) -> Maybe[int]:
    words = status.get(name, "").split()
    return int(words[0]) * 1024 if words else NotAvailable("this kernel does not count it")
