"""Call dlopen in one thread of another process: ``python -I -S ptrace.py PID TID OBJECT SYSCALL [--pyinjector FOLDER]``.

Run as a program of its own, in a session of its own, so that nothing which ends a notebook ends it between taking a thread and putting
it back: that would leave the thread to return to address 0. For the same reason it has no time limit once the call has begun. Standard
library only. It prints one line of JSON: ``status`` (see ``Status``), ``detail``, ``paused_s`` (how long the thread was stopped).

The thread must be parked in the system call whose line in /proc/PID/task/TID/syscall is SYSCALL. It is stopped, checked to be in that very
call still, made to call dlopen(OBJECT) below its red zone, and put back: general and vector registers, signal mask, errno. The kernel then
restarts the system call as after any stop. No code of the process is changed. x86-64; ``--pyinjector`` uses that library (other machines).
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import signal
import struct
import sys
import time
from dataclasses import dataclass
from typing import Literal

Status = Literal[
    "done",  # dlopen returned a handle
    "moved",  # the thread was no longer in that system call; nothing was changed
    "unfit",  # the thread cannot be borrowed: small stack, shadow stack; nothing was changed
    "gone",  # the thread or process ended
    "forbidden",  # the kernel refused ptrace
    "no_loader",  # no libc with dlopen in the process; nothing was changed
    "failed",  # dlopen returned NULL; `detail` is what dlerror says
    "fault",  # dlopen hit a bad address; the thread was put back all the same
]

SEIZE, INTERRUPT, CONT, DETACH = 0x4206, 0x4207, 7, 17
GETREGSET, SETREGSET, GETSIGINFO, GETSIGMASK, SETSIGMASK = 0x4204, 0x4205, 0x4202, 0x420A, 0x420B
NT_PRSTATUS, NT_PRFPREG, NT_X86_XSTATE = 1, 2, 0x202
EVENT_STOP = 128
WALL = 0x40000000  # waitpid: threads too

REGISTERS = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs",
    "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
)  # fmt: skip
ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")  # of a system call
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
SCRATCH_BYTES = 8192  # between the thread's stack and ours: holds the path
STACK_NEEDED_BYTES = 96 * 1024
RETURN_LIMIT_S = 0.1
STOP_LIMIT_S = 1.0
RTLD_NOW = 2
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


# --- the address of dlopen ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    permissions: str
    offset: int
    path: str


@dataclass(frozen=True)
class Functions:
    """Addresses in the target."""

    dlopen: int
    dlerror: int
    errno_location: int


def mappings(pid: int) -> list[Mapping]:
    rows = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            span, permissions, offset, _, _, *rest = line.rstrip("\n").split(None, 5)
            start, end = (int(x, 16) for x in span.split("-"))
            rows.append(Mapping(start, end, permissions, int(offset, 16), rest[0] if rest else ""))
    return rows


def functions(pid: int, memory: int, rows: list[Mapping]) -> Functions:
    """Where dlopen and its companions are: in libc since glibc 2.34 and in musl, in libdl before. Raises Ended."""
    wanted = {"dlopen", "dlerror", "__errno_location"}
    found: dict[str, int] = {}
    for prefix in ("libc.so", "libc-2", "ld-musl", "libdl"):
        for row in rows:
            if row.offset == 0 and os.path.basename(row.path).startswith(prefix) and wanted - found.keys():
                for name, value in exported(file_of(pid, memory, row), wanted).items():
                    if is_code(rows, row, row.start + value):
                        found.setdefault(name, row.start + value)
    missing = wanted - found.keys()
    if missing:
        raise Ended("no_loader", f"no {', '.join(sorted(missing))} in its libraries")
    return Functions(found["dlopen"], found["dlerror"], found["__errno_location"])


def is_code(rows: list[Mapping], library: Mapping, address: int) -> bool:
    """Whether `library` is loaded there to be run: a file that was merely read by mmap has no executable part."""
    return any(row.start <= address < row.end and "x" in row.permissions and row.path == library.path for row in rows)


def file_of(pid: int, memory: int, row: Mapping) -> str:
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


def exported(path: str, names: set[str]) -> dict[str, int]:
    """Of `names`, those that the 64-bit shared object at `path` defines, with their addresses relative to its start."""
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as image:
        section_table = struct.unpack_from("<Q", image, 0x28)[0]
        entry_bytes, count = struct.unpack_from("<HH", image, 0x3A)
        sections = [struct.unpack_from("<IIQQQQIIQQ", image, section_table + i * entry_bytes) for i in range(count)]
        found: dict[str, int] = {}
        for _, kind, _, _, offset, size, link, *_ in sections:
            if kind != 11:  # SHT_DYNSYM
                continue
            strings = sections[link][4]
            for symbol in range(offset, offset + size, 24):
                name_at, info, _, section, value = struct.unpack_from("<IBBHQ", image, symbol)
                if section and info & 0xF == 2:  # a defined function
                    begin = strings + name_at
                    name = image[begin : image.find(b"\0", begin)].decode("utf-8", "replace")
                    if name in names:
                        found[name] = value
        return found


# --- one stopped thread ---------------------------------------------------------------------------------------------


class Thread:
    """One thread under ptrace, from seize to detach."""

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.held_signal = 0  # SIGSTOP cannot be blocked: kept until the thread is put back

    def wait(self) -> int:
        """The next stop's status. Raises Ended("gone") where the thread is no more."""
        while True:
            try:
                _, status = os.waitpid(self.tid, WALL)
            except ChildProcessError:
                raise Ended("gone", "the thread ended") from None
            if os.WIFSTOPPED(status):
                return status
            raise Ended("gone", "the process ended")

    def stop(self) -> None:
        """Stop the thread where it is. Raises Ended; then nothing was changed."""
        ptrace(INTERRUPT, self.tid)
        give_up = time.monotonic() + STOP_LIMIT_S
        while True:
            pid, status = os.waitpid(self.tid, WALL | os.WNOHANG)
            if pid:
                break
            if time.monotonic() > give_up:  # our exit detaches it
                raise Ended("moved", "the thread did not stop")
            time.sleep(0.0002)
        if not os.WIFSTOPPED(status):
            raise Ended("gone", "the process ended")
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

    def signal_code(self) -> int:
        """si_code of the signal that the thread is stopped at: above 0 where the processor raised it, not another process."""
        info = (ctypes.c_int * 32)()
        ptrace(GETSIGINFO, self.tid, 0, ctypes.addressof(info))
        return info[2]

    def call(self, base: dict[str, int], stack: int, function: int, *arguments: int) -> int:
        """Run `function` on `stack`, whose top word is a return address of 0; returns rax. Waits as long as the call takes."""
        start = dict(base, rip=function, rsp=stack, rax=0, orig_rax=MINUS_ONE)  # -1: no system call is to be restarted
        start["eflags"] &= ~DIRECTION_FLAG
        start.update(zip(("rdi", "rsi"), arguments, strict=False))
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


