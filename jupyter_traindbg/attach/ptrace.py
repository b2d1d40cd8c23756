"""Enter another process through one of its threads; a program of its own, ``python -I -S ptrace.py`` with the words

    load PID OBJECT TID SYSCALL [TID SYSCALL ...] [--pyinjector FOLDER]   call dlopen(OBJECT) in a thread that is parked in a system call
    queue PID OBJECT SOURCE LIMIT_S                                       have CPython load OBJECT from its main thread (pending.py)

Run in a session of its own, so that nothing which ends a notebook ends it between taking a thread and putting it back: that would leave
the thread to return to address 0. For the same reason it has no time limit once a call has begun. Standard library only. It prints one
line of JSON: ``status`` (see `Status`), ``detail``, ``tid``, ``paused_s`` (how long that thread was stopped), ``unfit`` (by thread, why).

For ``load`` a thread must be parked in the call whose line in /proc/PID/task/TID/syscall is SYSCALL. The first of those named that is so
is taken: some threads come and go, and to start this program anew for each takes longer than they stay. It is stopped, checked to be in
that very call still, made to call dlopen below its red zone, and put back: general and vector registers, signal mask, errno. The kernel
then restarts the system call as after any stop. No code of the process is changed. x86-64; ``--pyinjector`` uses that library (other
machines).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass

if (
    __name__ == "__main__"
):  # without the package, whose import costs more than all else here: what lies beside this file is enough
    __package__ = "traindbg_helper"
    beside = types.ModuleType(__package__)
    beside.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[__package__] = beside

from .tracee import (
    DETACH,
    INTERRUPTED,
    RESTARTS,
    SEIZE,
    STACK_NEEDED_BYTES,
    Ended,
    Loan,
    MappedRange,
    Status,
    Thread,
    check_fit,
    functions,
    mappings,
    ptrace,
    resumed,
    signals_wait,
)

SYSTEM_CALL_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
FUTEX = "202"
RETURN_LIMIT_S = 0.1
RTLD_NOW = 2
OF_ONE_THREAD = frozenset({"moved", "unfit", "gone"})
"""What is said of a thread, not of its process: another one may do."""


def same_call(registers: dict[str, int], syscall: str) -> bool:
    """Whether the stopped thread is in the very system call that `syscall` (a line of /proc) describes, not yet answered."""
    number, *rest = syscall.split()
    now = [registers[name] for name in (*SYSTEM_CALL_ARGUMENTS, "rsp", "rip")]
    return (
        registers["orig_rax"] == int(number)
        and registers["rax"] in RESTARTS | {INTERRUPTED}
        and now == [int(word, 16) for word in rest]
    )


def same_wait(syscall: str) -> list[str]:
    """What is the same in the line of /proc each time that the thread waits there.

    A condition variable of glibc (2.41 and newer) waits for another number each time, and at one of two addresses.
    """
    words = syscall.split()
    return [words[0], words[2], *words[7:]] if words[0] == FUTEX else words


def await_call(pid: int, tid: int, syscall: str) -> str:
    """The thread's line now that it is parked as in `syscall`: one that comes and goes is thus caught without being stopped in vain."""
    wanted = same_wait(syscall)
    give_up = time.monotonic() + RETURN_LIMIT_S
    with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as f:
        while same_wait(now := f.read().strip()) != wanted:
            if time.monotonic() > give_up:
                raise Ended("moved", "the thread went on")
            time.sleep(0.0001)
            f.seek(0)
    return now


@dataclass(frozen=True)
class Place:
    """What is the same for all threads of the process."""

    pid: int
    memory: int
    rows: list[MappedRange]
    calls: dict[str, int]


def load(pid: int, path: str, threads: list[tuple[int, str]], unfit: dict[int, str]) -> tuple[int, float]:
    """dlopen `path` in the first of `threads`, given with their system calls, that can be had.

    Returns which, and for how many seconds it was stopped; those that cannot be used at all go into `unfit`. Raises Ended, OSError.
    """
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        rows = mappings(pid)
        place = Place(pid, memory, rows, functions(pid, memory, rows, {"dlopen", "dlerror", "__errno_location"}))
        return first(threads, unfit, lambda tid, syscall: load_in(place, tid, path, syscall))
    finally:
        os.close(memory)


