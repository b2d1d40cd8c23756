"""Which threads of a process may be borrowed for one call into the loader: those parked in a system call that holds nothing.

The borrowed thread runs dlopen, which takes the loader's and malloc's locks. So a thread that may hold, or wait for, one of those is
never taken, nor a running one: to make that call dlopen has been seen to hang programs (pending.py has it call less).
Everything is read from /proc; nothing is stopped. Linux only.
"""

from __future__ import annotations

import os
import platform
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ..language import text

__all__ = ["Look", "Maps", "NotParked", "Parked", "look", "wait_of"]

# Calls that a thread sleeps in at a place of its own choosing. Writing calls are left out (an allocation tracker sends from inside
# malloc), so is everything that opens files (the loader).
_WAITS: dict[str, dict[int, str]] = {
    "x86_64": {
        0: "read", 7: "poll", 23: "select", 34: "pause", 35: "nanosleep", 43: "accept", 45: "recvfrom", 47: "recvmsg", 61: "wait4",
        202: "futex", 219: "restart_syscall", 230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid", 270: "pselect6",
        271: "ppoll", 281: "epoll_pwait", 288: "accept4", 299: "recvmmsg", 441: "epoll_pwait2",
    },
    "aarch64": {
        22: "epoll_pwait", 63: "read", 72: "pselect6", 73: "ppoll", 95: "waitid", 98: "futex", 101: "nanosleep",
        115: "clock_nanosleep", 128: "restart_syscall", 202: "accept", 207: "recvfrom", 212: "recvmsg", 242: "accept4",
        243: "recvmmsg", 260: "wait4", 441: "epoll_pwait2",
    },
}  # fmt: skip
_FUTEX_WAIT, _FUTEX_WAIT_BITSET = 0, 9
_FUTEX_FLAGS = 0x80 | 0x100  # private; realtime clock
# Where a plain FUTEX_WAIT is a low-level lock: malloc's arenas, the loader, stdio ...
_LIBC = re.compile(r"^(libc|libpthread|librt|libdl|ld)([-.]|$)")
_ALLOCATOR = re.compile(r"alloc|hoard|scudo|[lt]san|asan|memray", re.IGNORECASE)
_WAITING_FILES = ("pipe:", "socket:", "anon_inode:", "/dev/pts/", "/dev/tty")
_MAIN_THREAD_PENALTY = 10


@dataclass(frozen=True)
class Parked:
    """A thread that may be borrowed. ``syscall`` is its line in /proc, to be compared once it is stopped; lower ``rank`` is better."""

    tid: int
    call: str
    rank: int
    syscall: str


@dataclass(frozen=True)
class NotParked:
    """Why a thread may not be borrowed."""

    reason: str


@dataclass(frozen=True)
class Look:
    """All threads of a process at one moment: those that may be borrowed, best first, and why the others may not, counted."""

    parked: tuple[Parked, ...]
    others: Counter[str]

    def words(self) -> str:
        may = ", ".join(f"{thread.tid} in {thread.call}" for thread in self.parked[:4])
        more = f" and {len(self.parked) - 4} more" if len(self.parked) > 4 else ""
        return f"may be borrowed: {may or 'no thread'}{more}; not: {self.why_none()}"

    def why_none(self) -> str:
        each = (text("{count} {reason}", count=count, reason=reason) for reason, count in self.others.most_common())
        return text(", ").join(each) or text("no threads")