# --- the work -------------------------------------------------------------------------------------------------------


def same_call(registers: dict[str, int], syscall: str) -> bool:
    """Whether the stopped thread is in the very system call that `syscall` (a line of /proc) describes, not yet answered."""
    number, *rest = syscall.split()
    now = [registers[name] for name in (*ARGUMENTS, "rsp", "rip")]
    return (
        registers["orig_rax"] == int(number)
        and registers["rax"] in RESTARTS | {INTERRUPTED}
        and now == [int(word, 16) for word in rest]
    )


def await_call(pid: int, tid: int, syscall: str) -> None:
    """Return while the thread is parked there: one that comes and goes is thus caught without being stopped in vain."""
    give_up = time.monotonic() + RETURN_LIMIT_S
    with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as f:
        while f.read().strip() != syscall:
            if time.monotonic() > give_up:
                raise Ended("moved", "the thread went on")
            time.sleep(0.0001)
            f.seek(0)


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


def check_fit(pid: int, tid: int, stack_pointer: int, rows: list[Mapping]) -> None:
    """Raises Ended where the thread has no room for the call, or cannot return to address 0 and be caught."""
    fields = status_fields(pid, tid)
    if "shstk" in fields.get("x86_Thread_features", ""):
        raise Ended("unfit", "the thread has a shadow stack")
    if int(fields["SigIgn"], 16) & 1 << (signal.SIGSEGV - 1):
        raise Ended("unfit", "the process ignores SIGSEGV")
    for row in rows:
        if row.start <= stack_pointer < row.end:
            if row.path != "[stack]" and stack_pointer - row.start < STACK_NEEDED_BYTES:  # [stack] grows by itself
                raise Ended("unfit", "the thread's stack is small")
            return
    raise Ended("moved", "the stack is gone")


