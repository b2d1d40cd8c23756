"""What a hang is judged by, and the judgement: collectives, what processes do over time, how they ended, and the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .base import Finding, Maybe, NotAvailable, Result, Silent
from .observed import ProcessStacks

__all__ = [
    "Activity",
    "Collective",
    "Collectives",
    "Diagnosis",
    "Ending",
    "Group",
    "HostFacts",
    "JobEvidence",
    "Look",
    "Pace",
    "RankCollectives",
    "RankEvidence",
    "RankState",
    "ThreadActivity",
]
_NOT_MEASURED = NotAvailable("not measured")


# --- collectives ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collective:
    """One call of a collective, or of send or receive, as a rank's flight recorder has it.

    ``sequence`` counts the calls on that process group (for `p2p`, the sends and receives on it). Sizes are lists of shapes in
    elements. ``at`` is ``"file:line function"`` of the user's code where stacks were recorded.
    """

    group: str
    sequence: int
    op: str
    input_sizes: Sequence[Sequence[int]] = ()
    output_sizes: Sequence[Sequence[int]] = ()
    dtypes: Sequence[str] = ()
    state: Literal["issued", "started", "completed"] = "issued"
    p2p: bool = False
    peer: int | None = None
    issued_s: Maybe[float] = _NOT_MEASURED
    """Unix time."""
    at: str | None = None


@dataclass(frozen=True)
class Group:
    """A process group as one rank has it. ``ranks`` are global ranks, empty where not known; `last_issued` and `last_completed`
    are sequence numbers, 0 where there was none, None where not known.
    """

    name: str
    description: str
    backend: str
    ranks: Sequence[int]
    last_issued: int | None
    last_completed: int | None


@dataclass(frozen=True)
class RankCollectives:
    """The groups of one rank and the last calls on them, oldest first. ``source``: ``"agent"`` or the dump file's name.

    ``capacity_reached``: the recorder's ring has overwritten older calls. ``waiting_s``: since when the oldest call that is not
    completed has been waiting.
    """

    rank: int
    pid: int
    source: str
    groups: Sequence[Group]
    calls: Sequence[Collective]
    capacity_reached: bool = False
    waiting_s: Maybe[float] = _NOT_MEASURED
    note: str = ""


@dataclass(frozen=True)
class Collectives(Result):
    """The collective view of a job. ``missing`` are ranks of the job of which there is nothing to read."""

    ranks: Sequence[RankCollectives]
    silent: Sequence[Silent] = ()
    missing: Sequence[int] = ()
    world_size: int | None = None
    verdict: Sequence[Finding] = ()
    taken_s: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)


# --- what processes do ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThreadActivity:
    """One thread over the window. ``state`` is the kernel's letter at its end; ``cpu_share`` is of one CPU (0 to 1)."""

    tid: int
    name: str
    state: str
    cpu_share: float
    switches: int
    """How often it was switched in during the window: 0 for one that slept all the time."""
    wchan: Maybe[str] = _NOT_MEASURED
    call: str = ""
    """The system call it sits in (``"futex"``, ``"recvfrom"``), ``"running"``, or ``""`` where the kernel does not say."""
    on: str | None = None
    """The file, pipe or socket of that call; a socket as ``"tcp 10.0.0.1:41234 -> 10.0.0.2:29500 ESTABLISHED"`` where known."""


@dataclass(frozen=True)
class Activity:
    """What a process did during ``window_s``, from /proc, without its help. Rates are per second; sizes in bytes."""

    pid: int
    role: str
    """As in `ProcessStacks.role`."""
    command: str
    window_s: float
    state: str
    """Of the main thread: R, S, D, T (stopped), t (traced), Z, X."""
    cpu_share: float
    """Of one CPU, summed over all threads: may be above 1."""
    threads: Sequence[ThreadActivity]
    read_bytes_per_s: Maybe[float] = _NOT_MEASURED
    written_bytes_per_s: Maybe[float] = _NOT_MEASURED
    major_faults_per_s: Maybe[float] = _NOT_MEASURED
    rss_bytes: int = 0
    swap_bytes: Maybe[int] = _NOT_MEASURED
    open_files: Sequence[str] = ()
    """Regular files open for reading or writing, libraries left out; at most 32."""
    traced_by: int | None = None


