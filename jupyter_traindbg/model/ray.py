"""What is known of a Ray cluster (facts), and what each of its workers does (results).

Times of day are seconds since the epoch, by the cluster's clocks. What the cluster did not say is a `NotAvailable` with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .base import Maybe, NotAvailable, Result, Silent
from .finding import Finding
from .observed import ProcessStacks
from .waits import NO_WAIT, Wait

__all__ = [
    "RayActor",
    "RayBuild",
    "RayCluster",
    "RayComing",
    "RayDeath",
    "RayEvent",
    "RayGpu",
    "RayJobInfo",
    "RayLockWait",
    "RayLook",
    "RayNode",
    "RayPlacementGroup",
    "RayProcess",
    "RayRescue",
    "RayRescued",
    "RayRuntimeEnv",
    "RayState",
    "RayTask",
    "RayThread",
    "RayTrainWorker",
    "RayWorker",
    "RayWorkers",
]

NOT_ASKED = NotAvailable("not asked for")

Resources = Mapping[str, float]

# --- facts: what the cluster itself says ---------------------------------------------------------------------------


@dataclass(frozen=True)
class RayGpu:
    """A device of a node as the driver there tells it, whatever Ray was told about GPUs."""

    index: int
    name: str
    memory_total_bytes: Maybe[int] = NOT_ASKED
    memory_used_bytes: Maybe[int] = NOT_ASKED


@dataclass(frozen=True)
class RayNode:
    """A node: ``resources_*`` are Ray's own numbers (``memory`` and ``object_store_memory`` in bytes), the others the machine's."""

    node_id: str
    ip: str
    name: str
    head: bool
    alive: bool
    why_dead: str = ""
    resources_total: Resources = field(default_factory=dict)
    resources_available: Maybe[Resources] = NOT_ASKED
    cpus: Maybe[int] = NOT_ASKED
    cpu_percent: Maybe[float] = NOT_ASKED
    memory_total_bytes: Maybe[int] = NOT_ASKED
    memory_used_bytes: Maybe[int] = NOT_ASKED
    object_store_total_bytes: Maybe[int] = NOT_ASKED
    object_store_used_bytes: Maybe[int] = NOT_ASKED
    spilled_bytes: Maybe[int] = NOT_ASKED
    started_at: Maybe[float] = NOT_ASKED
    devices: Maybe[tuple[RayGpu, ...]] = NOT_ASKED


@dataclass(frozen=True)
class RayJobInfo:
    """A job: one driver. ``submission_id`` is None where it was not submitted but started as a program of its own."""

    job_id: str | None
    submission_id: str | None
    status: str
    entrypoint: str
    driver_pid: Maybe[int]
    driver_node_id: str | None
    driver_ip: str
    message: str = ""
    started_at: Maybe[float] = NOT_ASKED
    ended_at: Maybe[float] = NOT_ASKED

    @property
    def running(self) -> bool:
        return self.status in ("RUNNING", "PENDING")


DeathKind = Literal[
    "in __init__",
    "out of memory",
    "node died",
    "killed",
    "owner died",
    "crashed",
    "exited",
    "runtime_env",
    "unschedulable",
    "placement group removed",
    "not known",
]


@dataclass(frozen=True)
class RayDeath:
    """Why an actor or task ended: the cause itself, not Ray's wrapper. ``where`` is the user's innermost ``"file:line function"``."""

    kind: DeathKind
    words: str
    where: str | None = None
    error_type: str = ""
    exit_detail: str = ""
    node_id: str | None = None
    pid: int | None = None


@dataclass(frozen=True)
class RayActor:
    """An actor; ``state`` is Ray's own word. ``pid`` is 0 where it has no process (yet)."""

    actor_id: str
    class_name: str
    name: str
    namespace: str
    job_id: str
    state: str
    pid: int
    node_id: str | None
    required: Resources
    detached: bool = False
    restarts: int = 0
    placement_group_id: str | None = None
    death: RayDeath | None = None
    executed: Maybe[int] = NOT_ASKED
    queued: Maybe[int] = NOT_ASKED
    """Calls that wait in its own queue."""
    gpus: tuple[int, ...] = ()
    """The GPU indices of the node that Ray has given it."""
    order: int | None = None
    """Its place among the cluster's actors, as the dashboard has heard of them one after the other. None where it is not known."""


@dataclass(frozen=True)
class RayTask:
    """One attempt at a task. ``kind`` and ``state`` are Ray's words; ``times`` says when it came into each state that it has been in."""

    task_id: str
    attempt: int
    name: str
    kind: str
    state: str
    job_id: str
    actor_id: str | None
    parent_task_id: str | None
    node_id: str | None
    worker_id: str | None
    pid: int
    required: Resources
    times: Mapping[str, float] = field(default_factory=dict)
    death: RayDeath | None = None
    placement_group_id: str | None = None
    runtime_env: str = ""
    """As Ray writes it (JSON); empty where it asks for none."""


