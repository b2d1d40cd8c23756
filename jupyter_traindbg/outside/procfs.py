"""Cheap readers of Linux's /proc: 10-100 us a file, no psutil on the way.

A process may end between any two reads. What has vanished, or may not be read, is absent from the answer: ``None``,
``""`` or an empty container, never an exception.

`command`, the environments and `maps_library` read memory maps of the process and so wait for a lock that a thread in
uninterruptible sleep can hold for ever. Ask `uninterruptible` first and leave those processes alone.
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from ..command_lines import is_of_a_fork_server, is_tracker
from ..model import Maybe, NotAvailable, ThreadState

__all__ = [
    "READING",
    "WRITING",
    "KernelThread",
    "Process",
    "SystemCall",
    "call_name",
    "children",
    "command",
    "descendants",
    "descriptor",
    "descriptors",
    "environ",
    "exists",
    "forked_from_parent",
    "is_python",
    "mapped",
    "maps_library",
    "numbers_are_the_hosts",
    "own_tid",
    "processes",
    "raw_system_call",
    "running_s",
    "serves_multiprocessing",
    "stat",
    "system_call",
    "tcp_sockets",
    "thread_state",
    "threads",
    "training_environ",
    "uid",
    "uninterruptible",
    "user",
    "whole_environ",
]

KERNEL_THREAD = 0x00200000
"""The flag PF_KTHREAD in field 9 of /proc/PID/stat."""

INTERESTING = re.compile(
    r"(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|JPY_SESSION_NAME)="
    r"|(MASTER_|RAY_|TORCHELASTIC_|TRAINDBG)|SLURM_(JOB_ID|STEP_ID|PROCID|LOCALID|STEP_NUM_TASKS)="
)
"""The environment variables that `environ` keeps."""

TRAINING_ENV = re.compile(
    r"(NCCL|RCCL|TORCH\w*|PYTORCH|CUDA|NVIDIA|HIP|ROCR|GLOO|UCX|UCC|TP|FI|MASTER|GROUP|ROLE|LOCAL|RAY|OMP|GOMP|KMP|MKL|OPENBLAS"
    r"|NUMEXPR|MALLOC|ACCELERATE|FSDP|DEEPSPEED|DS|HF|HUGGINGFACE|TRANSFORMERS|TRITON|XLA|SLURM|PMI\w*|OMPI|PET|OFI|RDMAV|TRAINDBG)_\w+"
    r"|RANK|WORLD_SIZE|NODE_RANK|NNODES|NPROC_PER_NODE|USE_LIBUV|CROSS_\w+|TOKENIZERS_PARALLELISM|PYTHONUNBUFFERED|PYTHONFAULTHANDLER|PYTHONMALLOC|LD_PRELOAD|LD_LIBRARY_PATH"
    r"|TMPDIR|CUBLAS_\w+|CUDNN_\w+|NVTE_\w+|VLLM_\w+|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY|PYTHONHASHSEED|PYTHON_EXEC"
)
"""The names that `training_environ` keeps: what decides how ranks find each other, talk, compute and load data."""

SECRET = re.compile(r"TOKEN$|KEY$|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
"""Names whose values nobody but the training is to see; proxies may carry a password, too."""

_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""The kernel's fixed number (PROC_PID_INIT_INO in linux/proc_ns.h); a container has another."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STATES: Mapping[str, ThreadState] = {
    "R": "running",
    "S": "waiting",
    "D": "in uninterruptible sleep",
    "T": "stopped by a signal",
    "t": "stopped by a debugger",
    "Z": "ended",
    "X": "ended",
    "I": "idle",
}


@dataclass(frozen=True)
class Process:
    """One line of /proc/PID/stat. ``state`` is the kernel's letter for the main thread; ``start_ticks`` counts clock
    ticks since boot.
    """

    pid: int
    comm: str
    state: str
    parent: int
    start_ticks: int
    kernel_thread: bool


@dataclass(frozen=True)
class KernelThread:
    """A thread as the kernel sees it: ``state`` is R, S, D, T (stopped), t (traced), Z or X."""

    tid: int
    name: str
    state: str


@dataclass(frozen=True)
class SystemCall:
    """What a thread does in the kernel: the call's ``name`` (``"running"`` outside of it, ``""`` where unknown).

    ``on`` is the file, pipe or socket of a call on a descriptor; ``timed`` is True where a futex wait has a time-out.
    """

    name: str
    on: str | None = None
    timed: bool = False


_LONGEST_PATH = 4096
"""PATH_MAX (linux/limits.h)."""

# System calls that wait, by number. Others keep the name "": the caller has no words for them anyway.
_X86_64 = {
    0: "read", 1: "write", 4: "stat", 6: "lstat", 7: "poll", 16: "ioctl", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev",
    21: "access", 23: "select", 35: "nanosleep", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg",
    47: "recvmsg", 61: "wait4", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 202: "futex", 217: "getdents64",
    230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid", 257: "openat", 262: "newfstatat", 269: "faccessat",
    270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4", 332: "statx",
    439: "faccessat2", 441: "epoll_pwait2", 449: "futex_waitv",
}  # fmt: skip
_AARCH64 = {
    22: "epoll_pwait", 25: "fcntl", 29: "ioctl", 32: "flock", 48: "faccessat", 56: "openat", 61: "getdents64", 63: "read",
    64: "write", 65: "readv", 66: "writev", 67: "pread64", 68: "pwrite64", 72: "pselect6", 73: "ppoll", 79: "newfstatat", 82: "fsync",
    83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep", 202: "accept", 203: "connect",
    206: "sendto", 207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 242: "accept4", 260: "wait4",
    291: "statx", 439: "faccessat2", 441: "epoll_pwait2", 449: "futex_waitv",
}  # fmt: skip
_NAMES: Mapping[int, str] = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(platform.machine(), {})
READING = frozenset(("read", "readv", "pread64", "recvfrom", "recvmsg"))
WRITING = frozenset(("write", "writev", "pwrite64", "sendto", "sendmsg"))
_ON_DESCRIPTOR = frozenset(
    {"read", "write", "ioctl", "pread64", "pwrite64", "readv", "writev", "connect", "accept", "accept4", "sendto"}
    | {"recvfrom", "sendmsg", "recvmsg", "fcntl", "flock", "fsync", "fdatasync", "getdents64"}
)
_ON_PATH = {"stat": 0, "lstat": 0, "access": 0} | dict.fromkeys(
    ("openat", "newfstatat", "faccessat", "faccessat2", "statx"), 1
)
"""Calls on a path, and which of their arguments it is; before it comes the directory that it is relative to, where it is not the first."""
_AT_FDCWD = 0xFFFFFF9C
"""-100, the current directory (linux/fcntl.h), in the 32 bits that count."""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def text(path: str) -> str:
    """A file of the kernel's, or what describes a process; empty where it is gone or closed to this user."""
    return _text(_read(path))


