"""One thread of another process under ptrace: stopped, made to call functions, and put back exactly as it was found.

What ptrace.py (a parked thread) and pending.py (the main thread while it computes) share. They run outside the package, as a program of
their own, so this is standard library only. Linux on x86-64.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import mmap
import os
import signal
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal[
    "done",
    "moved",  # the thread was not where it can be borrowed; nothing was changed
    "unfit",  # the thread can never be borrowed: small stack, shadow stack; nothing was changed
    "gone",  # the thread or process ended
    "forbidden",  # the kernel refused ptrace
    "no_loader",  # a function that must be called is not in the process; nothing was changed
    "failed",  # a call refused; `detail` is its reason
    "fault",  # a call hit a bad address; the thread was put back all the same
]

SEIZE, INTERRUPT, CONT, DETACH, POKEUSER = 0x4206, 0x4207, 7, 17, 6
GETREGSET, SETREGSET, GETSIGINFO, GETSIGMASK, SETSIGMASK = 0x4204, 0x4205, 0x4202, 0x420A, 0x420B
NT_PRSTATUS, NT_PRFPREG, NT_X86_XSTATE = 1, 2, 0x202
EVENT_STOP = 128
# Where `struct user` has the processor's debug registers; register 7 says of the others what they are for.
DEBUG_REGISTER_0, DEBUG_REGISTER_7 = 848, 848 + 7 * 8
WATCH_WRITES = 0x90001  # in register 7: of the eight bytes that register 0 points at
AT_WATCHED = 4  # si_code, TRAP_HWBKPT
SHT_DYNSYM, STT_FUNC, PT_LOAD = 11, 2, 1
WALL = 0x40000000  # waitpid: threads too

REGISTERS = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs",
    "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
)  # fmt: skip
CALL_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
MINUS_ONE = 2**64 - 1
RESTARTS = {
    -512 % 2**64,
    -513 % 2**64,
    -514 % 2**64,
    -516 % 2**64,
}  # -ERESTART...: the kernel will restart the call by itself
INTERRUPTED = -errno.EINTR % 2**64
DIRECTION_FLAG = 0x400
SYSCALL_INSTRUCTION = b"\x0f\x05"

RED_ZONE_BYTES = 128
SCRATCH_BYTES = 8192  # between the thread's stack and ours: room for what a call is given by address
STACK_NEEDED_BYTES = 96 * 1024  # for a call: the loader, where it is called, with what it calls
STOP_LIMIT_S = 1.0
# Everything else is blocked while the thread is ours, and so stays queued, whole, for the thread or its siblings. These cannot be: a
# blocked fault makes the kernel reset the program's handler.
FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS)

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class Ended(Exception):
    """Leaves the work with a status other than done."""

    def __init__(self, status: Status, detail: str = "") -> None:
        self.status, self.detail = status, detail
        super().__init__(detail)


class IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def ptrace(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    if libc.ptrace(request, tid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


# --- addresses ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MappedRange:
    """A line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    offset: int
    path: str


@dataclass(frozen=True)
class Symbol:
    """A function of a shared object; ``start`` counts from where the object begins in memory."""

    start: int
    size: int


def mappings(pid: int) -> list[MappedRange]:
    rows = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            span, permissions, offset, _, _, *rest = line.rstrip("\n").split(None, 5)
            start, end = (int(x, 16) for x in span.split("-"))
            rows.append(MappedRange(start, end, permissions, int(offset, 16), rest[0] if rest else ""))
    return rows


def functions(pid: int, memory: int, rows: list[MappedRange], wanted: set[str]) -> dict[str, int]:
    """Where these functions of the C library are: in libc since glibc 2.34 and in musl, in other parts of it before. Raises Ended."""
    found: dict[str, int] = {}
    for prefix in ("libc.so", "libc-2", "ld-musl", "libpthread", "libdl"):
        for row in rows:
            if row.offset == 0 and os.path.basename(row.path).startswith(prefix) and wanted - found.keys():
                symbols = exported(file_of(pid, memory, row))
                for name in symbols.keys() & wanted:
                    if is_code(rows, row, row.start + symbols[name].start):
                        found.setdefault(name, row.start + symbols[name].start)
    missing = wanted - found.keys()
    if missing:
        raise Ended("no_loader", f"no {', '.join(sorted(missing))} in its libraries")
    return found