@dataclass(frozen=True)
class Ending:
    """How a process of the job ended. ``exit_code`` and ``signal`` as its parent got them, where that can be known."""

    pid: int
    exit_code: Maybe[int] = _NOT_MEASURED
    signal: Maybe[str] = _NOT_MEASURED
    """``"SIGKILL"``."""
    out_of_memory: Maybe[bool] = _NOT_MEASURED
    """Whether the kernel's OOM killer did it."""
    last_lines: Sequence[str] = ()
    """The last lines of its log, where one was found; not to be trusted as text."""
    log: str | None = None
    evidence: Sequence[str] = ()
    """How it is known, in words."""


@dataclass(frozen=True)
class Look:
    """The stacks of one rank and of the processes below it at one moment; `at_s` counts from the beginning of the diagnosis."""

    at_s: float
    processes: Sequence[ProcessStacks]


@dataclass(frozen=True)
class Pace:
    """The optimizer steps of one rank as its agent counted them since it is there. Seconds; None where there was no step."""

    steps: int
    optimizer_step: int | None
    since_last_s: float | None
    usual_s: float | None
    recent_s: Sequence[float] = ()
    """Durations of the last steps, without the waits in collectives where these are known."""
    steps_in_window: int = 0
    """How many came while the evidence was being taken."""


@dataclass(frozen=True)
class RankEvidence:
    """Everything known about one rank. What could not be had is `NotAvailable` with the reason, and that is evidence itself."""

    rank: int
    world_size: int
    local_rank: int
    pid: int
    host: str
    looks: Sequence[Look] = ()
    activity: Maybe[Activity] = _NOT_MEASURED
    children: Sequence[Activity] = ()
    pace: Maybe[Pace] = _NOT_MEASURED
    collectives: Maybe[RankCollectives] = _NOT_MEASURED
    environ: Mapping[str, str] | NotAvailable = _NOT_MEASURED
    """The variables that have to do with training."""
    ending: Ending | None = None
    """Set where the rank has ended."""
    problem: str = ""
    """Why its agent did not answer, in one line; empty where it did."""


@dataclass(frozen=True)
class HostFacts:
    """One machine. Bytes; ``limits`` are soft limits by name (``"nofile"``, ``"memlock"``; -1: none)."""

    name: str
    cpus: int
    gpus: Maybe[int]
    memory_free_bytes: int
    memory_bytes: int
    swap_used_bytes: int
    shm_free_bytes: Maybe[int]
    shm_bytes: Maybe[int]
    disk_free_bytes: Mapping[str, int]
    """By directory: the working directories of the ranks and their temporary directory."""
    limits: Mapping[str, int]
    versions: Mapping[str, str]
    """Of the ranks' torch, NCCL, CUDA, driver, Python, where known."""


@dataclass(frozen=True)
class JobEvidence:
    """What one look at a job has brought together. `ranks` has also those that have ended or were never seen (pid 0)."""

    name: str
    ranks: Sequence[RankEvidence]
    world_size: int
    hosts: Sequence[HostFacts] = ()
    launcher_pid: int | None = None
    launcher_command: str = ""
    nproc: int | None = None
    """Processes that the launcher was told to start on this host, where known."""
    silent: Sequence[Silent] = ()
    taken_s: float = 0.0


# --- the diagnosis -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankState:
    """One rank in a word (``state``) and a line (``doing``): the table under the verdict."""

    rank: int
    pid: int
    state: Literal["stepping", "computing", "waiting", "stopped", "ended", "starting", "not seen", "not known"]
    doing: str
    where: str | None = None
    steps: int | None = None
    since_s: float | None = None


@dataclass(frozen=True)
class Diagnosis(Result):
    """What is wrong with a job, root cause first. ``state`` answers "is it really stuck?" and ``why`` says by what it was judged."""

    target: str
    state: Literal["stuck", "failed", "slow", "progressing", "healthy", "not known"]
    why: Sequence[str]
    ranks: Sequence[RankState]
    verdict: Sequence[Finding] = ()
    silent: Sequence[Silent] = ()
    taken_s: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)