def load(pid: int, tid: int, path: str, syscall: str) -> float:
    """dlopen `path` in thread `tid`; returns for how many seconds the thread was stopped. Raises Ended, OSError."""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        rows = mappings(pid)
        calls = functions(pid, memory, rows)
        check_fit(pid, tid, int(syscall.split()[7], 16), rows)
        thread = Thread(tid)
        await_call(pid, tid, syscall)
        ptrace(SEIZE, tid)
        begun = time.perf_counter()
        thread.stop()
        registers = thread.registers()
        if not same_call(registers, syscall):
            ptrace(DETACH, tid)
            raise Ended("moved", "the thread went on")
        loan = Loan(thread, memory, registers, resumed(registers, memory, signals_wait(pid, tid)))
        loan.load(calls, path)
        return time.perf_counter() - begun
    finally:
        os.close(memory)


class Loan:
    """A stopped thread, what it was found with, and what it is left with."""

    def __init__(self, thread: Thread, memory: int, found: dict[str, int], leave: dict[str, int]) -> None:
        self.thread, self.memory, self.found, self.leave = thread, memory, found, leave
        self.vector_kind, self.vectors = thread.vector_state()
        self.mask = thread.signal_mask()
        self.scratch = (found["rsp"] - RED_ZONE_BYTES - SCRATCH_BYTES) & ~0xF

    def load(self, calls: Functions, path: str) -> None:
        """dlopen `path` and give the thread back, whatever happens. Raises Ended."""
        handle, reason = 0, ""
        try:
            self.thread.set_signal_mask((2**64 - 1) & ~sum(1 << (number - 1) for number in FAULTS))
            error_at = self.call(calls.errno_location)
            error_number = os.pread(self.memory, 4, error_at)
            os.pwrite(self.memory, os.fsencode(path) + b"\0", self.scratch)
            handle = self.call(calls.dlopen, self.scratch, RTLD_NOW)
            if not handle:
                text_at = self.call(calls.dlerror)
                text = os.pread(self.memory, 1024, text_at) if text_at else b"no reason given"
                reason = text.split(b"\0")[0].decode("utf-8", "replace")
            os.pwrite(self.memory, error_number, error_at)
        finally:
            self.put_back()
        if not handle:
            raise Ended("failed", reason)

    def call(self, function: int, *arguments: int) -> int:
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


def main(arguments: list[str]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    pid, tid, path, syscall = int(arguments[0]), int(arguments[1]), arguments[2], arguments[3]
    status: Status = "done"
    detail, paused_s = "", 0.0
    try:
        other = arguments[4:5] == ["--pyinjector"]
        paused_s = load_by_pyinjector(tid, path, arguments[5]) if other else load(pid, tid, path, syscall)
    except Ended as ended:
        status, detail = ended.status, ended.detail
    except PermissionError as error:
        status, detail = "forbidden", str(error)
    except (ProcessLookupError, FileNotFoundError) as error:
        status, detail = "gone", str(error)
    print(json.dumps({"status": status, "detail": detail, "paused_s": paused_s}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