def fields(path: str) -> dict[str, str]:
    """The lines ``Name: value`` of such a file."""
    rows = (line.partition(":") for line in text(path).splitlines())
    return {name: value.strip() for name, colon, value in rows if colon}


# --- one process ---------------------------------------------------------------------------------------------------


def _parse_stat(pid: int, raw: bytes) -> Process | None:
    if b")" not in raw:
        return None
    head, tail = raw.rsplit(b")", 1)  # comm may hold any byte, brackets included
    fields = tail.split()
    return Process(
        pid=pid,
        comm=_text(head.split(b"(", 1)[1]),
        state=_text(fields[0]),
        parent=int(fields[1]),
        start_ticks=int(fields[19]),
        kernel_thread=bool(int(fields[6]) & KERNEL_THREAD),
    )


def stat(pid: int) -> Process | None:
    """Name, state, parent and start time of `pid`; None where it is gone. Never blocks."""
    return _parse_stat(pid, _read(f"/proc/{pid}/stat"))


def start_ticks(pid: int) -> int | None:
    """When `pid` was started: with its number, what tells it from any other process. None where it is gone."""
    seen = stat(pid)
    return None if seen is None else seen.start_ticks


def exists(pid: int) -> bool:
    """Whether `pid` is a process that still runs (a zombie does not)."""
    seen = stat(pid)
    return seen is not None and seen.state not in "ZX"


def command(pid: int) -> tuple[str, ...]:
    """The command line of `pid`; empty for kernel threads, zombies and what is gone."""
    raw = _read(f"/proc/{pid}/cmdline")
    return tuple(_text(part) for part in raw.rstrip(b"\0").split(b"\0")) if raw else ()


def uid(pid: int) -> int | None:
    """The real uid of `pid`: that of its person, also where the process is set-uid."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def pid_namespace(pid: int) -> int | None:
    """What tells the numbering of processes that `pid` lives in from others; None where it cannot be seen."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return None


def numbers_are_the_hosts() -> bool:
    """Whether a process has the same number here as for the kernel, whose messages and drivers know no other. False in a container."""
    return pid_namespace(os.getpid()) == _INITIAL_PID_NAMESPACE


