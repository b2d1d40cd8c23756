"""What a hang is judged by, and the judgement: collectives, what processes do over time, how they ended, and the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .base import Maybe, NotAvailable, Problem, Result, Silent, Worded
from .call_sites import CallSites, Fork, ForkAt
from .channels import Beside
from .compiling import Compilations
from .coroutines import Coroutine
from .detours import Handled, Past, Replica
from .finding import Excerpt, Finding
from .joining import Joining, Making, MeetingPoint
from .observed import ProcessStacks
from .ras import RasReport
from .sockets import Socket
from .soundness import Soundness
from .variables import Change, Scope, Variable

__all__ = [
    "Activity",
    "Block",
    "Check",
    "Collective",
    "Collectives",
    "Diagnosis",
    "Ending",
    "Group",
    "HostFacts",
    "JobEvidence",
    "LockHolder",
    "Look",
    "LostHost",
    "OpenFile",
    "Pace",
    "PolledFile",
    "RankCollectives",
    "RankEvidence",
    "RankState",
    "SourceLine",
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
    timeout_s: float | None = None
    """For so long may it take, by what its group was told; None where the recorder does not say."""


@dataclass(frozen=True)
class Group:
    """A process group as one rank has it. ``ranks`` are global ranks, empty where not known; `last_issued` and `last_completed`
    are sequence numbers, 0 where there was none, None where not known.

    ``met_at``: the store in which its members have met, ``127.0.0.1:41234``, where that is not the default group's. Others than the job's
    ranks may be in it then, as an inference engine, and `ranks` are merely its own numbers.
    """

    name: str
    description: str
    backend: str
    ranks: Sequence[int]
    last_issued: int | None
    last_completed: int | None
    met_at: str = ""


@dataclass(frozen=True)
class RankCollectives:
    """The groups of one rank and the last calls on them, oldest first. ``source``: ``"agent"`` or the dump file's name.

    ``capacity_reached``: older calls are not in it, because the recorder's ring has overwritten them, or (``pending_only``) because the
    dump has nothing that is completed. ``waiting_s``: since when the oldest call that is not completed has been waiting.
    """

    rank: int
    pid: int
    source: str
    groups: Sequence[Group]
    calls: Sequence[Collective]
    capacity_reached: bool = False
    pending_only: bool = False
    waiting_s: Maybe[float] = _NOT_MEASURED
    note: str = ""
    where: str | None = None
    """The user's frame that the rank's training thread is in, ``"file:line function"``, where that is known."""


@dataclass(frozen=True)
class Collectives(Result):
    """The collective view of a job. ``missing`` are ranks of the job of which there is nothing to read."""

    _rows = "ranks.calls"
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
    """The file, pipe, socket or child process of that call; a socket as ``"tcp 10.0.0.1:41234 -> 10.0.0.2:29500 ESTABLISHED"`` where
    known, a child as ``"process 4711: gzip -dc shard.gz"``.
    """
    starved_share: Maybe[float] = _NOT_MEASURED
    """The share of the window in which it was ready to run and was given no CPU: others had them."""
    child_pid: int | None = None
    """Of a call that waits for one child process to end: which."""


@dataclass(frozen=True)
class OpenFile:
    """A regular file that a process has open, and the position in it at the beginning and at the end of the look, in bytes."""

    path: str
    mode: Literal["read", "write", "append"]
    began: int
    position: int
    to_disk: int | None = None
    """Bytes that the disk or the NFS server below it was given meanwhile, by whomever; None where the kernel does not tell."""

    @property
    def moved(self) -> int:
        return max(0, self.position - self.began)


@dataclass(frozen=True)
class LockHolder(Worded):
    """The process that holds a file lock. ``str()`` of it is ``process 4711: python prepare.py``; ``command`` is empty if it has ended."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid}: {self.command}" if self.command else f"process {self.pid}, which has ended"


