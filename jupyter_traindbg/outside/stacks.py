"""Stacks of a process that cannot or need not help: read from its memory by py-spy, without stopping it.

py-spy runs as a child process with a deadline. In its non-blocking mode it only reads (no ptrace attach, no signal),
so killing it when the deadline has passed leaves the target as it was. The price: on running code the stack may be
torn, so a failed look is repeated.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import CannotAttach, DeadlineExceeded, MissingPiece, NotPermitted, TargetGone, TraindbgError
from ..frames.waits import in_dataloader_worker, waiting_for
from ..frames.whose import bare, frames_of, line_of
from ..language import text
from ..model import ASLEEP, Maybe, NotAvailable, ProcessStacks, Thread, ThreadState, Wait
from ..tasks import each
from ..verbose import milliseconds
from . import procfs

__all__ = ["dump", "py_spy"]

log = logging.getLogger(__name__)

_LOOKS = 3
_PAUSE_S = 0.02
_BEGINNINGS = frozenset({"<module>", "_run_module_as_main", "_bootstrap", "_shutdown"})
"""How a main thread's outermost function is called; ``_bootstrap`` where a thread has forked, ``_shutdown`` past the end of a program."""
_PARALLEL = 8
# Its first answer fills a table in place: another thread that asks meanwhile, for another rank, finds it half full.
_asking_sysconfig = threading.Lock()


def dump(
    pid: int,
    rank: int = 0,
    *,
    deadline_s: float = 2.0,
    children: bool = True,
    training_tid: int | None = None,
    apart: Container[int] = (),
) -> list[ProcessStacks]:
    """The Python stacks of `pid` and, with `children`, of all processes below it; `pid` comes first, its training
    thread first.

    `training_tid` is the thread that trains (default: the main thread). `apart`: see `procfs.descendants`.

    10-25 ms a process, eight at a time. Answers within `deadline_s` (and 0.1 s for winding up); a child that gave no stack is
    still listed, with the reason in ``note`` and what the kernel says of its main thread. Raises `TargetGone`,
    `NotPermitted`, `MissingPiece`, `DeadlineExceeded`, or `CannotAttach` where `pid` is no Python process.
    """
    deadline = time.monotonic() + deadline_s
    tool = py_spy()
    root = procfs.stat(pid)
    if root is None or root.state in "ZX":
        raise TargetGone(text("process {pid} has ended", pid=pid))
    processes = procfs.descendants(pid, apart=apart) if children else []
    stuck = frozenset(procfs.uninterruptible([pid, *(p.pid for p in processes)]))
    asked = [
        _Asked(pid, rank, "rank", training_tid or pid, _command(pid, stuck)),
        *_ask_children(processes, rank, stuck),
    ]
    first, *others = _look_at_all(tool, asked, deadline)
    if isinstance(first, TraindbgError):
        raise first
    return [first, *(_or_what_the_kernel_says(*pair) for pair in zip(asked[1:], others, strict=True))]


def below(pid: int, rank: int = 0, *, deadline_s: float = 2.0, apart: Container[int] = ()) -> list[ProcessStacks]:
    """Like `dump`, but only the processes below `pid`; empty, in a millisecond, where there are none."""
    deadline = time.monotonic() + deadline_s
    processes = procfs.descendants(pid, apart=apart)
    if not processes:
        return []
    tool = py_spy()
    asked = _ask_children(processes, rank, frozenset(procfs.uninterruptible([p.pid for p in processes])))
    return [_or_what_the_kernel_says(*pair) for pair in zip(asked, _look_at_all(tool, asked, deadline), strict=True)]


def py_spy() -> str:
    """The path of the py-spy program of this interpreter, else the one on PATH. Raises `MissingPiece`."""
    with _asking_sysconfig:
        schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", "posix_user")]
    beside = [schemes[0], os.path.dirname(sys.executable), schemes[1]]
    for folder in beside:
        path = os.path.join(folder, "py-spy")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("py-spy")
    if found is None:
        raise MissingPiece(
            text("py-spy is not installed"),
            f"{sys.executable} -m pip install 'py-spy>=0.4'",
        )
    return found


@dataclass(frozen=True)
class _Asked:
    pid: int
    rank: int
    role: str
    training_tid: int
    command: str


def _ask_children(processes: Sequence[procfs.Process], rank: int, stuck: frozenset[int]) -> list[_Asked]:
    wanted = [p for p in processes if p.pid in stuck or not procfs.serves_multiprocessing(p)]
    return [_Asked(p.pid, rank, _role(p), p.pid, _command(p.pid, stuck)) for p in wanted]


def _command(pid: int, stuck: frozenset[int]) -> str:
    """The command line, or only the name where reading it could block."""
    if pid in stuck:
        process = procfs.stat(pid)
        return process.comm if process else ""
    return " ".join(procfs.command(pid))


def _role(process: procfs.Process) -> str:
    return "DataLoader worker" if process.comm == "pt_data_worker" else "child"