@dataclass(frozen=True)
class RayRuntimeEnv:
    """A runtime_env on one node. ``built`` is None while it is being built; ``what`` it asks for, in words: ``"pip: torch, ray"``."""

    serialized: str
    node_id: str | None
    built: bool | None
    what: str
    error: str = ""


@dataclass(frozen=True)
class RayProcess:
    """A worker or driver process. ``job_id`` is None where no job has it (yet)."""

    worker_id: str
    pid: int
    node_id: str | None
    kind: str
    alive: bool
    job_id: str | None = None
    exit_type: str = ""
    exit_detail: str = ""
    launched_at: Maybe[float] = NOT_ASKED
    registered_at: Maybe[float] = NOT_ASKED
    ended_at: Maybe[float] = NOT_ASKED
    cpu_percent: Maybe[float] = NOT_ASKED
    """Of one CPU."""
    rss_bytes: Maybe[int] = NOT_ASKED
    gpu_bytes: Maybe[int] = NOT_ASKED
    executed: Maybe[int] = NOT_ASKED
    queued: Maybe[int] = NOT_ASKED
    on_gpus: Mapping[int, int] = field(default_factory=dict)
    """The GPUs of its node on which it really has memory: bytes by index."""


@dataclass(frozen=True)
class RayTrainWorker:
    """A worker of Ray Train. It has no running task: the user's code is in a thread of its own."""

    run: str
    rank: int
    world_size: int
    pid: int
    actor_id: str
    node_id: str | None
    job_id: str | None
    local_rank: int = 0
    status: str = ""


@dataclass(frozen=True)
class RayPlacementGroup:
    group_id: str
    name: str
    state: str
    job_id: str | None
    bundles: Sequence[Resources] = ()
    detached: bool = False
    why: str = ""
    """What Ray says of its scheduling."""


@dataclass(frozen=True)
class RayEvent:
    """Something that the cluster itself reported, such as a worker that was killed for memory."""

    at: float
    source: str
    severity: str
    message: str
    node_id: str | None = None


@dataclass(frozen=True)
class RayCluster:
    """One look at a cluster. ``source`` tells who answered: the state API (through the dashboard), or the GCS alone.

    ``notes`` says in words what is missing and what brings it: the dashboard is down, a list was cut off ...
    """

    address: str
    """``host:port`` of the GCS; empty where only the dashboard is known."""
    dashboard: str
    """``http://host:port``; empty where there is none."""
    ray_version: str
    taken_at: float
    taken_s: float
    source: Literal["state API", "GCS"]
    nodes: tuple[RayNode, ...] = ()
    jobs: tuple[RayJobInfo, ...] = ()
    actors: tuple[RayActor, ...] = ()
    tasks: Maybe[tuple[RayTask, ...]] = ()
    """Those that have not ended, and the creation tasks of the actors, and failed ones."""
    processes: Maybe[tuple[RayProcess, ...]] = ()
    train: tuple[RayTrainWorker, ...] = ()
    placement_groups: Maybe[tuple[RayPlacementGroup, ...]] = ()
    events: Maybe[tuple[RayEvent, ...]] = ()
    runtime_envs: tuple[RayRuntimeEnv, ...] = ()
    """Asked for only where something that is not up yet needs one."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RayComing:
    """A worker process that its node has started and that has not registered yet. ``phase`` is what its stack shows."""

    pid: int
    node_id: str
    age_s: float
    phase: Literal["importing", "registering", "not known"]


@dataclass(frozen=True)
class RayBuild:
    """A program that a node's agent runs to build a runtime_env. ``doing`` is that program in short: ``"pip install"``."""

    pid: int
    node_id: str
    age_s: float
    doing: str


@dataclass(frozen=True)
class RayLook:
    """A look at one process from outside: its stacks, and what its threads did in the ``window_s`` around them.

    ``still_s`` is for how long a thread (by its tid) has not run for even an instant; 0 where it ran within the window, negative where it
    did not and nobody knows since when. ``cpu_share`` is of one CPU, all threads together.
    """

    stacks: ProcessStacks
    window_s: float
    still_s: Mapping[int, float]
    cpu_share: float
    rss_bytes: int


# --- results: what each worker does --------------------------------------------------------------------------------

RayState = Literal[
    "dead",
    "infeasible",
    "waiting for resources",
    "waiting for an argument",
    "building runtime_env",
    "starting",
    "registering",
    "in __init__",
    "restarting",
    "blocked",
    "running",
    "idle",
    "ended",
    "not known",
]


@dataclass(frozen=True)
class RayLockWait:
    """A thread of a worker that waits for a lock, as the agent's `locks` probe tells it.

    ``lock`` as the source has it (``"self.b"``); ``holder`` is the name of the thread that holds it, empty where not known; the places are
    ``"file:line function"``. ``cycle``: the two are part of a ring that can never be undone.
    """

    thread: str
    lock: str
    where: str
    holder: str = ""
    holder_where: str = ""
    cycle: bool = False


