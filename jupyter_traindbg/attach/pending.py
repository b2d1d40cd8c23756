"""Have CPython load an object from the main thread of another process while that computes: the way in where no thread is ever parked.

The main thread is stopped where it computes, made to call ``Py_AddPendingCall(pending_call, visit)``, and put back register by register.
CPython then calls pending_call (native/boot.c, copied into two fresh pages) on that thread between two instructions of Python, as it would
a signal handler, with the thread in the middle of nothing. The copy starts a thread that loads the object, and unmaps itself.

Nothing called while the thread is stopped allocates, loads, or takes any lock but that of the queue of pending calls (binding a name for
the first time, as the loader may do on the way, needs none). The thread itself holds that lock only within Py_AddPendingCall and where
CPython empties the queue, and calls nothing but CPython's and libc's lock functions meanwhile. So it is free where the thread is found

- in a library other than CPython, libc, the loader and allocators, and in no signal handler (one with a handler is blocked meanwhile); or
- in one of CPython's functions on numbers, containers and other objects, and is the only thread, so that nobody else holds the lock either
  (from 3.13 on, waiting for it would hand the GIL on in the middle of such a function).

Elsewhere it is let run on, where that can be told (CPython 3.14, one thread: breaker.py), to where CPython would make the call; else it is
let go at once and looked at again a little later. It is left alone, too, on any stack but its own, and inside a restartable
sequence, which the kernel would not abort as it must once we have moved the thread out of it.

Linux 5.13 and newer on x86-64, CPython 3.9 and newer.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import struct
import time

from .breaker import eval_breaker, to_next_look
from .tracee import (
    DETACH,
    SEIZE,
    STACK_NEEDED_BYTES,
    Ended,
    Loan,
    MappedRange,
    Symbol,
    Thread,
    check_fit,
    exported,
    file_of,
    functions,
    is_code,
    mappings,
    ptrace,
    resumed,
    section_named,
    signals_wait,
    status_fields,
)

TRIES = 250
MOST_WATCHES = 2
PAGE_BYTES = 4096
PATH_BYTES = 512
SECTION = b"pending"
MAPPINGS_SPARE = 100
# In the order of `struct visit`.
VISIT = (
    "getpid", "sigfillset", "pthread_sigmask", "pthread_attr_init", "pthread_attr_setdetachstate", "pthread_attr_setstacksize",
    "pthread_create", "dlopen", "open", "close", "munmap",
)  # fmt: skip
WHILE_STOPPED = ("__errno_location", "mmap", "mprotect", "munmap")
CPYTHON = ("Py_IsInitialized", "Py_AddPendingCall")
NOT_THERE = re.compile(
    r"^(\[|(libc|libpthread|librt|libdl|ld)([-.]|$))|alloc|hoard|scudo|[lt]san|asan|memray|^(lib)?python\d"
)
ON_OBJECTS = re.compile(
    r"^(_?Py(Object|Number|Long|Float|Complex|Bool|Tuple|List|Dict|Set|Unicode|Bytes|Iter|Sequence|Mapping|Slice)_|_Py_Dealloc$)"
)
# System calls that report even our stop as EINTR: made once more, so that the program sees nothing of it.
MADE_AGAIN = {43, 45, 47, 232, 281, 288, 299, 441}
GET_RSEQ_CONFIGURATION = 0x420F


def queue(pid: int, path: str, source: str, limit_s: float) -> float:
    """Have `path` loaded in process `pid` with the code that `source`, the same object, carries; tried for `limit_s`.

    Returns for how many seconds the main thread was stopped the last time. Raises Ended, OSError.
    """
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        visit = Visit(pid, memory, path, source)
        give_up = time.monotonic() + limit_s
        reason = "it never computes"
        for _ in range(TRIES):
            try:
                return visit.attempt()
            except Ended as ended:
                if ended.status != "moved":
                    raise
                reason = ended.detail
            if time.monotonic() > give_up:
                break
            time.sleep(0.002 + os.urandom(1)[0] / 40_000)  # up to 8 ms, at random: the program may have a rhythm
        raise Ended("moved", reason)
    finally:
        os.close(memory)


class Visit:
    """Everything that is found out before the thread is stopped, so that this is short."""

    def __init__(self, pid: int, memory: int, path: str, source: str) -> None:
        self.pid, self.memory = pid, memory
        self.rows = mappings(pid)
        with open("/proc/sys/vm/max_map_count", encoding="ascii") as f:
            if len(self.rows) + MAPPINGS_SPARE > int(f.read()):  # munmap could fail, and pending_call with it
                raise Ended("unfit", "the process has nearly as many memory mappings as it may")
        self.calls = functions(pid, memory, self.rows, {*VISIT, *WHILE_STOPPED})
        self.python, self.symbols = self._python()
        self.breaker = eval_breaker(pid, memory, self.python)
        self.watches_left = MOST_WATCHES
        for name in CPYTHON:
            self.calls[name] = self.python.start + self.symbols[name].start
        self.code, self.entry, self.thread_entry = copied(source)
        self.path = path
        self.stack_end, self.stack_bytes = self._stack()

    def _python(self) -> tuple[MappedRange, dict[str, Symbol]]:
        """CPython itself: the program, or its libpython; the loader, too, would look into the program first."""
        program = os.readlink(f"/proc/{self.pid}/exe")
        candidates = [row for row in self.rows if row.offset == 0 and row.path == program]
        candidates += [row for row in self.rows if row.offset == 0 and "/libpython" in row.path]
        for row in candidates:
            symbols = dict(exported(file_of(self.pid, self.memory, row)))
            if all(name in symbols and is_code(self.rows, row, row.start + symbols[name].start) for name in CPYTHON):
                return row, symbols
        raise Ended("no_loader", "no CPython with Py_AddPendingCall in it")

    def _stack(self) -> tuple[int, int]:
        """Where the main thread's stack ends, and how large it may grow."""
        ends = [row.end for row in self.rows if row.path == "[stack]"]
        with open(f"/proc/{self.pid}/limits", encoding="ascii") as f:
            soft = next(line for line in f if line.startswith("Max stack size")).split()[3]
        if not ends:
            raise Ended("unfit", "the main thread's stack is not known")
        return ends[0], 2**40 if soft == "unlimited" else int(soft)

    # --- one try ----------------------------------------------------------------------------------------------------

    def attempt(self) -> float:
        """Stop the thread and queue the call, or let it go. Raises Ended; ``moved`` where another try may succeed."""
        with open(f"/proc/{self.pid}/task/{self.pid}/syscall", encoding="ascii") as f:
            if f.read().strip() != "running":
                raise Ended("moved", "it waits")
        check_fit(self.pid, self.pid)
        thread = Thread(self.pid)
        ptrace(SEIZE, self.pid)
        begun = time.perf_counter()
        thread.stop()
        registers = thread.registers()
        obstacle = self.obstacle(thread, registers)
        if obstacle and self.may_run_on(registers):
            self.watches_left -= 1
            obstacle = to_next_look(thread, self.memory, self.breaker)
            begun, registers = time.perf_counter(), thread.registers()
            obstacle = obstacle or self.stack_obstacle(registers)
        if obstacle:
            if registers["orig_rax"] in MADE_AGAIN:
                thread.set_registers(resumed(registers, self.memory, signals_wait(self.pid, self.pid)))
            ptrace(DETACH, self.pid, 0, thread.held_signal)
            raise Ended("moved", obstacle)
        self.queue(Loan(thread, self.memory, registers, registers))
        return time.perf_counter() - begun

    def obstacle(self, thread: Thread, registers: dict[str, int]) -> str:
        """Why the stopped thread must be let go; empty where it may be made to call."""
        if waits(registers):
            return "it waits"
        return (
            self.stack_obstacle(registers)
            or self.place(registers["rip"])
            or self.interrupted(thread)
            or self.restartable(thread, registers["rip"])
        )

    def may_run_on(self, registers: dict[str, int]) -> bool:
        """Whether the stopped thread may be stopped once more, where it looks at its eval breaker: if that is known, and it is alone."""
        alone = len(os.listdir(f"/proc/{self.pid}/task")) == 1
        return alone and self.breaker > 0 and self.watches_left > 0 and not waits(registers)

    def stack_obstacle(self, registers: dict[str, int]) -> str:
        if self.stack_end - self.stack_bytes + STACK_NEEDED_BYTES < registers["rsp"] < self.stack_end:
            return ""
        return "it runs on another stack, or at the end of its own"

    def place(self, address: int) -> str:
        """Why the code at `address` is none to interrupt; empty where it is."""
        row = next((row for row in self.rows if row.start <= address < row.end and "x" in row.permissions), None)
        if row is None:
            return "it runs code that is not known"
        if row.path == self.python.path:
            if len(os.listdir(f"/proc/{self.pid}/task")) > 1:
                return "it runs Python, with other threads about"
            at = address - self.python.start
            inside = any(
                s.start <= at < s.start + s.size and ON_OBJECTS.match(name) for name, s in self.symbols.items()
            )
            return "" if inside else "it runs Python"
        name = os.path.basename(row.path)
        return f"it runs {name}" if NOT_THERE.search(name) else ""

    def interrupted(self, thread: Thread) -> str:
        """Whether a signal handler of the program may be running: its signal is blocked then."""
        caught = int(status_fields(self.pid, self.pid)["SigCgt"], 16)
        return "it handles a signal" if thread.signal_mask() & caught else ""

    def restartable(self, thread: Thread, address: int) -> str:
        configuration = ctypes.create_string_buffer(24)
        try:
            ptrace(GET_RSEQ_CONFIGURATION, self.pid, len(configuration), ctypes.addressof(configuration))
        except OSError as error:
            if error.errno == errno.EIO:
                raise Ended(
                    "unfit", "this kernel (before 5.13) does not tell where threads may be interrupted"
                ) from None
            raise
        area = struct.unpack_from("<Q", configuration)[0]
        section = struct.unpack("<Q", os.pread(self.memory, 8, area + 8))[0] if area else 0
        if not section:
            return ""
        start, length = struct.unpack("<QQ", os.pread(self.memory, 16, section + 8))
        return "it is in a restartable sequence" if 0 <= address - start < length else ""

    # --- queueing ---------------------------------------------------------------------------------------------------

    def queue(self, loan: Loan) -> None:
        """Queue the call and give the thread back, whatever happens. Raises Ended."""
        calls = self.calls
        with loan.taken(calls["__errno_location"]):
            if not loan.call(calls["Py_IsInitialized"]) & 0xFFFFFFFF:
                raise Ended("unfit", "its Python is ending")
            protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            pages = loan.call(calls["mmap"], 0, 2 * PAGE_BYTES, protection, flags, 2**64 - 1, 0)
            if pages >= 2**64 - 4096:
                raise Ended("failed", "no memory for two pages")
            try:
                os.pwrite(self.memory, self.content(pages, pages + PAGE_BYTES), pages)
                os.pwrite(self.memory, self.content(pages + PAGE_BYTES, 0), pages + PAGE_BYTES)
                if loan.call(calls["mprotect"], pages, 2 * PAGE_BYTES, mmap.PROT_READ | mmap.PROT_EXEC) & 0xFFFFFFFF:
                    raise Ended("failed", "the system lets no memory be made executable")
                if loan.call(calls["Py_AddPendingCall"], pages + HEAD_BYTES + self.entry, pages) & 0xFFFFFFFF:
                    raise Ended("failed", "CPython's queue of pending calls is full")
            except Ended as ended:
                if ended.status == "failed":  # not after a fault: nobody knows who still refers to the pages
                    loan.call(calls["munmap"], pages, 2 * PAGE_BYTES)
                raise

    def content(self, page: int, second: int) -> bytes:
        """What the page at `page` holds: a ``struct visit`` and the code behind it."""
        pid = int(status_fields(self.pid, self.pid)["NSpid"].split()[-1])
        thread = second + HEAD_BYTES + self.thread_entry
        folder = os.path.dirname(self.path)
        paths = [os.fsencode(path) for path in (self.path, f"{folder}/nothread", f"{folder}/noload")]
        assert max(map(len, paths)) < PATH_BYTES
        addresses = [self.calls[name] for name in VISIT]
        return struct.pack(HEAD, pid, second, thread, *addresses, *paths).ljust(HEAD_BYTES, b"\0") + self.code


def waits(registers: dict[str, int]) -> bool:
    """Whether a stopped thread is in a system call: its number is there, else a negative one."""
    return registers["orig_rax"] < 2**63


HEAD = f"<{3 + len(VISIT)}Q" + 3 * f"{PATH_BYTES}s"
HEAD_BYTES = (struct.calcsize(HEAD) + 15) & ~15


def copied(source: str) -> tuple[bytes, int, int]:
    """The code to be copied from the object at `source`, and where in it pending_call and pending_thread begin. Raises Ended."""
    symbols = exported(source)
    with open(source, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as image:
        section = section_named(image, SECTION)
        if section is None:
            raise Ended("unfit", f"{source} was built for another machine, or before this way in")
        code = image[section.offset : section.offset + section.size]
    assert len(code) <= PAGE_BYTES - HEAD_BYTES
    return code, symbols["pending_call"].start - section.address, symbols["pending_thread"].start - section.address
