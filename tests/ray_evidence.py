"""A Ray cluster and its workers as the rules of the diagnosis see them, made by hand: who works, stands still, waits, died."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from hang_evidence import activity, source, thread

from jupyter_traindbg.diagnose.ray import RayCase
from jupyter_traindbg.model import (
    Frame,
    JobEvidence,
    Look,
    NotAvailable,
    ProcessStacks,
    RankEvidence,
    RayActor,
    RayCluster,
    RayDeath,
    RayJobInfo,
    RayNode,
    RayTask,
    RayWorker,
    RayWorkers,
    SourceLine,
    Thread,
    ThreadActivity,
    Wait,
)

NOW_S = 1_700_000_000.0
JOB, OLD_JOB = "02000000", "01000000"
NODE = "n1"
CODE = "/home/ada/collector.py"
RAY = "/opt/venv/lib/python3.11/site-packages/ray"
MAIN_LOOP = Frame(f"{RAY}/_private/worker.py", 1069, "Worker.main_loop", library=True)
GET = Frame(f"{RAY}/_private/worker.py", 3009, "get", library=True)
WAIT = Frame(f"{RAY}/_private/worker.py", 3237, "wait", library=True)
NOT_ASKED = NotAvailable("not asked for")
DRIVER_PID = 500


def node(node_id: str = NODE, *, cpus: float = 8, free: float = 4, **more: Any) -> RayNode:
    told: dict[str, Any] = {
        "resources_total": {"CPU": cpus},
        "resources_available": {"CPU": free},
        "cpus": 8,
        "cpu_percent": 10.0,
        "memory_total_bytes": 64 * 2**30,
        "memory_used_bytes": 8 * 2**30,
        **more,
    }
    return RayNode(node_id, "10.0.0.1", node_id, node_id == NODE, told.pop("alive", True), **told)


def job(job_id: str = JOB, status: str = "RUNNING", **more: Any) -> RayJobInfo:
    return RayJobInfo(
        job_id, None, status, "python train.py", DRIVER_PID, NODE, "10.0.0.1", started_at=NOW_S - 600, **more
    )


@dataclasses.dataclass
class Scene:
    """What is put together here; `case` makes the rules' view of it."""

    nodes: list[RayNode] = dataclasses.field(default_factory=lambda: [node()])
    jobs: list[RayJobInfo] = dataclasses.field(default_factory=lambda: [job()])
    actors: list[RayActor] = dataclasses.field(default_factory=list)
    tasks: list[RayTask] = dataclasses.field(default_factory=list)
    rows: list[RayWorker] = dataclasses.field(default_factory=list)
    seen: list[RankEvidence] = dataclasses.field(default_factory=list)
    sources: dict[str, SourceLine] = dataclasses.field(default_factory=dict)
    calls: dict[str, Sequence[float]] = dataclasses.field(default_factory=dict)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    later: dict[str, Any] | None = None
    led: JobEvidence | None = None

    def case(self) -> RayCase:
        cluster = self.cluster()
        workers = RayWorkers(
            "ray:auto", "", "2.60", tuple(self.jobs), cluster.nodes, tuple(self.rows), 0.5, "state API", 1
        )
        closer = {NODE: JobEvidence("beside", tuple(self.seen), len(self.seen), sources=self.sources)}
        later = None if self.later is None else dataclasses.replace(cluster, taken_at=NOW_S + 3, **self.later)
        return RayCase(cluster, workers, closer if self.seen else {}, self.calls, later, self.led)

    def cluster(self) -> RayCluster:
        return RayCluster(
            "10.0.0.1:6379",
            "http://10.0.0.1:8265",
            "2.60",
            NOW_S,
            0.1,
            "state API",
            nodes=tuple(self.nodes),
            jobs=tuple(self.jobs),
            actors=tuple(self.actors),
            tasks=tuple(self.tasks),
            **self.facts,
        )

    # --- who there is

    def driver(self, *, waits: bool = True, waits_for: tuple[str, ...] = (), since_s: float = 60.0) -> RayWorker:
        """In `ray.wait` at train.py:40, or computing."""
        row = RayWorker(
            "driver", "driver", "blocked" if waits else "running", "the driver", JOB, NODE, NODE, DRIVER_PID,
            where="/home/ada/train.py:40 main", since_s=since_s, waits_for=waits_for,
        )  # fmt: skip
        self.rows.append(row)
        frames = (*((WAIT,) if waits else ()), Frame("/home/ada/train.py", 40, "main"))
        self.look(DRIVER_PID, frames, Wait("ray") if waits else None, cpu=0.0 if waits else 0.9)
        return row

    def actor(self, number: int, state: str = "idle", *, class_name: str = "Collector", **more: Any) -> RayWorker:
        """An actor and its row; `init_s` is what its ``__init__`` took, `required`, `death`, `detached`, `job_id` are the actor's own."""
        up = state not in ("infeasible", "waiting for resources", "building runtime_env", "starting", "registering")
        pid = more.pop("pid", 1000 + number if up and state != "dead" else 0)
        actor_id, job_id = f"{class_name}{number}", more.pop("job_id", JOB)
        gone = {"dead": "DEAD", "restarting": "RESTARTING"}
        rays = gone.get(state) or ("ALIVE" if up and state != "in __init__" else "PENDING_CREATION")
        init_s = more.pop("init_s", 1.0)
        asked, began = NOW_S - more.pop("asked_s", 120.0), NOW_S - more.pop("began_s", 100.0)
        facts = {
            k: more.pop(k) for k in ("death", "detached", "restarts", "placement_group_id", "namespace") if k in more
        }
        required = more.pop("required", {"CPU": 1.0})
        self.actors.append(
            RayActor(
                actor_id, class_name, more.get("name", ""), facts.pop("namespace", "default"), job_id, rays, pid, NODE if pid else None,
                required, executed=more.get("executed", NOT_ASKED), queued=more.pop("queued", NOT_ASKED), **facts,
            )
        )  # fmt: skip
        times = {"PENDING_ARGS_AVAIL": asked}
        if up and state != "dead":
            times["RUNNING"] = began
            if state != "in __init__":
                times["FINISHED"] = began + init_s
        self.tasks.append(
            task(f"create-{actor_id}", f"{class_name}.__init__", kind="ACTOR_CREATION_TASK", actor_id=actor_id, times=times,
                 state="FINISHED" if "FINISHED" in times else "RUNNING" if "RUNNING" in times else "PENDING_NODE_ASSIGNMENT")
        )  # fmt: skip
        task_id = None
        if state in ("running", "blocked"):
            task_id = f"call-{actor_id}"
            self.tasks.append(
                task(
                    task_id,
                    f"{class_name}.{more.get('method', 'run')}",
                    actor_id=actor_id,
                    state="RUNNING",
                    times={"RUNNING": NOW_S - 60},
                )
            )
        row = RayWorker(
            f"{class_name}[{number}]", "actor", state, f"{state} for a while", job_id, NODE if up else None, NODE if up else "", pid,
            class_name=class_name, method=more.pop("method", "run" if task_id else ""), actor_id=actor_id, task_id=task_id, **more,
        )  # fmt: skip
        self.rows.append(row)
        return row

    # --- what their processes do

    def look(
        self,
        pid: int,
        frames: Sequence[Frame],
        waiting_for: Wait | None = None,
        *,
        cpu: float = 0.0,
        others: Iterable[Thread] = (),
        starved: float = 0.0,
        **more: Any,
    ) -> None:
        """At the same place at both looks; it computes where `cpu` says so."""
        main = thread([*frames, MAIN_LOOP], waiting_for, tid=pid, state="running" if cpu else "waiting")
        process = ProcessStacks(0, pid, "rank", "py-spy", (main, *others))
        tids = [(pid, cpu), *((int(t.tid), 0.0) for t in others if isinstance(t.tid, int))]
        threads = [
            ThreadActivity(
                tid,
                "python",
                "R" if share else "S",
                share,
                50 if share else 0,
                call="futex",
                starved_share=starved if share else 0.0,
            )
            for tid, share in tids
        ]
        done = activity(pid, cpu=cpu, threads=threads, **{k: v for k, v in more.items() if k == "state"})
        nothing = NotAvailable("looked at from outside only")
        self.seen.append(
            RankEvidence(
                len(self.seen), 1, 0, pid, "", (Look(0.1, (process,)), Look(1.2, (process,))), done, pace=nothing, collectives=nothing
            )
        )  # fmt: skip

    def still(self, row: RayWorker, line: int, function: str, waiting_for: Wait = Wait("sleep"), **more: Any) -> None:
        self.look(row.pid, (Frame(CODE, line, function),), waiting_for, **more)

    def busy(self, row: RayWorker, line: int = 30, function: str = "Collector.play", **more: Any) -> None:
        self.look(row.pid, (Frame(CODE, line, function),), None, cpu=more.pop("cpu", 0.9), **more)

    def in_get(self, row: RayWorker, line: int = 26, function: str = "Peer.ask") -> None:
        self.look(row.pid, (GET, Frame(CODE, line, function)), Wait("ray"))


def task(task_id: str, name: str, *, kind: str = "ACTOR_TASK", state: str = "RUNNING", **more: Any) -> RayTask:
    told: dict[str, Any] = {
        "actor_id": None,
        "parent_task_id": None,
        "times": {"RUNNING": NOW_S - 60},
        "required": {},
        **more,
    }
    return RayTask(
        task_id, told.pop("attempt", 0), name, kind, state, told.pop("job_id", JOB), told.pop("actor_id"), told.pop("parent_task_id"), NODE,
        None, 0, told.pop("required"), **told,
    )  # fmt: skip


def died(kind: str, words: str, **more: Any) -> RayDeath:
    return RayDeath(kind, words, **more)  # type: ignore[arg-type]


def at(line: int, code: str, *, takes: Sequence[str] = (), within: Sequence[str] = ()) -> dict[str, SourceLine]:
    return {f"{CODE}:{line}": SourceLine(code, tuple(takes), tuple(within))}


__all__ = ["CODE", "Scene", "at", "died", "job", "node", "source", "task", "thread"]