def is_code(rows: list[MappedRange], library: MappedRange, address: int) -> bool:
    """Whether `library` is loaded there to be run: a file that was merely read by mmap has no executable part."""
    return any(row.start <= address < row.end and "x" in row.permissions and row.path == library.path for row in rows)


def file_of(pid: int, memory: int, row: MappedRange) -> str:
    """The path, for us, of the file that `row` maps. Raises Ended where another one is there now (an upgrade under a running job)."""
    path = f"/proc/{pid}/root{row.path}"
    try:
        with open(path, "rb") as f:
            on_disk = f.read(4096)  # its headers, with the id of the build
    except FileNotFoundError:
        on_disk = b""
    if not on_disk or os.pread(memory, len(on_disk), row.start) != on_disk:
        raise Ended("no_loader", f"{row.path} has been replaced on disk since the process started")
    return path


def exported(path: str) -> Mapping[str, Symbol]:
    """The functions that the 64-bit program or shared object at `path` lets others call."""
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as image:
        begin = first_address(image)
        found: dict[str, Symbol] = {}
        table = sections(image)
        for section in table:
            if section.kind != SHT_DYNSYM:
                continue
            strings = table[section.link].offset
            for at in range(section.offset, section.offset + section.size, 24):
                name_at, info, _, defined, value, size = struct.unpack_from("<IBBHQQ", image, at)
                if defined and info & 0xF == STT_FUNC:
                    name = image[strings + name_at : image.find(b"\0", strings + name_at)].decode("utf-8", "replace")
                    found[name] = Symbol(value - begin, size)
        return found


@dataclass(frozen=True)
class Section:
    """A line of an ELF file's section table; ``name_at`` is where its name is in the file."""

    name_at: int
    kind: int
    address: int
    offset: int
    size: int
    link: int


def sections(image: mmap.mmap) -> list[Section]:
    table = struct.unpack_from("<Q", image, 0x28)[0]
    entry_bytes, count, names = struct.unpack_from("<HHH", image, 0x3A)
    rows = [struct.unpack_from("<IIQQQQII", image, table + i * entry_bytes) for i in range(count)]
    names_at = rows[names][4] if names < count else 0
    return [
        Section(names_at + name, kind, address, offset, size, link)
        for name, kind, _, address, offset, size, link, _ in rows
    ]


def section_named(image: mmap.mmap, name: bytes) -> Section | None:
    wanted = name + b"\0"
    for section in sections(image):
        if image[section.name_at : section.name_at + len(wanted)] == wanted:
            return section
    return None


def first_address(image: mmap.mmap) -> int:
    """The address that the file gives to its first byte: 0 but for programs that are not position-independent."""
    table = struct.unpack_from("<Q", image, 0x20)[0]
    entry_bytes, count = struct.unpack_from("<HH", image, 0x36)
    for i in range(count):
        kind, _, offset, address = struct.unpack_from("<IIQQ", image, table + i * entry_bytes)
        if kind == PT_LOAD and offset == 0:
            return int(address)
    return 0


# --- one stopped thread ---------------------------------------------------------------------------------------------


