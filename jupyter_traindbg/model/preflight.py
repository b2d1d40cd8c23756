"""What can be known of a distributed job before it is started, or while it does not come up: names, ports, interfaces, room, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .base import Maybe, NotAvailable, Result
from .finding import Finding

__all__ = ["AllReduce", "AllReduceSize", "Interface", "Preflight", "PreflightHost", "PreflightPort"]

_NOT_MEASURED = NotAvailable("not measured")


@dataclass(frozen=True)
class PreflightHost:
    """A host that was named: what its name means here, and how far it is. Times in seconds."""

    name: str
    addresses: Sequence[str]
    """As its name resolves on this machine; empty where it does not."""
    resolve_s: float
    local: bool = False
    """Whether one of them belongs to this machine."""
    problem: str = ""
    """Why it does not resolve, or cannot be reached."""
    interface: Maybe[str] = _NOT_MEASURED
    """From which of ours it is reached."""
    latency_s: Maybe[float] = _NOT_MEASURED
    """The median of several TCP handshakes with it, answered or refused."""


@dataclass(frozen=True)
class PreflightPort:
    """One TCP port, from here.

    ``free``: of this machine, and nobody has it. ``taken``: of this machine, and somebody else has (`holder`). ``open``: somebody
    answers there; of this machine, a job that meets there. ``refused``: nobody listens there. ``filtered``: no answer at all.
    ``unreachable``: no way there, or a firewall said so.
    """

    host: str
    port: int
    state: Literal["free", "taken", "open", "refused", "filtered", "unreachable", "not permitted", "unresolved"]
    detail: str = ""
    holder_pid: int | None = None
    holder: str = ""
    """The command line of who has it, where that may be seen."""
    answered_s: Maybe[float] = _NOT_MEASURED


@dataclass(frozen=True)
class Interface:
    """A network interface of this machine. ``speed_mbit_per_s`` 0 is what virtual ones say."""

    name: str
    up: bool
    addresses: Sequence[str]
    speed_mbit_per_s: Maybe[int] = _NOT_MEASURED
    mtu: Maybe[int] = _NOT_MEASURED
    loopback: bool = False


@dataclass(frozen=True)
class AllReduceSize:
    """One size of message: the median time of one call on the slowest rank.

    ``bus_bytes_per_s`` is the algorithm's bandwidth times ``2 (n - 1) / n``, to be compared with that of the hardware
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
    """

    size_bytes: int
    calls: int
    median_s: float
    bus_bytes_per_s: float


@dataclass(frozen=True)
class AllReduce:
    """A real all_reduce among `processes` local processes: the sums were right on every rank, or `problem` says what happened."""

    backend: str
    processes: int
    start_s: Maybe[float] = _NOT_MEASURED
    """From starting the processes to the first result."""
    init_s: Maybe[float] = _NOT_MEASURED
    """`init_process_group` alone, on the slowest rank."""
    sizes: Sequence[AllReduceSize] = ()
    problem: str = ""
    last_lines: Sequence[str] = ()
    """What the first rank that failed wrote last."""


@dataclass(frozen=True)
class Preflight(Result):
    """One machine, looked at before a job. ``world_size`` is processes on all machines."""

    _rows = "verdict"
    host: str
    backend: str
    nodes: int
    per_node: int
    cpus: int
    gpus: Maybe[int]
    hosts: Sequence[PreflightHost] = ()
    ports: Sequence[PreflightPort] = ()
    interfaces: Sequence[Interface] = ()
    chosen: Sequence[str] = ()
    """The interfaces that the backend will use, as far as that can be told beforehand."""
    chosen_by: str = ""
    shm_free_bytes: Maybe[int] = _NOT_MEASURED
    shm_bytes: Maybe[int] = _NOT_MEASURED
    limits: Mapping[str, int] = field(default_factory=dict)
    """Soft limits by name, -1 for none."""
    versions: Mapping[str, str] = field(default_factory=dict)
    all_reduce: AllReduce | None = None
    verdict: Sequence[Finding] = ()
    notes: Sequence[str] = ()
    taken_s: float = 0.0

    @property
    def world_size(self) -> int:
        return self.nodes * self.per_node

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)
