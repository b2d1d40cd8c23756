"""Every thread of a job over a short window: how much CPU it uses, what it does, what it waits for, which locks it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .base import Maybe, NotAvailable, Result, Silent
from .finding import Finding
from .observed import Frame
from .waits import ThreadState, Wait

__all__ = ["LockWait", "ProcessThreads", "ProcessUse", "ThreadUse", "Threads"]

_NOT_MEASURED = NotAvailable("not measured")


@dataclass(frozen=True)
class LockWait:
    """A lock that a thread waits for, or what can be waited for like one: an event, a queue, another thread's end.

    ``name`` as the source has it (``"self.lock"``), or its kind where it is more than a name; ``where`` is the frame that waits for it,
    ``"file:line function"``. ``holder``: the thread that holds it (that is to end), empty where nobody in the process can be seen to.
    ``how`` that is known: by the lock's own word (``"owner"``), by a ``with`` that the holder is inside of, by an ``acquire`` without a
    ``release`` (likely); a thread that is to end is it ``"itself"``.
    """

    name: str
    kind: str
    where: str
    holder: str = ""
    holder_tid: int | None = None
    holder_where: str = ""
    how: Literal["", "owner", "with", "acquire", "itself"] = ""


@dataclass(frozen=True)
class ThreadUse:
    """One thread. ``tid`` is the kernel's number for it, ``name`` Python's name, else the kernel's.

    ``cpu_share`` is of one CPU (0 to 1), ``starved_share`` the share of the window in which it was ready and got no CPU. ``where`` is the
    user's frame, else a library's; None of a thread that runs no Python.
    """

    tid: int
    name: str
    state: Maybe[ThreadState]
    cpu_share: float
    starved_share: Maybe[float] = _NOT_MEASURED
    python: bool = False
    training: bool = False
    waiting_for: Wait | None = None
    where: Frame | None = None
    lock: LockWait | None = None
    holds: Sequence[str] = ()
    """The locks, as the source has them, that it holds while another thread waits for them, or while it waits itself."""


@dataclass(frozen=True)
class ProcessUse:
    """What a whole process uses. ``command`` is without secrets, ``state`` is of its main thread. Sizes in bytes, rates per second over the
    time that it was watched.
    """

    command: str
    state: Maybe[ThreadState]
    rss_bytes: int
    swap_bytes: Maybe[int] = _NOT_MEASURED
    read_bytes_per_s: Maybe[float] = _NOT_MEASURED
    written_bytes_per_s: Maybe[float] = _NOT_MEASURED
    major_faults_per_s: Maybe[float] = _NOT_MEASURED
    running_s: Maybe[float] = _NOT_MEASURED


@dataclass(frozen=True)
class ProcessThreads:
    """The threads of one process, the one that used the most CPU first. ``role``, ``rank`` and ``worker`` as of `ProcessStacks`.

    ``process_cpu_share`` is of one CPU, summed over them. ``locks`` is true where an agent told which locks they wait for and hold, else
    the reason why none did. ``rings``: the threads, by ``tid``, that wait for each other in a circle.
    """

    rank: int
    pid: int
    role: str
    worker: str
    process_cpu_share: float
    locks: Maybe[bool]
    threads: Sequence[ThreadUse]
    rings: Sequence[Sequence[int]] = ()
    note: str = ""
    use: ProcessUse | None = None


@dataclass(frozen=True)
class Threads(Result):
    """What `%threads` shows. ``window_s`` is how long they were watched."""

    _rows = "processes.threads"
    processes: Sequence[ProcessThreads]
    silent: Sequence[Silent] = ()
    window_s: float = 0.0
    taken_s: float = 0.0
    verdict: Sequence[Finding] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)

    @property
    def ranks(self) -> Sequence[int]:
        """The ranks that these processes belong to, in order."""
        return sorted({process.rank for process in self.processes})