@dataclass(frozen=True)
class RayThread:
    """A thread with code of the user's on it, or a coroutine of an async actor; ``stack`` is innermost first: ``"file:line function"``.

    ``still_s`` says for how long it has not run for even an instant (0 where it computes or polls); of a coroutine, since when it is seen
    to await. ``waiting_for`` is on what, ``inside`` the library's innermost frame where the user's code has called one.
    """

    name: str
    kind: Literal["method", "thread", "coroutine"]
    stack: tuple[str, ...]
    state: str = ""
    waiting_for: Wait = NO_WAIT
    inside: str = ""
    still_s: Maybe[float] = NOT_ASKED
    method: str = ""
    """The method or function of Ray's that it runs; empty for a thread that the user started."""
    tid: int | None = None

    @property
    def where(self) -> str | None:
        return self.stack[0] if self.stack else None


@dataclass(frozen=True)
class RayWorker:
    """One row: an actor, a task, a Ray Train worker, or the driver.

    ``who`` is how everything here calls it: an actor's name, else its class and its number in the order of creation (``Collector[17]``);
    ``rank 3`` of Ray Train; a task's name; ``driver``. ``words`` is the state in a sentence; ``where`` is the user's innermost
    ``"file:line function"``; ``waits_for`` the ``who`` of others. ``tier`` is the deepest source that the row rests on: 0 the cluster's own
    word, 1 stacks, 2 an agent inside. ``trouble`` sorts: 0 is none.
    """

    who: str
    kind: Literal["driver", "actor", "task", "train"]
    state: RayState
    words: str
    job_id: str | None
    node_id: str | None
    node: str
    pid: int
    class_name: str = ""
    name: str = ""
    method: str = ""
    """The method or function that runs."""
    actor_id: str | None = None
    task_id: str | None = None
    rank: int | None = None
    since_s: Maybe[float] = NOT_ASKED
    where: Maybe[str] = NOT_ASKED
    stack: tuple[str, ...] = ()
    """The user's frames of the thread that ``where`` is of, innermost first, ``"file:line function"``."""
    waits_for: tuple[str, ...] = ()
    """Whose results, or whose resources, it waits for. From tier 2 exactly; else those of its own calls that have not ended."""
    waiting_for: Wait = NO_WAIT
    """What the kernel and the frames say that it waits for; `NO_WAIT`, in JSON empty, where it computes."""
    still_s: Maybe[float] = NOT_ASKED
    """For how long the thread of ``where`` has not run for even an instant; 0 where it ran between two looks."""
    threads: tuple[RayThread, ...] = ()
    missing: Resources = field(default_factory=dict)
    """What it needs and no node has free (or, where infeasible, no node has at all)."""
    detail: tuple[str, ...] = ()
    """More lines: the lock it holds and who waits for it, its coroutines, the cause of its death."""
    progress: Maybe[str] = NOT_ASKED
    executed: Maybe[int] = NOT_ASKED
    queued: Maybe[int] = NOT_ASKED
    cpu_percent: Maybe[float] = NOT_ASKED
    rss_bytes: Maybe[int] = NOT_ASKED
    gpus: tuple[int, ...] = ()
    gpu_bytes: Maybe[int] = NOT_ASKED
    locks: tuple[RayLockWait, ...] = ()
    """Its threads that wait for locks, where an agent has been asked."""
    tier: int = 0
    trouble: int = 0


@dataclass(frozen=True)
class RayWorkers(Result):
    """What every worker of a job (or of all jobs of a cluster) does, the ones in trouble first."""

    _rows = "workers"
    target: str
    address: str
    ray_version: str
    jobs: tuple[RayJobInfo, ...]
    nodes: tuple[RayNode, ...]
    workers: tuple[RayWorker, ...]
    taken_s: float
    source: str
    tier: int
    notes: tuple[str, ...] = ()
    """Which tier the values come from, and what is needed for the next."""
    silent: tuple[Silent, ...] = ()
    verdict: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.verdict


# --- rescue --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RayRescue:
    """One thing that a rescue is about. ``who`` is how everything here calls it, ``ident`` its id or pid; ``before`` and ``after`` are its
    states in words.

    ``state``: ``"planned"`` (nothing was done), ``"verified"`` (done, and seen to be so), ``"not done"`` (tried, and it did not come to
    that in time; ``note`` says why), ``"left"`` (not meant by what was asked for).
    """

    kind: Literal["method", "actor", "job", "placement group"]
    who: str
    ident: str
    before: str
    will: str
    """What is to be done to it, in words."""
    state: Literal["planned", "verified", "not done", "left"] = "planned"
    after: str = ""
    took_s: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class RayRescued(Result):
    """What `%ray_rescue` shows. ``done`` is False for a plan: nothing was changed then, and ``confirm`` is what to add to have it done."""

    _rows = "items"
    target: str
    address: str
    action: str
    done: bool
    items: tuple[RayRescue, ...]
    took_s: float
    confirm: str = ""
    notes: tuple[str, ...] = ()
    verdict: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.verdict
