"""What a Ray cluster says of itself, made by hand, and looks at processes: the small pieces that rows are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_traindbg.model import (
    Frame,
    Maybe,
    NotAvailable,
    ProcessStacks,
    RayActor,
    RayCluster,
    RayDeath,
    RayJobInfo,
    RayLook,
    RayNode,
    RayProcess,
    RayTask,
    Thread,
)

NOW = 1_800_000_000.0
JOB, OTHER_JOB = "02000000", "03000000"
NODE = "a" * 56
SITE = "/opt/venv/lib/python3.11/site-packages"
CODE = "/home/ada/collector.py"
DRIVER_TASK = "f" * 40 + JOB

MAIN_LOOP = Frame(f"{SITE}/ray/_private/worker.py", 1069, "Worker.main_loop", library=True)
EXECUTOR = Frame(
    f"{SITE}/ray/_private/function_manager.py",
    740,
    "FunctionActorManager._make_actor_method_executor.<locals>.actor_method_executor",
    library=True,
)
RAY_GET = Frame(f"{SITE}/ray/_private/worker.py", 3009, "get", library=True)
RAY_WAIT = Frame(f"{SITE}/ray/_private/worker.py", 3237, "wait", library=True)
SELECT = Frame("/usr/lib/python3.11/selectors.py", 468, "EpollSelector.select", library=True)


def node(node_id: str = NODE, *, cpus: float = 8, free: float = 8, **fields: Any) -> RayNode:
    settings: dict[str, Any] = {
        "resources_total": {"CPU": cpus},
        "resources_available": {"CPU": free},
        "alive": True,
        **fields,
    }
    return RayNode(node_id, "10.0.0.4", "node", node_id == NODE, settings.pop("alive"), **settings)


def job(job_id: str = JOB, status: str = "RUNNING", **fields: Any) -> RayJobInfo:
    return RayJobInfo(job_id, None, status, "python train.py", 500, NODE, "10.0.0.4", **fields)


def actor(number: int, state: str = "ALIVE", class_name: str = "Collector", **fields: Any) -> RayActor:
    """Actor `number` has the id ``Collector0017`` and the pid 1017."""
    settings: dict[str, Any] = {
        "name": "",
        "namespace": "",
        "job_id": JOB,
        "pid": 1000 + number if state == "ALIVE" else 0,
        "node_id": NODE if state == "ALIVE" else None,
        "required": {"CPU": 1.0},
        "executed": 3,
        "queued": 0,
        **fields,
    }
    return RayActor(f"{class_name}{number:04}", class_name, state=state, **settings)


def creation(
    of: RayActor, state: str = "FINISHED", *, asked_s: float = 60.0, init_s: float = 2.0, **fields: Any
) -> RayTask:
    """Its creation task: asked for `asked_s` ago, a second before ``__init__`` began; that has taken `init_s` where it is finished."""
    times = {"PENDING_ARGS_AVAIL": NOW - asked_s, "PENDING_NODE_ASSIGNMENT": NOW - asked_s + 0.01}
    if state not in ("PENDING_NODE_ASSIGNMENT", "PENDING_ARGS_AVAIL"):
        times["RUNNING"] = NOW - asked_s + 1
    if state == "FINISHED":
        times["FINISHED"] = NOW - asked_s + 1 + init_s
    settings: dict[str, Any] = {"required": of.required, "placement_group_id": of.placement_group_id, **fields}
    return task(
        f"create-{of.actor_id}",
        state,
        kind="ACTOR_CREATION_TASK",
        name=f"{of.class_name}.__init__",
        actor_id=of.actor_id,
        times=times,
        job_id=of.job_id,
        **settings,
    )


def task(task_id: str, state: str = "RUNNING", *, since_s: float = 30.0, **fields: Any) -> RayTask:
    settings: dict[str, Any] = {
        "attempt": 0,
        "name": "work",
        "kind": "NORMAL_TASK",
        "job_id": JOB,
        "actor_id": None,
        "parent_task_id": DRIVER_TASK,
        "node_id": None,
        "worker_id": None,
        "pid": 0,
        "required": {},
        "times": {state: NOW - since_s},
        **fields,
    }
    return RayTask(task_id, state=state, **settings)


def call(of: RayActor, method: str = "run", state: str = "RUNNING", *, since_s: float = 30.0, **fields: Any) -> RayTask:
    settings: dict[str, Any] = {"task_id": f"{method}-{of.actor_id}", "pid": of.pid, "node_id": NODE, **fields}
    return task(
        settings.pop("task_id"),
        state,
        since_s=since_s,
        kind="ACTOR_TASK",
        name=f"{of.class_name}.{method}",
        actor_id=of.actor_id,
        **settings,
    )


def process(pid: int, **fields: Any) -> RayProcess:
    settings: dict[str, Any] = {"cpu_percent": 50.0, "rss_bytes": 1 << 28, "executed": 5, "queued": 0, **fields}
    return RayProcess(f"w{pid}", pid, NODE, "WORKER", True, **settings)


def cluster(actors: Sequence[RayActor] = (), tasks: Maybe[Sequence[RayTask]] = (), **fields: Any) -> RayCluster:
    settings: dict[str, Any] = {"nodes": (node(),), "jobs": (job(),), **fields}
    return RayCluster(
        "10.0.0.4:6379",
        "http://10.0.0.4:8265",
        "2.60.0",
        NOW,
        0.1,
        "state API",
        actors=tuple(actors),
        tasks=tasks if isinstance(tasks, NotAvailable) else tuple(tasks),
        **settings,
    )


def died(kind: Any = "crashed", words: str = "ValueError: bad path", **fields: Any) -> RayDeath:
    return RayDeath(kind, words, **fields)


# --- looks ---------------------------------------------------------------------------------------------------------


def user(line: int, function: str, file: str = CODE) -> Frame:
    return Frame(file, line, function)


def thread(frames: Sequence[Frame], name: str = "MainThread", tid: int = 1000, **fields: Any) -> Thread:
    return Thread(name, tid, fields.pop("state", "waiting"), tuple(frames), **fields)


def look(pid: int, threads: Sequence[Thread], still_s: Mapping[int, float] | None = None, cpu: float = 0.0) -> RayLook:
    """Threads without a word in `still_s` have moved."""
    still = {t.tid: 0.0 for t in threads if isinstance(t.tid, int)} | dict(still_s or {})
    return RayLook(ProcessStacks(0, pid, "rank", "py-spy", tuple(threads)), 0.4, still, cpu, 1 << 28)
