"""What processes talk over, and the processes that the ranks of a job talk with and that are none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from .base import Maybe, Worded
from .coroutines import Coroutine
from .observed import ProcessStacks
from .sockets import TcpEnds

if TYPE_CHECKING:
    from .hangs import Activity, LockHolder

__all__ = ["Beside", "Channel", "Channels", "FarEnd", "Flow", "HostPid", "JobProcess", "Partner"]

MOST_OTHERS = 4
HostPid = tuple[str, int]
"""A host and a pid of it; no host where all that is known of is on one."""


@dataclass(frozen=True)
class JobProcess:
    """A process of a job that is no rank, or may be one, as its scheduler (Ray) knows it. ``who``: how it is called there. ``waits_for``:
    the processes that make the results for which it waits, by their hosts and pids. ``coroutines``: what runs in its event loop.
    ``drives``: it gives the others their work, and is a member of no process group.
    """

    who: str
    waits_for: Sequence[HostPid] = ()
    coroutines: Sequence[Coroutine] = ()
    drives: bool = False


@dataclass(frozen=True)
class Flow:
    """That something has come or gone within the last `within_s` seconds. ``bytes`` where the kernel counts them."""

    within_s: float
    bytes: Maybe[int]


@dataclass(frozen=True)
class FarEnd:
    """What is known of a connection where its other end is: who has that, and by which key; see `Channel`."""

    others: Sequence[int]
    key: str = ""
    unread_bytes: int = 0


@dataclass(frozen=True)
class Channel(Worded):
    """A connection, a pipe, a named pipe or a piece of shared memory, as one process has it. ``others`` have the other end, without the
    process itself, on the same host, or on ``host`` where that is named. ``str()`` is its name, as ``tcp 127.0.0.1:41234 -> 127.0.0.1:8000
    ESTABLISHED`` or ``pipe 4711``.

    A ``port`` is one that a variable names, at which the others listen: who asks now and then may have no connection just then. Its
    ``ends`` have no near one. A ``call`` is one that has been given to the others by way of a scheduler, which alone knows of it.

    ``key`` tells it from all others that the process has open; ``far`` is that of the other end there. ``accepted`` is False where the
    others merely listen: they have not taken the connection yet; ``answers`` is True where this process has accepted it, so that the
    others ask. ``unread_bytes`` have arrived here, ``unread_there_bytes`` at the other end, and nobody has read them. ``flow``: what went
    over it while a thread waited there; None where nothing did, or nobody looked. ``silent_s``: since when nothing has, where the kernel
    tells. ``ends``: of a connection.
    """

    kind: Literal["tcp", "unix", "pipe", "named pipe", "memory", "port", "call"]
    key: str
    name: str
    others: Sequence[int] = ()
    far: str = ""
    accepted: bool = True
    answers: bool = False
    unread_bytes: int = 0
    unread_there_bytes: int = 0
    flow: Flow | None = None
    silent_s: float | None = None
    ends: TcpEnds | None = None
    host: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def tells(self) -> bool:
        """Whether it leads to few enough to say something of one of them."""
        return len(self.others) <= MOST_OTHERS

    def beyond(self, host: str) -> list[HostPid]:
        """Who has the other end, where this one is on `host`."""
        return [(self.host or host, pid) for pid in self.others]

    def joined(self, end: FarEnd, host: str = "") -> Channel:
        """With what is known of its other end, on `host`. One without a key is of a listener, which has not taken a connection yet."""
        return replace(
            self,
            others=tuple(end.others),
            host=host,
            far=end.key,
            accepted=bool(end.key) or self.kind == "port",
            unread_there_bytes=end.unread_bytes,
        )

    def meets(self, other: Channel) -> bool:
        """Whether `other`, as the process at the other end has it, is the same one."""
        return bool(self.far) and self.far == other.key


@dataclass(frozen=True)
class Channels:
    """Those of one process that lead to others. ``at``: the keys of those at which a thread waits, by its tid."""

    open: Sequence[Channel] = ()
    at: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def is_waited_at(self, channel: Channel) -> bool:
        """Whether any thread of the process waits there, also one of a library."""
        return any(channel.key in keys for keys in self.at.values())

    def waited_at(self, tid: int) -> list[Channel]:
        """The channels at which thread `tid` waits."""
        keys = set(self.at.get(tid, ()))
        return [channel for channel in self.open if channel.key in keys]

    def waited_led(self, tid: int) -> list[Channel]:
        """Those of them of which it is known whereto they lead."""
        return [channel for channel in self.waited_at(tid) if channel.others]


@dataclass(frozen=True)
class Partner:
    """A process that is no rank of the job, and that a rank has to do with, or that such a process has to do with.

    ``stacks`` is None where it is no Python, or closed to us. ``trains``: it has loaded torch, and so may be a member of a process group.
    ``who``: how its job calls it; empty where it is of none.
    """

    activity: Activity
    channels: Channels
    stacks: ProcessStacks | None = None
    trains: bool = False
    who: str = ""

    @property
    def pid(self) -> int:
        return self.activity.pid


@dataclass(frozen=True)
class Beside:
    """What is known on one host of the processes that its ranks have to do with, each by its pid.

    ``channels``: what leads to other processes from the ranks that stand still. ``partners``: the processes to which that leads, and those
    to which these are connected in turn. ``lock_holders``: who holds the file lock that a process waits for, by the pid of the latter.
    """

    channels: Mapping[int, Channels] = field(default_factory=dict)
    partners: Mapping[int, Partner] = field(default_factory=dict)
    lock_holders: Mapping[int, LockHolder] = field(default_factory=dict)
