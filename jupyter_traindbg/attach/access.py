"""Whether a process may be entered by pid, and if not, why not and which other way there is. Touches nothing: it only reads /proc.

The kernel answers EPERM and nothing else; the reason is worked out here from what /proc shows of both sides. Linux only.
"""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from dataclasses import dataclass

from ..errors import CannotAttach, NotPermitted, TargetGone
from ..language import later, text
from ..outside import procfs

__all__ = ["Identity", "check", "identity", "not_permitted"]

log = logging.getLogger(__name__)

PREPARED = later("start it prepared (`TRAINDBG=1 python train.py`) or call `traindbg.serve()` in it")
HELPER_NAME = "/jupyter_traindbg/attach/ptrace.py"
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_CAP_SYS_PTRACE = 1 << 19
_ELF_64 = 2
_ASK_LIMIT_S = 5.0


@dataclass(frozen=True)
class Identity:
    """What /proc/PID/status says of a process that decides over access. ``uid`` and ``gid`` are the real ones."""

    pid: int
    uid: int
    gid: int
    effective_uid: int
    state: str
    tracer: int
    thread_group: int
    capabilities: int


def identity(pid: int) -> Identity:
    """Raises `TargetGone`. Costs 0.05 ms."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
            fields = {key: value.split() for key, _, value in (line.partition(":") for line in f)}
    except (FileNotFoundError, ProcessLookupError):
        raise TargetGone(text("there is no process {pid}", pid=pid)) from None
    return Identity(
        pid=pid,
        uid=int(fields["Uid"][0]),
        gid=int(fields["Gid"][0]),
        effective_uid=int(fields["Uid"][1]),
        state=fields["State"][0],
        tracer=int(fields["TracerPid"][0]),
        thread_group=int(fields["Tgid"][0]),
        capabilities=int(fields["CapPrm"][0], 16),
    )


def check(pid: int) -> Identity:
    """Raise why `pid` cannot be entered: `TargetGone`, `NotPermitted` or `CannotAttach`.

    Costs under 1 ms, or one process start (20 ms) where Yama lets parents trace their children.
    """
    if sys.platform != "linux":
        raise CannotAttach(
            text("attaching to an unprepared process needs Linux, this is {platform}", platform=sys.platform)
        )
    seen = identity(pid)
    _check_state(seen)
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))  # asks the kernel what ptrace would ask
    except PermissionError:
        raise not_permitted(pid) from None
    except (FileNotFoundError, ProcessLookupError):
        raise TargetGone(text("process {pid} has just ended", pid=pid)) from None
    if _yama_scope() == 1 and not _helper_may_trace(pid):
        raise not_permitted(pid)
    _check_program(pid)
    log.debug("process %d may be entered: it has uid %d, we have %d", pid, seen.effective_uid, os.geteuid())
    return seen


def _helper_may_trace(pid: int) -> bool:
    """Asks as the helper will: under Yama's scope 1 a parent may trace its child, but the helper is not the parent."""
    question = f"import os; os.open('/proc/{pid}/mem', os.O_RDONLY)"
    asked = [sys.executable, "-I", "-S", "-c", question]
    return subprocess.run(asked, stderr=subprocess.DEVNULL, timeout=_ASK_LIMIT_S, check=False).returncode == 0


def _check_state(seen: Identity) -> None:
    pid = seen.pid
    if seen.thread_group != pid:
        raise CannotAttach(
            text("{tid} is a thread of process {pid}", tid=pid, pid=seen.thread_group),
            text("name {pid}", pid=seen.thread_group),
        )
    if pid == os.getpid():
        raise CannotAttach(
            text("process {pid} is this very process", pid=pid),
            text("call `traindbg.attach()` without a target, or `traindbg.serve()`"),
        )
    if seen.state in "ZX":
        raise TargetGone(
            text("process {pid} has ended, and its parent has not taken note of it (a zombie)", pid=pid),
            text("look at its log"),
        )
    if seen.tracer and _is_ours(seen.tracer):
        return  # another notebook's helper is in there: its lock decides
    if seen.tracer:
        debugger = " ".join(procfs.command(seen.tracer)[:2]) or "?"
        raise CannotAttach(
            text(
                "process {pid} is being traced by process {tracer} ({debugger})",
                pid=pid,
                tracer=seen.tracer,
                debugger=debugger,
            ),
            text("end that debugger and try again"),
        )
    if seen.state in "Tt":
        raise CannotAttach(
            text("process {pid} is stopped; it is left so", pid=pid),
            text("`kill -CONT {pid}` lets it run on, then attach", pid=pid),
        )