@dataclass(frozen=True)
class PolledFile:
    """A file that a loop looks at while it sleeps. ``there``: whether it exists. ``holder``: who holds it, where it is a lock, and ``how``
    that is known: by the kernel's list of locks, by the pid that is written in it, or because a rank has it open.

    ``unmade``: its name, or that of one in it where it is a folder, where it is the only one of its kind that is not there: each rank but
    one has made one with its number in the name. ``unmade_by``: the rank that has not.
    """

    path: str
    there: bool = True
    holder: LockHolder | None = None
    how: Literal["locked", "written", "open"] | None = None
    unmade: str = ""
    unmade_by: int | None = None
    age_s: float | None = field(default=None, compare=False)
    """Since a file was last written."""
    ident: tuple[int, int] | None = field(default=None, compare=False)
    """Its inode, and when it was last written, in ns: all hosts that share a file system see the same."""


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
    """Through read() of any kind, or from the disk by memory maps. Our own looking accounts for up to 0.1 MB/s in a rank."""
    written_bytes_per_s: Maybe[float] = _NOT_MEASURED
    major_faults_per_s: Maybe[float] = _NOT_MEASURED
    rss_bytes: int = 0
    swap_bytes: Maybe[int] = _NOT_MEASURED
    swap_growth_bytes_per_s: Maybe[float] = _NOT_MEASURED
    files: Sequence[OpenFile] = ()
    """Those that moved most first; libraries, and what its output goes to, left out; at most 32."""
    traced_by: int | None = None
    running_s: Maybe[float] = _NOT_MEASURED
    """Since it was started."""
    sockets: Sequence[Socket] = ()
    """Its TCP sockets, connecting ones first."""
    parent_pid: int = 0
    """Who has started it, or has taken it over since; 0 where that is not known."""
    ended_cpu_share: float = 0.0
    """What its children that ended within the window have used, of one CPU: those of a build come and go."""


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
    failure: Finding | None = None
    """What its last lines show, by what is known of failures in logs."""


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
    gpu_busy: bool = False
    """True where a GPU had work of this rank left at both ends of that time."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Where the time of the last steps went: medians in seconds, by the names of `Step`'s parts; ``before_backward`` in place of
    ``forward`` where that was not told apart."""


@dataclass(frozen=True)
class Block:
    """A ``for``, ``while`` or ``if`` in a source file, from its first to its last line; ``words`` is what stands at its head."""

    kind: Literal["for", "while", "if"]
    first: int
    last: int
    words: str


@dataclass(frozen=True)
class LostHost:
    """A host of the job that gave no answer, why, and its ranks, as far as they are known."""

    name: str
    reason: str
    ranks: Sequence[int] = ()