class Thread:
    """One thread under ptrace, from seize to detach."""

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.held_signal = 0  # SIGSTOP cannot be blocked: kept until the thread is put back

    def wait(self, ends: float = math.inf) -> int:
        """The next stop's status; 0 where none has come by `ends`, on the monotonic clock. Raises Ended where the thread is no more."""
        while True:
            try:
                pid, status = os.waitpid(self.tid, WALL if ends == math.inf else WALL | os.WNOHANG)
            except ChildProcessError:
                raise Ended("gone", "the thread ended") from None
            if pid and not os.WIFSTOPPED(status):
                raise Ended("gone", "the process ended")
            if pid or time.monotonic() > ends:
                return status
            time.sleep(0.0002)

    def stop(self) -> None:
        """Stop the thread where it is. Raises Ended; then nothing was changed."""
        ptrace(INTERRUPT, self.tid)
        status = self.wait(time.monotonic() + STOP_LIMIT_S)
        if not status:  # our exit detaches it
            raise Ended("unfit", "the thread did not stop")
        number = os.WSTOPSIG(status)
        if status >> 16 != EVENT_STOP:  # a signal came first: hand it on and leave
            ptrace(DETACH, self.tid, 0, number)
            raise Ended("moved", f"signal {number} arrived")
        if number != signal.SIGTRAP:  # a group stop
            ptrace(DETACH, self.tid)
            raise Ended("moved", "the process was stopped")

    def get(self, kind: int) -> bytes:
        buffer = ctypes.create_string_buffer(65536)
        vector = IoVec(ctypes.addressof(buffer), len(buffer))
        ptrace(GETREGSET, self.tid, kind, ctypes.addressof(vector))
        return buffer.raw[: vector.length]

    def set(self, kind: int, content: bytes) -> None:
        buffer = ctypes.create_string_buffer(content, len(content))
        vector = IoVec(ctypes.addressof(buffer), len(content))
        ptrace(SETREGSET, self.tid, kind, ctypes.addressof(vector))

    def registers(self) -> dict[str, int]:
        return dict(zip(REGISTERS, struct.unpack("<27Q", self.get(NT_PRSTATUS)), strict=True))

    def set_registers(self, registers: dict[str, int]) -> None:
        self.set(NT_PRSTATUS, struct.pack("<27Q", *(registers[name] for name in REGISTERS)))

    def vector_state(self) -> tuple[int, bytes]:
        try:
            return NT_X86_XSTATE, self.get(NT_X86_XSTATE)
        except OSError as error:
            if error.errno not in (errno.ENODEV, errno.EINVAL):
                raise
            return NT_PRFPREG, self.get(NT_PRFPREG)  # a processor without XSAVE has no more than this

    def signal_mask(self) -> int:
        mask = ctypes.c_uint64()
        ptrace(GETSIGMASK, self.tid, 8, ctypes.addressof(mask))
        return mask.value

    def set_signal_mask(self, value: int) -> None:
        mask = ctypes.c_uint64(value)
        ptrace(SETSIGMASK, self.tid, 8, ctypes.addressof(mask))

    def watch(self, address: int) -> None:
        """Have the thread stop, with SIGTRAP, after each of its instructions that writes to the eight bytes at `address`; 0 ends that.

        Raises OSError where the system lends no debug registers.
        """
        ptrace(POKEUSER, self.tid, DEBUG_REGISTER_7, 0)
        ptrace(POKEUSER, self.tid, DEBUG_REGISTER_0, address)
        if address:
            ptrace(POKEUSER, self.tid, DEBUG_REGISTER_7, WATCH_WRITES)

    def signal_code(self) -> int:
        """si_code of the signal that the thread is stopped at: above 0 where the processor raised it, not another process."""
        info = (ctypes.c_int * 32)()
        ptrace(GETSIGINFO, self.tid, 0, ctypes.addressof(info))
        return info[2]

    def call(self, base: dict[str, int], stack: int, function: int, *arguments: int) -> int:
        """Run `function` on `stack`, whose top word is a return address of 0; returns rax. Waits as long as the call takes."""
        start = dict(base, rip=function, rsp=stack, rax=0, orig_rax=MINUS_ONE)  # -1: no system call is to be restarted
        start["eflags"] &= ~DIRECTION_FLAG
        start.update(zip(CALL_ARGUMENTS, arguments, strict=False))
        self.set_registers(start)
        deliver = 0
        while True:
            ptrace(CONT, self.tid, 0, deliver)
            deliver = 0
            status = self.wait()
            number = os.WSTOPSIG(status)
            if status >> 16 == EVENT_STOP:  # the process is being stopped or continued: that waits until we are done
                continue
            if number == signal.SIGSTOP:
                self.held_signal = number
            elif number in FAULTS and self.signal_code() > 0:
                now = self.registers()
                if number == signal.SIGSEGV and now["rip"] == 0:
                    return now["rax"]
                raise Ended("fault", f"signal {number} at {now['rip']:#x}")
            else:
                deliver = number