def user(uid: int | None) -> str:
    """The name of a user id, or the number where it has none (containers)."""
    if uid is None:
        return "?"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def environ(pid: int) -> dict[str, str]:
    """The variables of distributed training that `pid` was started with (it may have changed them since), and of a kernel its notebook."""
    pairs = (_text(entry) for entry in _read(f"/proc/{pid}/environ").split(b"\0"))
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair and INTERESTING.match(pair))


def whole_environ(pid: int) -> dict[str, str]:
    """All that `pid` was started with, the secrets too: to know them elsewhere. Empty where it may not be read."""
    pairs = (_text(entry).partition("=") for entry in _read(f"/proc/{pid}/environ").split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def training_environ(pid: int) -> dict[str, str]:
    """All variables that have to do with training which `pid` was started with (it may have changed them since).

    The values of those that look like secrets are ``"(hidden)"``, and proxies are shown without user and password.
    """
    pairs = (_text(entry).partition("=") for entry in _read(f"/proc/{pid}/environ").split(b"\0"))
    return {name: _shown(name, value) for name, equals, value in pairs if equals and TRAINING_ENV.fullmatch(name)}


def _shown(name: str, value: str) -> str:
    if SECRET.search(name):
        return "(hidden)"
    return re.sub(r"//[^/@]*@", "//(hidden)@", value) if name.lower().endswith("_proxy") else value


def running_s(process: Process) -> float:
    """Seconds since the process was started."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - process.start_ticks / _TICKS_PER_S)


def rss_bytes(pid: int) -> int:
    """Resident memory of `pid` in bytes, 0 where it is gone."""
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def mapped(pid: int) -> bytes:
    """The memory map of `pid` as raw text: 0.1 ms, or about 1 ms for a process that has torch loaded."""
    return _read(f"/proc/{pid}/maps")


def maps_library(pid: int, name: bytes) -> bool:
    """Whether a mapped file of `pid` has `name` (``b"libtorch"``) in its path."""
    return name in mapped(pid)


def is_python(pid: int) -> bool:
    """Whether `pid` runs a Python interpreter, its own executable or an embedded libpython."""
    try:
        executable = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False  # gone, a kernel thread, or not ours to look at
    return "python" in executable or "pypy" in executable or maps_library(pid, b"libpython")


# --- all processes -------------------------------------------------------------------------------------------------


def processes() -> dict[int, Process]:
    """Every process of this host by pid, kernel threads left out; about 15 us each."""
    found = (stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {p.pid: p for p in found if p is not None and not p.kernel_thread}


def children(pids: Iterable[int], table: Mapping[int, Process]) -> list[Process]:
    """The direct children of `pids`, oldest first."""
    parents = set(pids)
    return sorted((p for p in table.values() if p.parent in parents), key=lambda p: (p.start_ticks, p.pid))


def descendants(pid: int, table: Mapping[int, Process] | None = None, *, apart: Container[int] = ()) -> list[Process]:
    """All processes below `pid`, parents before their children; one walk of /proc unless a `table` of `processes` is
    given. Those `apart`, and what is below them, are somebody else's.
    """
    table = processes() if table is None else table
    found: list[Process] = []
    generation = [p for p in children([pid], table) if p.pid not in apart]
    while generation:
        found += generation
        generation = [p for p in children((p.pid for p in generation), table) if p.pid not in apart]
    return found


def forked_from_parent(pid: int, table: Mapping[int, Process]) -> bool:
    """Whether `pid` is a plain fork of its parent: it carries the parent's command line."""
    process = table.get(pid)
    own = command(pid)
    return process is not None and bool(own) and process.parent in table and command(process.parent) == own


def serves_multiprocessing(process: Process) -> bool:
    """Whether a process only does what multiprocessing needs: a tracker, or the server that forks for it; not what that has forked."""
    own = command(process.pid)
    if not is_of_a_fork_server(own):
        return is_tracker(own)
    return not uninterruptible([process.parent]) and command(process.parent) != own


# --- threads -------------------------------------------------------------------------------------------------------


def threads(pid: int) -> list[KernelThread]:
    """The threads of `pid`, the main thread first. Never blocks."""
    try:
        tids = sorted((int(name) for name in os.listdir(f"/proc/{pid}/task")), key=lambda tid: (tid != pid, tid))
    except OSError:
        return []
    found = ((tid, _parse_stat(tid, _read(f"/proc/{pid}/task/{tid}/stat"))) for tid in tids)
    return [KernelThread(tid, seen.comm, seen.state) for tid, seen in found if seen is not None]


def thread_state(letter: str) -> Maybe[ThreadState]:
    """What the kernel's letter for a thread or process means."""
    return _STATES.get(letter) or NotAvailable(f"the kernel calls it {letter}")


def own_tid(pid: int, tid: int) -> int:
    """The number that a thread of `pid` has for itself, as in a container, by the one that it has here."""
    if pid_namespace(pid) == pid_namespace(os.getpid()):
        return tid
    inner = fields(f"/proc/{pid}/task/{tid}/status").get("NSpid", "").split()
    return int(inner[-1]) if inner else tid


def system_call(pid: int, tid: int, *, memory: bool = True) -> SystemCall:
    """The system call that a thread sits in; the name is ``""`` where the kernel does not say (another user's
    process). Without `memory` that of the process is left alone, and the path of an ``openat`` or ``stat`` unknown.
    """
    name, arguments = raw_system_call(pid, tid)
    if name in _ON_DESCRIPTOR:
        return SystemCall(name, on=descriptor(pid, arguments[0]))
    if (n := _ON_PATH.get(name)) is not None:
        return SystemCall(name, on=_path(pid, arguments[n], arguments[0] if n else _AT_FDCWD) if memory else None)
    return SystemCall(name, timed=name == "futex" and arguments[3] != 0)


def _path(pid: int, address: int, directory: int) -> str | None:
    """The path that a call was given, read from the process's memory without stopping it; None where there is none. A relative one is
    told from the directory that it is relative to: a descriptor, or `_AT_FDCWD`.
    """
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            raw = os.pread(memory.fileno(), _LONGEST_PATH, address)  # less than that where the next page is not mapped
    except (OSError, OverflowError):
        return None
    given, end, _ = raw.partition(b"\0")
    path = _text(given)
    if not end or path.startswith("/"):
        return path if end else None
    start = _current_directory(pid) if directory & 0xFFFFFFFF == _AT_FDCWD else descriptor(pid, directory)
    return None if start is None else os.path.normpath(os.path.join(start, path))


def _current_directory(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def raw_system_call(pid: int, tid: int) -> tuple[str, tuple[int, ...]]:
    """The name as in `system_call`, and the six arguments as they are in the registers; none for ``"running"`` and ``""``."""
    fields = _read(f"/proc/{pid}/task/{tid}/syscall").split()
    if fields == [b"running"]:
        return "running", ()
    if len(fields) < 7:
        return "", ()
    return _NAMES.get(int(fields[0]), ""), tuple(int(field, 16) for field in fields[1:7])


def call_name(number: int) -> str:
    """The name of a system call on this kind of machine; ``""`` for one that we have no use for."""
    return _NAMES.get(number, "")


def descriptor(pid: int, fd: int | str) -> str | None:
    """What a descriptor of `pid` stands for: a path, ``pipe:[...]``, ``socket:[...]``; None where that cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return None


def descriptors(pid: int) -> list[str]:
    """The numbers of the open descriptors of `pid`; empty where they may not be read."""
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []


def tcp_sockets(pid: int) -> frozenset[str]:
    """The TCP sockets that `pid` has open, as ``socket:[inode]``; those of a forked child include its parent's."""
    rows = (row.split() for name in ("tcp", "tcp6") for row in _read(f"/proc/{pid}/net/{name}").splitlines()[1:])
    tcp = {f"socket:[{_text(row[9])}]" for row in rows}
    return frozenset(on for fd in descriptors(pid) if (on := descriptor(pid, fd)) in tcp and on is not None)


def uninterruptible(pids: Iterable[int] | None = None, *, settle_s: float = 0.02) -> list[int]:
    """The processes (of `pids`, else all) with a thread that lies in uninterruptible sleep, state D, for at least
    `settle_s`.

    Ordinary disk reads pass through D for microseconds; a second look, at the state and at the count of context
    switches, tells them from a driver or a mount that hangs. Costs one walk over the threads, and the wait only where
    the first look found some.
    """
    first = {
        (pid, t.tid): _switches(pid, t.tid)
        for pid in (processes() if pids is None else pids)
        for t in threads(pid)
        if t.state == "D"
    }
    if not first:
        return []
    time.sleep(settle_s)
    return sorted({pid for (pid, tid), switches in first.items() if switches and _switches(pid, tid) == switches})


def _switches(pid: int, tid: int) -> bytes:
    """How often a thread in state D has been switched in and out; empty where it is in another state, or gone."""
    status = _read(f"/proc/{pid}/task/{tid}/status")
    return status[status.find(b"voluntary_ctxt_switches") :] if b"State:\tD" in status else b""
