"""What the workers of Ray clusters do, made by hand: the guide's collector with 8 of them, and a cluster of 1,000."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from render_scenes_checkpoints import GIB, JOB, MIB

from jupyter_traindbg.model import (
    Finding,
    NotAvailable,
    RayJobInfo,
    RayNode,
    RayThread,
    RayWorker,
    RayWorkers,
    Wait,
    things,
)

HEALTHY = f"{JOB}/engine.py:31 Engine.step"
LOCKED = f"{JOB}/engine.py:27 Engine.step"
STATS = f"{JOB}/engine.py:40 Engine.stats"
LOADING = f"{JOB}/engine.py:12 Engine.load"
DRIVER = f"{JOB}/train.py:88 collect"
NO_PROCESS = NotAvailable("it has no process")
DEADLOCK = Finding(
    "ray_worker_deadlock",
    "critical",
    "Deadlock inside Collector[5]: threads MainThread and stats wait for each other's locks",
    things(["Collector[5]"]),
    LOCKED,
    (
        "thread MainThread waits for self.a, held by thread stats",
        "thread stats waits for self.b, held by thread MainThread",
    ),
    "Locks are taken in different orders.",
    ("traindbg ray-rescue --interrupt Collector[5]",),
)


def worker(who: str, state: Any = "running", words: str = "", **fields: Any) -> RayWorker:
    settings: dict[str, Any] = {
        "kind": "actor",
        "job_id": "02000000",
        "node_id": "a" * 56,
        "node": "10.0.0.4",
        "pid": 4711,
        "class_name": who.partition("[")[0],
        "actor_id": "c" * 32,
        "cpu_percent": 97.0,
        "rss_bytes": 310 * MIB,
        "executed": 12,
        "queued": 0,
        "tier": 1,
        **fields,
    }
    return RayWorker(who, settings.pop("kind"), state, words or state, **settings)


def driver(**fields: Any) -> RayWorker:
    settings: dict[str, Any] = {
        "kind": "driver",
        "class_name": "",
        "actor_id": None,
        "where": DRIVER,
        "waiting_for": Wait("ray", "wait"),
        "waits_for": ("Collector[5]", "Collector[6]"),
        "since_s": 4000.0,
        "trouble": 1,
        "cpu_percent": 0.4,
        **fields,
    }
    return worker(
        "driver", "blocked", "the driver is at train.py:88 collect, blocked in ray.wait on Collector[5, 6]", **settings
    )


def node(i: int, **fields: Any) -> RayNode:
    settings: dict[str, Any] = {
        "resources_total": {"CPU": 64.0, "GPU": 8.0, "memory": 400.0 * GIB},
        "resources_available": {"CPU": 1.5, "GPU": 0.0, "memory": 100.0 * GIB},
        "cpus": 64,
        "cpu_percent": 81.0,
        "memory_total_bytes": 512 * GIB,
        "memory_used_bytes": 301 * GIB,
        "object_store_total_bytes": 100 * GIB,
        "object_store_used_bytes": 3 * GIB,
        "spilled_bytes": 0,
        **fields,
    }
    return RayNode(
        f"{i:056x}",
        f"10.0.0.{4 + i}",
        f"node-{i}",
        i == 0,
        fields.pop("alive", True),
        **{k: v for k, v in settings.items() if k != "alive"},
    )


JOB_INFO = RayJobInfo("02000000", "raysubmit_9XkQ", "RUNNING", "python train.py", 4700, "a" * 56, "10.0.0.4")


def _workers(rows: Sequence[RayWorker], nodes: Sequence[RayNode], **fields: Any) -> RayWorkers:
    settings: dict[str, Any] = {
        "target": "ray:auto",
        "address": "10.0.0.4:6379",
        "ray_version": "2.60.0",
        "jobs": (JOB_INFO,),
        "taken_s": 1.21,
        "source": "state API",
        "tier": 2,
        "notes": (
            "Rows by the deepest source that they rest on: stacks (tier 1): 6, an agent inside (tier 2): 2",
            "1 node of this machine: looked at from here",
        ),
        **fields,
    }
    ordered = sorted(rows, key=lambda row: (-row.trouble, row.kind != "driver"))
    return RayWorkers(workers=tuple(ordered), nodes=tuple(nodes), **settings)


def deadlocked(who: str = "Collector[5]", **fields: Any) -> RayWorker:
    threads = (
        RayThread("MainThread", "method", (LOCKED,), "waiting", Wait("native"), still_s=26.0, method="run"),
        RayThread("stats", "thread", (STATS,), "waiting", Wait("native"), still_s=26.0),
    )
    return worker(
        who,
        "running",
        "running run() for 31 s at engine.py:27 Engine.step, waiting for a lock or another thread, not moving for 26 s: "
        "a deadlock with thread 'stats'",
        method="run",
        where=LOCKED,
        since_s=31.0,
        still_s=26.0,
        waiting_for=Wait("native"),
        threads=threads,
        detail=(
            "MainThread waits for self.a at engine.py:27 Engine.step, which stats holds, at engine.py:40 Engine.stats",
            "stats waits for self.b at engine.py:40 Engine.stats, which MainThread holds, at engine.py:27 Engine.step",
        ),
        **{"trouble": 3, "tier": 2, "cpu_percent": 0.0, **fields},
    )


def stuck(who: str = "Collector[6]", **fields: Any) -> RayWorker:
    return worker(
        who,
        "in __init__",
        "in __init__ for 33 s at engine.py:12 Engine.load, waiting for data from a socket, not moving for 32 s",
        method="__init__",
        where=LOADING,
        since_s=33.0,
        still_s=32.0,
        waiting_for=Wait("network", "read"),
        **{"trouble": 2, "tier": 2, "cpu_percent": 0.0, "executed": 0, **fields},
    )


def healthy(who: str, **fields: Any) -> RayWorker:
    settings: dict[str, Any] = {"method": "run", "where": HEALTHY, "since_s": 31.0, "still_s": 0.0, **fields}
    return worker(who, "running", "running run() for 31 s at engine.py:31 Engine.step", **settings)


def collector(*, verdict: bool = False, progress: bool = False) -> RayWorkers:
    """Eight workers: one deadlocked, one stuck in its constructor."""
    games = {"progress": "games 17, moves 1,340"} if progress else {}
    rows = [driver(), deadlocked(pid=4716, **games), stuck(pid=4717)]
    rows += [healthy(f"Collector[{i}]", pid=4711 + i, cpu_percent=90.0 + i, **games) for i in (0, 1, 2, 3, 4, 7)]
    return _workers(rows, [node(0)], verdict=(DEADLOCK,) if verdict else ())


def thousand(count: int = 1000) -> RayWorkers:
    """`count` collectors on 16 nodes at all sorts of things, a learner of 8 ranks, and whoever cannot start."""
    nodes = [node(i) for i in range(15)] + [
        node(15, alive=False, why_dead="no heartbeat for 30 s", resources_available={})
    ]

    def placed(i: int) -> dict[str, Any]:
        return {"node": nodes[i % 15].ip, "node_id": nodes[i % 15].node_id, "pid": 10_000 + i}

    rows = [driver()]
    for i in range(count):
        who = f"Collector[{i}]"
        if i in (17, 404):
            rows.append(deadlocked(who, **placed(i)))
        elif i == 23:
            rows.append(stuck(who, **placed(i)))
        elif i % 97 == 5:
            words = (
                "ended: its node 10.0.0.19 died" if i % 2 else "dead: out of memory: killed by its node at 96 % memory"
            )
            rows.append(
                worker(
                    who,
                    "dead",
                    words,
                    where=NO_PROCESS,
                    trouble=3,
                    tier=0,
                    cpu_percent=NO_PROCESS,
                    rss_bytes=NO_PROCESS,
                    **placed(i),
                )
            )
        elif i >= count - 40:
            why = "2 CPU more than is free; held by Collector[0-799] and rank 0-7"
            rows.append(
                worker(
                    who,
                    "waiting for resources",
                    f"waiting for resources for 41 s: {why}",
                    **{
                        **placed(i),
                        "pid": 0,
                        "node": "",
                        "node_id": None,
                        "trouble": 1,
                        "tier": 0,
                        "since_s": 41.0,
                        "where": NO_PROCESS,
                    },
                )
            )
        elif i % 13 == 1:
            rows.append(worker(who, "idle", "idle", cpu_percent=0.2, tier=0, **placed(i)))
        else:
            line = (31, 31, 31, 35, 38, 31)[i % 6]
            where = f"{JOB}/engine.py:{line} Engine.step"
            rows.append(
                healthy(
                    who,
                    **{**placed(i), "where": where, "cpu_percent": 60.0 + i % 40, "rss_bytes": (300 + i % 50) * MIB},
                )
            )
    rows += [
        worker(
            f"rank {r}",
            "running",
            "in the training function at ppo.py:210 update",
            kind="train",
            rank=r,
            class_name="RayTrainWorker",
            where=f"{JOB}/ppo.py:210 update",
            since_s=900.0,
            gpus=(r,),
            gpu_bytes=61 * GIB,
            **{**placed(r), "rss_bytes": 9 * GIB},
        )
        for r in range(8)
    ]
    rows.append(
        worker(
            "Judge[0]",
            "infeasible",
            "can never start: it needs 16 GPU, and the largest node has 8 GPU (10.0.0.4)",
            where=NO_PROCESS,
            trouble=3,
            tier=0,
            since_s=63.0,
            **{**placed(0), "pid": 0, "node": "", "node_id": None, "cpu_percent": NO_PROCESS, "rss_bytes": NO_PROCESS},
        )
    )
    return _workers(rows, nodes, taken_s=3.4)


def nothing() -> RayWorkers:
    return replace(_workers([], []), jobs=(), tier=0, notes=())