# --- asking py-spy -------------------------------------------------------------------------------------------------


def _look_at_all(tool: str, asked: Sequence[_Asked], deadline: float) -> list[ProcessStacks | TraindbgError]:
    """All of them, `_PARALLEL` at a time; each with its stacks or why there are none."""

    found = each(asked, lambda one: _look(tool, one, deadline), deadline - time.monotonic(), at_once=_PARALLEL)
    return [stacks for _, stacks in found]


def _look(tool: str, asked: _Asked, deadline: float) -> ProcessStacks:
    """One process; a thread that sleeps with the GIL is looked at twice, since it may have given the GIL back on its way to sleep, between
    what py-spy saw and what the kernel says.
    """
    raw = _look_once(tool, asked, deadline)
    first = _stacks(asked, raw)
    holder = _sleeps_with_gil(first.threads)
    if holder is None:
        return first
    time.sleep(max(0.0, min(_PAUSE_S, deadline - time.monotonic())))
    try:
        raw = _look_once(tool, asked, deadline)
    except TraindbgError:
        pass  # one look alone
    else:
        second = _stacks(asked, raw)
        still = _sleeps_with_gil(second.threads)
        if still is None or (still.tid, still.frames) == (holder.tid, holder.frames):
            return second
    return _stacks(asked, [{**thread, "owns_gil": False} for thread in raw])


def _look_once(tool: str, asked: _Asked, deadline: float) -> list[dict[str, Any]]:
    """The threads as py-spy tells them; repeated where running code tore the look, which shows by an error or a main thread without its
    beginning. One that never has a beginning, as of a program that embeds Python, is taken as it is.
    """
    torn: list[dict[str, Any]] = []
    err = ""
    for left in reversed(range(_LOOKS)):
        try:
            status, out, err = _run(tool, asked.pid, deadline)
        except DeadlineExceeded:
            if torn:
                break
            raise
        threads = json.loads(out) if status == 0 else []
        if threads and all(map(_has_beginning, threads)):
            return list(threads)
        torn = threads or torn
        if left == 0 or (not torn and _final(asked.pid, err)) or time.monotonic() + _PAUSE_S > deadline:
            break
        time.sleep(_PAUSE_S)
    if torn:
        return torn
    raise _error(asked.pid, err)


def _has_beginning(thread: dict[str, Any]) -> bool:
    """Of threads that C code has started nothing is known."""
    frames = thread["frames"]
    return thread["thread_name"] != "MainThread" or not frames or bare(frames[-1]["name"]) in _BEGINNINGS