class Maps:
    """The files that addresses of a process belong to; /proc/PID/maps is read when first asked (a few ms for a process with torch)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._starts: list[int] | None = None
        self._rows: list[tuple[int, str]] = []

    def file_at(self, address: int) -> str:
        """The path mapped at `address`; empty for anonymous memory or none."""
        if self._starts is None:
            self._read()
        assert self._starts is not None
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return ""
        end, path = self._rows[index]
        return path if address < end else ""

    def _read(self) -> None:
        starts = []
        with open(f"/proc/{self._pid}/maps", encoding="utf-8", errors="surrogateescape") as f:
            for line in f:
                fields = line.split(None, 5)
                start, end = fields[0].split("-")
                starts.append(int(start, 16))
                self._rows.append((int(end, 16), fields[5].rstrip("\n") if len(fields) > 5 else ""))
        self._starts = starts


def wait_of(
    syscall: str,
    file_at: Callable[[int], str],
    fd_target: Callable[[int], str],
    machine: str = platform.machine(),
) -> tuple[str, int] | NotParked:
    """The call that a sleeping thread is parked in and its rank, judged from its line in /proc/PID/task/TID/syscall.

    `file_at` names the file mapped at an address, `fd_target` what a descriptor points to. Pure but for those two.
    """
    words = syscall.split()
    if len(words) != 9:  # "running", or "-1 SP PC": blocked, but not in a system call
        return NotParked(text("running"))
    call = _WAITS.get(machine, {}).get(int(words[0]))
    if call is None:
        return NotParked(text("in system call {number}", number=words[0]))
    arguments = [int(word, 16) for word in words[1:7]]
    pc = int(words[8], 16)
    if call == "futex":
        return _futex(arguments[1], os.path.basename(file_at(pc)))
    if call == "read":
        target = fd_target(arguments[0])
        # A read from a file system may be the loader reading a library.
        return (call, 0) if target.startswith(_WAITING_FILES) else NotParked(text("reading a file"))
    # restart_syscall goes on with a wait that has a time limit; no lock of malloc or the loader has one.
    # epoll last: on it (alone of these) an interruption is visible to the program.
    return (call, 2 if call.startswith("epoll") else 0)


def _futex(operation: int, library: str) -> tuple[str, int] | NotParked:
    command = operation & ~_FUTEX_FLAGS
    if _ALLOCATOR.search(library):
        return NotParked(text("waiting in an allocator ({library})", library=library))
    if command == _FUTEX_WAIT_BITSET:  # glibc: condition variables, semaphores, joins
        return ("futex", 1)
    if command != _FUTEX_WAIT:
        return NotParked(text("in futex operation {number}", number=command))
    if not library or _LIBC.match(library):
        return NotParked(text("waiting for a low-level lock"))
    return ("futex", 1)


def look(pid: int) -> Look:
    """All threads of `pid` now. Costs 0.05 ms per thread. Raises PermissionError, or ProcessLookupError where it is gone."""
    parked: list[Parked] = []
    others: Counter[str] = Counter()
    try:
        tids = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError as gone:
        raise ProcessLookupError(pid) from gone
    states = {tid: state for tid in tids if (state := _state(pid, tid))}
    # Reading maps waits for a lock that a thread in uninterruptible sleep may hold for ever.
    file_at = (lambda address: "") if "D" in states.values() else Maps(pid).file_at
    for tid, state in states.items():
        try:
            found = _look_at(pid, tid, state, file_at)
        except (FileNotFoundError, ProcessLookupError):  # this thread has just ended
            continue
        if isinstance(found, Parked):
            parked.append(found)
        else:
            others[found.reason] += 1
    return Look(tuple(sorted(parked, key=lambda thread: thread.rank)), others)


def _state(pid: int, tid: int) -> str:
    """The kernel's letter; empty where the thread has ended."""
    try:
        with open(f"/proc/{pid}/task/{tid}/stat", "rb") as f:
            return f.read().rsplit(b")", 1)[1].split()[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _look_at(pid: int, tid: int, state: str, file_at: Callable[[int], str]) -> Parked | NotParked:
    if state != "S":
        known = {"R": text("running"), "D": text("in uninterruptible sleep")}
        return NotParked(known.get(state) or text("in state {state}", state=state))
    with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as f:
        syscall = f.read().strip()
    found = wait_of(syscall, file_at, lambda fd: os.readlink(f"/proc/{pid}/fd/{fd}"))
    if isinstance(found, NotParked):
        return found
    call, rank = found
    return Parked(tid, call, rank + (_MAIN_THREAD_PENALTY if tid == pid else 0), syscall)