def first(
    threads: list[tuple[int, str]], unfit: dict[int, str], attempt: Callable[[int, str], float]
) -> tuple[int, float]:
    """The first thread for which `attempt` comes to something, and what it returned. Raises what the last one raised."""
    last: Exception = Ended("moved", "no thread stays parked")
    for tid, syscall in threads:
        try:
            return tid, attempt(tid, syscall)
        except Ended as ended:
            if ended.status not in OF_ONE_THREAD:
                raise
            if ended.status == "unfit":
                unfit[tid] = ended.detail
            last = ended
        except (ProcessLookupError, FileNotFoundError) as gone:
            last = gone
    raise last


def load_in(place: Place, tid: int, path: str, syscall: str) -> float:
    """dlopen `path` in thread `tid`; returns for how many seconds the thread was stopped. Raises Ended, OSError."""
    check_fit(place.pid, tid)
    check_stack(int(syscall.split()[7], 16), place.rows)
    thread = Thread(tid)
    syscall = await_call(place.pid, tid, syscall)
    ptrace(SEIZE, tid)
    begun = time.perf_counter()
    thread.stop()
    registers = thread.registers()
    if not same_call(registers, syscall):
        ptrace(DETACH, tid)
        raise Ended("moved", "the thread went on")
    loan = Loan(thread, place.memory, registers, resumed(registers, place.memory, signals_wait(place.pid, tid)))
    dlopen(loan, place.calls, path)
    return time.perf_counter() - begun


def check_stack(stack_pointer: int, rows: list[MappedRange]) -> None:
    """Raises Ended where the thread has no room for the call."""
    for row in rows:
        if row.start <= stack_pointer < row.end:
            if row.path != "[stack]" and stack_pointer - row.start < STACK_NEEDED_BYTES:  # [stack] grows by itself
                raise Ended("unfit", "the thread's stack is small")
            return
    raise Ended("moved", "the stack is gone")


def dlopen(loan: Loan, calls: dict[str, int], path: str) -> None:
    """dlopen `path` in the stopped thread and give it back, whatever happens. Raises Ended."""
    with loan.taken(calls["__errno_location"]):
        os.pwrite(loan.memory, os.fsencode(path) + b"\0", loan.scratch)
        if loan.call(calls["dlopen"], loan.scratch, RTLD_NOW):
            return
        text_at = loan.call(calls["dlerror"])
        text = os.pread(loan.memory, 1024, text_at) if text_at else b"no reason given"
        raise Ended("failed", text.split(b"\0")[0].decode("utf-8", "replace"))


def load_by_pyinjector(tid: int, path: str, folder: str) -> float:
    """The same through pyinjector, for machines whose registers we do not know. It checks less: the thread must not move."""
    sys.path.append(folder)  # -I -S leaves site-packages out
    from pyinjector import InjectorError, attach

    begun = time.perf_counter()
    try:
        with attach(tid) as injector:
            injector.inject(os.fsencode(path))
    except InjectorError as error:
        status: Status = {-8: "forbidden", -3: "gone"}.get(error.ret_val, "failed")  # type: ignore[assignment]
        raise Ended(status, str(error)) from error
    return time.perf_counter() - begun


def enter(verb: str, pid: int, words: list[str], unfit: dict[int, str]) -> tuple[int, float]:
    """What was asked for; returns the thread that was stopped, and for how many seconds."""
    if verb == "queue":
        from .pending import queue

        path, source, limit_s = words
        return pid, queue(pid, path, source, float(limit_s))
    folder = words[-1] if "--pyinjector" in words else ""
    path, *rest = words[:-2] if folder else words
    threads = [(int(tid), syscall) for tid, syscall in zip(rest[::2], rest[1::2], strict=True)]
    if folder:
        return first(threads, unfit, lambda tid, _: load_by_pyinjector(tid, path, folder))
    return load(pid, path, threads, unfit)


def main(verb: str, pid: str, *words: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    status: Status = "done"
    detail, tid, paused_s = "", 0, 0.0
    unfit: dict[int, str] = {}
    try:
        tid, paused_s = enter(verb, int(pid), list(words), unfit)
    except Ended as ended:
        status, detail = ended.status, ended.detail
    except PermissionError as error:
        status, detail = "forbidden", str(error)
    except (ProcessLookupError, FileNotFoundError) as error:
        status, detail = "gone", str(error)
    answer = {"status": status, "detail": detail, "tid": tid, "paused_s": paused_s, "unfit": unfit}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