def _run(tool: str, pid: int, deadline: float) -> tuple[int, bytes, str]:
    left_s = deadline - time.monotonic()
    late = DeadlineExceeded(text("py-spy gave no stacks of process {pid} in time", pid=pid))
    if left_s <= 0:
        raise late
    command, began = [tool, "dump", "--json", "--nonblocking", "--full-filenames", "--pid", str(pid)], time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=left_s)
    except subprocess.TimeoutExpired:
        log.debug("process %d: py-spy was given up, after %s", pid, milliseconds(began))
        _abandon(process)
        raise late from None
    said = err.decode(errors="replace")
    log.debug(
        "process %d: py-spy ended with status %d, after %s %s", pid, process.returncode, milliseconds(began), said[:200]
    )
    return process.returncode, out, said


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill py-spy, and do not wait long: one that hangs inside the kernel dies when the kernel lets it."""
    process.kill()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(0.1)
    except subprocess.TimeoutExpired:
        process.returncode = -9  # it is no longer ours to wait for; says so to Popen.__del__


def _denied(message: str) -> bool:
    return "ermission denied" in message or "ermission Denied" in message or "not permitted" in message


def _final(pid: int, message: str) -> bool:
    return _denied(message) or not procfs.exists(pid) or not procfs.is_python(pid)


def _error(pid: int, message: str) -> TraindbgError:
    first_line = (
        message.strip().splitlines()[0].removeprefix("Error: ")
        if message.strip()
        else text("no thread runs Python yet")
    )
    if not procfs.exists(pid):
        return TargetGone(text("process {pid} has ended", pid=pid))
    if _denied(message):
        return _not_permitted(pid)
    if not procfs.is_python(pid):
        process = procfs.stat(pid)
        return CannotAttach(
            text("process {pid} ({name}) is not a Python process", pid=pid, name=process.comm if process else "?"),
            text("name the Python process"),
        )
    return CannotAttach(
        text("py-spy could not read process {pid}: {why}", pid=pid, why=first_line),
        text("try again in a moment"),
    )


def _not_permitted(pid: int) -> NotPermitted:
    """Why the kernel forbids reading the memory of `pid`, and the way round that fits."""
    owner = procfs.uid(pid)
    if owner is not None and owner != os.geteuid():
        cause = text(
            "process {pid} belongs to {theirs} and you are {ours}",
            pid=pid,
            theirs=procfs.user(owner),
            ours=procfs.user(os.geteuid()),
        )
        return NotPermitted(cause, text("run this as {user}, or with sudo", user=procfs.user(owner)))
    scope = _yama_scope()
    if scope == 1:
        return NotPermitted(
            text("process {pid} may only be read by its ancestors (Yama ptrace_scope is 1)", pid=pid),
            text("run this with sudo, or once: sudo sysctl kernel.yama.ptrace_scope=0"),
        )
    if scope >= 2:
        return NotPermitted(
            text("only root may read process {pid} (Yama ptrace_scope is {scope})", pid=pid, scope=scope),
            text("run this with sudo"),
        )
    return NotPermitted(
        text(
            "the kernel does not let us read the memory of {pid} (a container without SYS_PTRACE, or a protected "
            "process)",
            pid=pid,
        ),
        text("start the container with --cap-add SYS_PTRACE, or run this with sudo"),
    )


def _yama_scope() -> int:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as f:
            return int(f.read())
    except OSError:
        return 0  # this kernel has no Yama


# --- from py-spy's words to ours -----------------------------------------------------------------------------------


def _stacks(asked: _Asked, raw: Sequence[dict[str, Any]]) -> ProcessStacks:
    kernel = {t.tid: t for t in procfs.threads(asked.pid)}
    threads = [_thread(asked, one, kernel) for one in raw]
    threads = [_waits_for_gil(asked.pid, t, threads) for t in threads]
    threads.sort(key=lambda t: (not t.training, t.tid or 0))
    main = kernel.get(asked.pid)
    role = asked.role
    if role == "child" and any(in_dataloader_worker([(f.file, f.line, f.function) for f in t.frames]) for t in threads):
        role = "DataLoader worker"  # torch before 2.5 does not name the process
    note = _note(asked.pid, main.state if main else "", threads)
    return ProcessStacks(asked.rank, asked.pid, role, "py-spy", tuple(threads), note=note, command=asked.command)


def _thread(asked: _Asked, raw: dict[str, Any], kernel: dict[int, procfs.KernelThread]) -> Thread:
    name = raw["thread_name"]
    tid = raw["os_thread_id"]
    if tid is None and name == "MainThread":
        tid = asked.pid  # Python before 3.11 does not record thread ids, but that one is known
    seen = kernel.get(tid)
    call = procfs.system_call(asked.pid, tid) if tid is not None else procfs.SystemCall("")
    told = [(f["filename"], f["line"], f["name"]) for f in raw["frames"]]
    frames = frames_of(told)
    return Thread(
        name=name or (seen.name if seen else "unnamed"),
        tid=NotAvailable("Python before 3.11 does not record it") if tid is None else tid,
        state=_state(seen),
        frames=frames,
        waiting_for=waiting_for(told, call.name or None, call.on),
        holds_gil=bool(raw["owns_gil"]),
        training=tid == asked.training_tid,
    )


def _state(seen: procfs.KernelThread | None) -> Maybe[ThreadState]:
    return NotAvailable("its thread id is not known") if seen is None else procfs.thread_state(seen.state)


def _waits_for_gil(pid: int, thread: Thread, threads: Sequence[Thread]) -> Thread:
    """Name the GIL where its owner sleeps in C code: whoever else sits in a timed futex wait with nothing better known
    waits for it.
    """
    owner = next((t for t in threads if t.holds_gil and t.state == "waiting"), None)
    if owner is None or owner is thread or thread.waiting_for != Wait("native") or not isinstance(thread.tid, int):
        return thread
    if not procfs.system_call(pid, thread.tid).timed:
        return thread
    return replace(thread, waiting_for=Wait("gil", on=owner.name))


def _note(pid: int, state: str, threads: Sequence[Thread]) -> str:
    if state == "T":
        return f"the process is stopped by a signal; `kill -CONT {pid}` lets it go on"
    if state == "t":
        return "a debugger holds the process"
    owner = _sleeps_with_gil(threads)
    if owner is None or not owner.frames:
        return ""
    return f"{owner.name} waits in C code called at {line_of(owner.frames[0])} and keeps the GIL: no other Python thread can run"


def _sleeps_with_gil(threads: Sequence[Thread]) -> Thread | None:
    return next((t for t in threads if t.holds_gil and t.state in ASLEEP), None)


def _or_what_the_kernel_says(asked: _Asked, seen: ProcessStacks | TraindbgError) -> ProcessStacks:
    """The stacks of a child, or, where it gave none, its main thread as the kernel sees it."""
    if isinstance(seen, ProcessStacks):
        return seen
    main = next(iter(procfs.threads(asked.pid)), None)
    threads: tuple[Thread, ...] = ()
    if main is not None:
        call = procfs.system_call(asked.pid, main.tid)
        wait = waiting_for((), call.name or None, call.on)
        threads = (Thread(main.name, main.tid, _state(main), (), wait, training=True),)
    return ProcessStacks(asked.rank, asked.pid, asked.role, "py-spy", threads, note=seen.cause, command=asked.command)