def _is_ours(tracer: int) -> bool:
    return any(word.endswith(HELPER_NAME) for word in procfs.command(tracer))


def _check_program(pid: int) -> None:
    try:
        with open(f"/proc/{pid}/exe", "rb") as f, open("/proc/self/exe", "rb") as ours:
            theirs_header, our_header = f.read(20), ours.read(20)
    except PermissionError:
        raise not_permitted(pid) from None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):
            raise CannotAttach(text("process {pid} is a kernel thread or has just ended", pid=pid)) from None
        raise
    if theirs_header[4] != _ELF_64:
        raise CannotAttach(text("process {pid} is a 32-bit program", pid=pid))
    if theirs_header[18:20] != our_header[18:20]:
        raise CannotAttach(text("process {pid} is a program for another kind of processor", pid=pid))
    if not procfs.is_python(pid):
        raise CannotAttach(
            text("process {pid} is not Python", pid=pid), text("name the Python process; `traindbg targets` lists them")
        )


def not_permitted(pid: int) -> CannotAttach | TargetGone:
    """The error that explains why the kernel lets us neither trace nor read `pid`."""
    try:
        target, own = identity(pid), identity(os.getpid())
    except TargetGone as gone:
        return gone
    scope = _yama_scope()
    privileged = bool(own.capabilities & _CAP_SYS_PTRACE)
    theirs, ours = procfs.user(target.uid), procfs.user(own.effective_uid)
    log.debug(
        "process %d is closed: it has uid %d and capabilities %#x, we have uid %d and %#x; Yama's scope is %d",
        *(pid, target.uid, target.capabilities, own.effective_uid, own.capabilities, scope),
    )
    reasons = [  # the first that holds, in the order in which a person can do least about it
        (
            scope == 3,
            text("this machine forbids ptrace to everybody until its next boot (Yama, {yama} is 3)", yama=_YAMA),
            "",
        ),
        (
            not privileged and own.effective_uid not in (0, target.uid),
            text("process {pid} belongs to {theirs}, you are {ours}", pid=pid, theirs=theirs, ours=ours),
            text("attach as {theirs} or with sudo", theirs=theirs),
        ),
        (
            not privileged and scope == 2,
            text("this machine allows ptrace to administrators only (Yama, {yama} is 2)", yama=_YAMA),
            text("attach with sudo"),
        ),
        (
            not privileged and _is_undumpable(target),
            text("process {pid} has made itself undumpable, so only an administrator may trace it", pid=pid),
            text("attach with sudo"),
        ),
        (
            not privileged and scope == 1,
            text("this machine allows ptrace to a process's parents only (Yama, {yama} is 1)", yama=_YAMA),
            text("`sudo sysctl kernel.yama.ptrace_scope=0` allows it until the next boot"),
        ),
        (
            not privileged and bool(target.capabilities & ~own.capabilities),
            text("process {pid} has capabilities that you lack", pid=pid),
            text("attach with sudo; in a container, start that with `--cap-add SYS_PTRACE`"),
        ),
        (
            True,
            text(
                "the system forbids tracing process {pid}: a container's seccomp profile, SELinux or another user namespace",
                pid=pid,
            ),
            text("start the container with `--cap-add SYS_PTRACE`, or attach from inside it"),
        ),
    ]
    cause, step = next((cause, step) for holds, cause, step in reasons if holds)
    prepared = text(PREPARED)
    return NotPermitted(cause, text("{step}; or {other}", step=step, other=prepared) if step else prepared)


def _yama_scope() -> int:
    try:
        with open(_YAMA, encoding="ascii") as f:
            return int(f.read())
    except FileNotFoundError:
        return 0  # no Yama in this kernel


def _is_undumpable(target: Identity) -> bool:
    """The kernel gives root the /proc files of a process that switched dumping off (prctl, or a set-uid program)."""
    try:
        return os.stat(f"/proc/{target.pid}").st_uid != target.effective_uid
    except FileNotFoundError:
        return False