# --- lending it ------------------------------------------------------------------------------------------------------


def resumed(registers: dict[str, int], memory: int, signals_wait: bool) -> dict[str, int]:
    """The registers to leave with: as found, but where the kernel would report our stop as EINTR, the call is made once more.

    epoll_wait does so, and recv on a socket with a time limit. Not while a signal waits: then EINTR is the true answer.
    """
    at = registers["rip"] - len(SYSCALL_INSTRUCTION)
    if registers["rax"] != INTERRUPTED or signals_wait or os.pread(memory, 2, at) != SYSCALL_INSTRUCTION:
        return registers
    return dict(registers, rip=at, rax=registers["orig_rax"], orig_rax=MINUS_ONE)


def signals_wait(pid: int, tid: int) -> bool:
    fields = status_fields(pid, tid)
    pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
    return bool(pending & ~int(fields["SigBlk"], 16))


def status_fields(pid: int, tid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8", errors="replace") as f:
        return {key: value.strip() for key, _, value in (line.partition(":") for line in f)}


def check_fit(pid: int, tid: int) -> None:
    """Raises Ended where the thread cannot return to address 0 and be caught."""
    fields = status_fields(pid, tid)
    if "shstk" in fields.get("x86_Thread_features", ""):
        raise Ended("unfit", "the thread has a shadow stack")
    if int(fields["SigIgn"], 16) & 1 << (signal.SIGSEGV - 1):
        raise Ended("unfit", "the process ignores SIGSEGV")


class Loan:
    """A stopped thread, what it was found with, and what it is left with."""

    def __init__(self, thread: Thread, memory: int, found: dict[str, int], leave: dict[str, int]) -> None:
        self.thread, self.memory, self.found, self.leave = thread, memory, found, leave
        self.vector_kind, self.vectors = thread.vector_state()
        self.mask = thread.signal_mask()
        self.scratch = (found["rsp"] - RED_ZONE_BYTES - SCRATCH_BYTES) & ~0xF

    @contextlib.contextmanager
    def taken(self, errno_location: int) -> Iterator[None]:
        """While this holds the thread can be made to call; afterwards it runs on as it was found, whatever happened. Raises Ended."""
        try:
            self.thread.set_signal_mask((2**64 - 1) & ~sum(1 << (number - 1) for number in FAULTS))
            error_at = self.call(errno_location)
            error_number = os.pread(self.memory, 4, error_at)
            try:
                yield
            finally:
                os.pwrite(self.memory, error_number, error_at)
        finally:
            self.put_back()

    def call(self, function: int, *arguments: int) -> int:
        """Call `function` with up to six integers below the thread's red zone; returns rax. Waits as long as it takes. Raises Ended."""
        stack = self.scratch - 8  # as just after a call instruction, with a return address of 0
        os.pwrite(self.memory, bytes(8), stack)
        return self.thread.call(self.found, stack, function, *arguments)

    def put_back(self) -> None:
        try:
            self.thread.set(self.vector_kind, self.vectors)
            self.thread.set_registers(self.leave)
            self.thread.set_signal_mask(self.mask)
            ptrace(DETACH, self.thread.tid, 0, self.thread.held_signal)
        except ProcessLookupError:  # killed meanwhile: there is nobody to put back
            raise Ended("gone", "the process ended") from None
