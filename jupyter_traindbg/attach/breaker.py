"""Have the only thread of a process stop between two instructions of Python, where nothing is half done. CPython 3.14 and newer.

Between instructions CPython looks at a word of the thread's state, the *eval breaker*, whether there is anything else to do; PEP 768 has it
publish where that word is. One of its bits asks the thread to let others have the GIL. CPython takes that bit back first of all, before it
takes any lock. So the bit is set while the thread is stopped, and a debug register of the processor stops the thread where the bit goes.

``sys.remote_exec`` takes more than that: it has a script run on the main thread, so that an exception which a signal's handler raises just
then is lost (12 of 1,000 with a signal every 4 ms), and it changes the word while the program may, which can make it wait for ever.

Whoever ends this program by SIGKILL while the register is set ends the other one, too (SIGTRAP): hence not longer than `PATIENCE_S`. A
thread that is stuck in the kernel by then (a file server that is gone) is watched until it comes out, without a deadline: only of a
thread that stands can the register be taken back, and to leave it set would be to end it.
"""

from __future__ import annotations

import errno
import mmap
import os
import signal
import struct
import time
from collections.abc import Callable

from .tracee import (
    AT_WATCHED,
    CONT,
    EVENT_STOP,
    INTERRUPT,
    MappedRange,
    Thread,
    file_of,
    first_address,
    ptrace,
    section_named,
)

PATIENCE_S = 0.25
SECTION = b".PyRuntime"
COOKIE = b"xdebugpy"
PLEASE_STOP = 1 << 5
# `struct _Py_DebugOffsets`, with which that section begins: eight bytes each. The last one is elsewhere in every version.
WORDS = 110
VERSION, FREE_THREADED, INTERPRETERS_HEAD, THREADS_MAIN, INTERPRETER_OF_THREAD = 1, 2, 5, 10, 25
EVAL_BREAKER = {0x030E: 89, 0x030F: 105}


def eval_breaker(pid: int, memory: int, python: MappedRange) -> int:
    """Where the eval breaker of the main thread is in process `pid`, whose CPython is mapped at `python`; see `published`. Raises Ended."""
    with open(file_of(pid, memory, python), "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as image:
        section = section_named(image, SECTION)
        return 0 if section is None else published(memory, python.start + section.address - first_address(image))


def published(memory: int, runtime: int) -> int:
    """Where the eval breaker of the main thread is, by what lies at `runtime` in `memory`.

    0 where that does not say: a CPython before 3.14 or after 3.15, a free-threaded one, or one that is just starting.
    """
    content = os.pread(memory, 8 * WORDS, runtime)
    if content[: len(COOKIE)] != COOKIE or len(content) < 8 * WORDS:
        return 0
    offsets = struct.unpack(f"<{WORDS}Q", content)
    place = EVAL_BREAKER.get(offsets[VERSION] >> 16)
    if place is None or offsets[FREE_THREADED]:
        return 0
    interpreter = word(memory, runtime + offsets[INTERPRETERS_HEAD])
    thread = interpreter and word(memory, interpreter + offsets[THREADS_MAIN])
    known = thread and word(memory, thread + offsets[INTERPRETER_OF_THREAD]) == interpreter
    return thread + offsets[place] if known else 0


def word(memory: int, address: int) -> int:
    return int.from_bytes(os.pread(memory, 8, address), "little")


def to_next_look(thread: Thread, memory: int, breaker: int) -> str:
    """Let `thread`, which is stopped and the only one, run on to where it next looks at its eval breaker, at address `breaker`.

    Returns why it is stopped elsewhere; empty where it stands there. Raises Ended where it is no more, OSError.
    """
    try:
        thread.watch(breaker)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EINVAL, errno.ENOSPC):
            raise
        return f"the system lends no debug register: {error.strerror}"
    os.pwrite(memory, bytes([flags(memory, breaker) | PLEASE_STOP]), breaker)
    ends = time.monotonic() + PATIENCE_S
    obstacle = None
    while obstacle is None:
        ptrace(CONT, thread.tid, 0, thread.held_signal)
        obstacle = stopped(thread, ends, lambda: not flags(memory, breaker) & PLEASE_STOP)
    thread.watch(0)
    return obstacle


def stopped(thread: Thread, ends: float, looked: Callable[[], bool]) -> str | None:
    """Wait until `thread` stops; returns why it is not to run on, empty where it has looked, None where it is to run on.

    A signal that it was stopped for is its `held_signal` then. Raises Ended.
    """
    status = thread.wait(ends)
    late = not status
    if late:
        ptrace(INTERRUPT, thread.tid)
        status = thread.wait()  # at once, but where it is stuck in the kernel: then until it comes out
    number, by_us = os.WSTOPSIG(status), status >> 16 == EVENT_STOP
    watched = number == signal.SIGTRAP and not by_us and thread.signal_code() == AT_WATCHED
    thread.held_signal = 0 if watched or by_us else number
    if watched and looked():  # else the thread, or a signal's handler in it, has set another bit
        return ""
    if late:
        return "it does not get to another instruction of Python"
    return "the process was stopped" if by_us else None


def flags(memory: int, breaker: int) -> int:
    """The byte of the eval breaker that has its bits."""
    return os.pread(memory, 1, breaker)[0]