@dataclass(frozen=True)
class RankEvidence:
    """Everything known about one rank. What could not be had is `NotAvailable` with the reason, and that is evidence itself."""

    rank: int
    world_size: int
    local_rank: int
    pid: int
    host: str
    looks: Sequence[Look] = ()
    """None of a rank that has no process here. A look without processes is one that saw nothing."""
    activity: Maybe[Activity] = _NOT_MEASURED
    children: Sequence[Activity] = ()
    pace: Maybe[Pace] = _NOT_MEASURED
    collectives: Maybe[RankCollectives] = _NOT_MEASURED
    call_sites: Maybe[CallSites] = _NOT_MEASURED
    calls_in_window: Maybe[int] = _NOT_MEASURED
    """How many collectives it issued, over all its groups, while the evidence was being taken."""
    environ: Mapping[str, str] | NotAvailable = _NOT_MEASURED
    """The variables that have to do with training."""
    ending: Ending | None = None
    """Set where the rank has ended."""
    joining: Maybe[Joining] = _NOT_MEASURED
    """Set where it is still on its way into its process group."""
    making: Maybe[Making] = _NOT_MEASURED
    """Set where it waits in the making of another one."""
    coroutines: Sequence[Coroutine] = ()
    """Of the user's, where its training thread waits in an event loop."""
    looks_at: Sequence[Variable] = ()
    """What the line at which its training thread stands goes by: the variables in it, and in the condition of the loop around it."""
    only_asks: bool = False
    """Whether it goes round a loop that does nothing but ask for what it waits for, which is not there, and sleep."""
    changed: Sequence[Change] = ()
    """What the loop in which it sleeps goes by, and that has changed during the look."""
    polled: Sequence[PolledFile] = ()
    """Of the files that such a line names, where it sleeps and looks again."""
    scopes: Sequence[Scope] = ()
    """The functions that its training thread is in, where it made no step during the look; without secrets."""
    variables: Sequence[Variable] = ()
    """What these hold, with what the source says of where it comes from."""
    handled: Sequence[Handled] = ()
    """The exceptions in whose handlers its training thread is, the innermost first, where it made no step during the look."""
    replicas: Sequence[Replica] = ()
    """Its models in DistributedDataParallel, likewise."""
    compilations: Maybe[Compilations] = _NOT_MEASURED
    soundness: Maybe[Soundness] = _NOT_MEASURED
    problem: str = ""
    """Why its agent did not answer, in one line; empty where it did."""
    shut_out: bool = False
    """Its agent is in it, or on its way, and cannot run: no Python does, as where C code holds the GIL."""
    who: str = ""
    """How its job calls it, where it is no rank of a training."""


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
    disks_silent: Sequence[str] = ()
    """Of those directories, the ones whose file system does not answer."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's source at which a thread stands. Expressions as they are written: ``"self.lock"``.

    ``takes``: what the line enters or acquires (``with X:``, ``X.acquire()``). ``within``: what has been entered around it and not been
    left, the outermost first: who stands here holds these locks, if they are locks.
    """

    text: str
    takes: Sequence[str] = ()
    within: Sequence[str] = ()
    excerpt: Excerpt | None = None


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
    lost_hosts: Sequence[LostHost] = ()
    """Those of its hosts that gave no answer at all."""
    clock_error_s: Maybe[float] = _NOT_MEASURED
    """Where ranks are on several hosts: by how much times of different ones may be apart, after they have been put on one clock."""
    taken_s: float = 0.0
    sources: Mapping[str, SourceLine] = field(default_factory=dict)
    """The source behind the user's frames, by ``"file:line"``; without those whose file cannot be read or has changed since the start."""
    meeting: Sequence[MeetingPoint] = ()
    """Where ranks that are still joining are to meet; more than one where they were told different places."""
    blocks: Mapping[str, Sequence[Block]] = field(default_factory=dict)
    """Of source files in which ranks are at different lines of the same function."""
    forks: Mapping[ForkAt, Fork] = field(default_factory=dict)
    """Of functions in which collectives of the same number were issued at different lines."""
    past: Sequence[Past] = ()
    """Which ranks are past a line at which others are, by the source."""
    launcher: Look | None = None
    """The launcher's own stacks, where it runs and can be looked at."""
    launcher_activity: Maybe[Activity] = _NOT_MEASURED
    """What the launcher does, where it has no ranks."""
    launcher_running_s: float | None = None
    ras: Maybe[RasReport] = _NOT_MEASURED
    beside: Mapping[str, Beside] = field(default_factory=dict)
    """By the name of a host: what is known of processes there by their pids, which another host gives to others."""
    motion_shows: Maybe[bool] = True
    """Whether what moves would be seen to: there was more than one look at each rank, or the CPU times between two moments. The reason why
    not, where each was seen once: then nothing tells whether the job stands still."""


# --- the diagnosis -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankState:
    """One rank in a word (``state``) and a line (``doing``): the table under the verdict. ``who``: how a worker of Ray is called; ``steps``
    are then the calls that it has executed. ``host``: where the job has ranks on several.
    """

    rank: int
    pid: int
    state: Literal["stepping", "computing", "waiting", "stopped", "ended", "starting", "idle", "not seen", "not known"]
    doing: str
    where: str | None = None
    steps: int | None = None
    since_s: float | None = None
    who: str = ""
    host: str = ""


@dataclass(frozen=True)
class Check:
    """Something that a diagnosis has looked at, in words; ``verb`` is the one that shows more of it."""

    topic: str
    state: Literal["fine", "trouble", "not known"]
    words: str
    verb: str


@dataclass(frozen=True)
class Diagnosis(Result):
    """What is wrong with a job, root cause first. ``state`` answers "is it really stuck?" and ``why`` says by what it was judged.

    ``"unsound"``: it gets on, and what it trains is worth nothing. ``"ended"``: nothing of it runs any more, and nothing says that it
    failed. ``checks``: what else was looked at, and what could not be.
    """

    _rows = "verdict"
    target: str
    state: Literal["stuck", "failed", "unsound", "slow", "progressing", "healthy", "idle", "ended", "not known"]
    why: Sequence[str]
    ranks: Sequence[RankState]
    verdict: Sequence[Finding] = ()
    silent: Sequence[Silent] = ()
    taken_s: float = 0.0
    checks: Sequence[Check] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)

    @property
    def failure(self) -> Problem | None:
        if self.state != "not known" or self.verdict or not self.silent:
            return None
        return Problem(f"no rank could be looked at: {self.silent[0].reason}")

    @property
    def undecided(self) -> str | None:
        if self.state != "not known" or self.verdict:
            return None
        return "; ".join(self.why) or "nothing was seen that tells how the job does; ask again in a moment"
