"""`%ray_workers` on a real cluster: every state really made, and the collector scene from a cold terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ray_clusters import RAY_TEST_S, Cluster, Job, Submitted, line_of, until
from support import REPO

from jupyter_traindbg.magics.ray_workers import line
from jupyter_traindbg.model import NotAvailable, RayWorker, RayWorkers, Wait
from jupyter_traindbg.ray import report as ray_report

pytestmark = pytest.mark.timeout(RAY_TEST_S)
DEADLINE_S = 20.0
"""Of a look in these tests: the machine may be busy."""


def look(cluster: Cluster, job: Job | None = None, **options: Any) -> RayWorkers:
    return ray_report.gather(cluster.gcs, job=job.id if job else None, timeout=DEADLINE_S, **options)[1]


def by_who(seen: RayWorkers) -> dict[str, RayWorker]:
    return {row.who: row for row in seen.workers}


def driver_of(seen: RayWorkers) -> RayWorker:
    (row,) = [row for row in seen.workers if row.kind == "driver"]
    return row


def place(row: RayWorker) -> str:
    """``ray_collector.py:20 Engine.step``."""
    return row.where.rpartition("/")[2] if isinstance(row.where, str) else str(row.where)


def run(cluster: Cluster, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    ours = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    return subprocess.run(
        [sys.executable, "-m", "jupyter_traindbg.cli", "ray-workers", *words, "--timeout", str(DEADLINE_S)],
        capture_output=True,
        text=True,
        cwd=REPO,
        timeout=3 * DEADLINE_S,
        check=False,
        env={**ours, **cluster.env, **(env or {})},
    )


@pytest.fixture
def using(ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    ray_cluster.use(monkeypatch)
    return ray_cluster


# --- the collector scene --------------------------------------------------------------------------------------------


def test_the_two_bad_workers_and_nobody_else(using: Cluster, ray_collector: Submitted) -> None:
    _, deadlocked, pid_of_deadlocked = ray_collector.said("deadlocked")
    _, stuck, pid_of_stuck = ray_collector.said("stuck")

    def settled() -> RayWorkers | None:
        seen = look(using, ray_collector)
        return seen if sum(row.trouble >= 2 for row in seen.workers) >= 2 else None

    seen = until(settled, "both stand still for long enough to be noticed", 60)
    rows = by_who(seen)
    bad, late = rows[f"SelfPlayWorker[{deadlocked}]"], rows[f"SelfPlayWorker[{stuck}]"]
    assert {row.who for row in seen.workers if row.trouble >= 2} == {bad.who, late.who}
    assert (bad.pid, late.pid) == (int(pid_of_deadlocked), int(pid_of_stuck))
    assert place(bad) == f"ray_collector.py:{line_of('ray_collector.py', 'DEADLOCK')} Engine.step"
    assert (bad.state, bad.tier, bad.trouble) == ("running", 2, 3)
    assert {lock.lock for lock in bad.locks} == {"self.a", "self.b"}
    assert all(lock.cycle for lock in bad.locks)
    assert any(f"ray_collector.py:{line_of('ray_collector.py', 'STATS')}" in text for text in bad.detail)
    assert place(late) == f"ray_collector.py:{line_of('ray_collector.py', 'STUCK')} Engine.load"
    assert (late.state, late.method) == ("in __init__", "__init__")
    assert not isinstance(late.still_s, NotAvailable)
    assert 0 < late.still_s <= float(late.since_s or 0) + 1
    driver = driver_of(seen)
    assert place(driver).startswith(f"ray_collector.py:{line_of('ray_collector.py', 'DRIVER')} ")
    assert (driver.state, driver.waiting_for) == ("blocked", Wait("ray", "wait"))
    assert set(driver.waits_for) == {f"SelfPlayWorker[{i}]" for i in range(8)}
    healthy = [row for row in seen.workers if row.kind == "actor" and row not in (bad, late)]
    assert len(healthy) == 6
    assert {row.state for row in healthy} == {"running"}
    assert all(place(row).startswith("ray_collector.py:") for row in healthy)


def test_cold_from_a_terminal(ray_cluster: Cluster, ray_collector: Submitted) -> None:
    _, deadlocked, _ = ray_collector.said("deadlocked")
    done = run(ray_cluster, "--job", ray_collector.id, "--json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    rows = {row["who"]: row for row in told["workers"]}
    assert rows[f"SelfPlayWorker[{deadlocked}]"]["where"].endswith("Engine.step")
    assert told["tier"] == 2
    assert told["ray_version"]
    assert any("tier 1" in note for note in told["notes"])


def test_progress_counts(using: Cluster, ray_collector: Submitted) -> None:
    """A counter of the actor itself, where its code keeps one; and of one that is deep in it."""
    first, again = (by_who(look(using, ray_collector, progress=["self.games", "self.engine.moves"])) for _ in range(2))
    moves = [
        float(str(rows["SelfPlayWorker[0]"].progress).rpartition("moves ")[2].replace(",", ""))
        for rows in (first, again)
    ]
    assert moves[1] > moves[0]
    _, deadlocked, _ = ray_collector.said("deadlocked")
    assert str(again[f"SelfPlayWorker[{deadlocked}]"].progress).endswith("moves 20")


def test_the_clusters_own_word_alone(using: Cluster, ray_collector: Submitted) -> None:
    seen = look(using, ray_collector, tier=0)
    assert (seen.tier, {row.tier for row in seen.workers}) == (0, {0})
    _, stuck, _ = ray_collector.said("stuck")
    row = by_who(seen)[f"SelfPlayWorker[{stuck}]"]
    assert row.state == "in __init__"
    assert "tier 1" in str(row.where)
    assert any("--tier 1" in note for note in seen.notes)


def test_watching_writes_a_line_whenever_there_is_news(ray_cluster: Cluster, ray_collector: Submitted) -> None:
    done = run(ray_cluster, "--job", ray_collector.id, "--watch", "--every", "0.5", "--for", "2")
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert "7 running, 1 in __init__" in first
    assert "in trouble: SelfPlayWorker[" in first


# --- async and threaded actors, Ray Train ---------------------------------------------------------------------------


def test_coroutines_and_threads(using: Cluster) -> None:
    job = using.drive("ray_async.py", ready="READY")
    try:
        seen = until(lambda: _standing(look(using, job), "pool"), "the pool stands still", 60)
    finally:
        job.stop()
    rows = by_who(seen)
    fetcher, pool = rows["fetcher"], rows["pool"]
    waiting = {(t.method, (t.where or "").rpartition("/")[2]) for t in fetcher.threads if t.kind == "coroutine"}
    assert ("drain", f"ray_async.py:{line_of('ray_async.py', 'STUCK')} Fetcher.take") in waiting
    assert sum(method == "fetch" for method, _ in waiting) >= 1
    assert fetcher.trouble == 0
    assert pool.method == "go_on, hold, work"
    assert place(pool) == f"ray_async.py:{line_of('ray_async.py', 'WAITING')} Pool.work"
    assert (pool.locks[0].thread, pool.locks[0].lock, pool.locks[0].holder) == ("work()", "self.lock", "hold()")
    assert f"ray_async.py:{line_of('ray_async.py', 'HOLDING')}" in " ".join(pool.detail)
    assert driver_of(seen).state == "blocked"
    assert {"fetcher", "pool"} <= set(driver_of(seen).waits_for)


def _standing(seen: RayWorkers, who: str) -> RayWorkers | None:
    row = by_who(seen).get(who)
    return seen if row is not None and row.trouble >= 2 else None


def test_workers_of_ray_train_are_ranks_and_not_idle(using: Cluster, ray_training: tuple[Submitted, Path]) -> None:
    seen = look(using, ray_training[0], tier=1)
    ranks = [row for row in seen.workers if row.kind == "train"]
    assert sorted((row.who, row.rank) for row in ranks) == [("rank 0", 0), ("rank 1", 1)]
    assert {row.state for row in ranks} == {"running"}
    assert all(place(row).startswith("ray_train_two.py:") for row in ranks)
    assert all(row.trouble == 0 for row in ranks)


# --- not up yet, and not any more -----------------------------------------------------------------------------------


def test_every_reason_not_to_be_up(using: Cluster) -> None:
    job = using.drive("ray_states.py", ready="READY", timeout_s=120)
    try:
        try:
            seen = until(lambda: _all_there(look(using, job)), "every state is there", 90)
        except AssertionError as late:
            raise AssertionError([(row.who, row.state, row.words) for row in look(using, job).workers]) from late
    finally:
        job.stop()
    rows = by_who(seen)
    assert rows["huge"].state == "infeasible"
    cpus = max(node.resources_total.get("CPU", 0) for node in seen.nodes)
    assert rows["huge"].words.startswith(
        f"can never start: it needs {64 * cpus:g} CPU, and the largest node has {cpus:g} CPU"
    )
    free = [(node.name, node.resources_total, node.resources_available) for node in seen.nodes]
    assert rows["big"].state == "waiting for resources", (free, [(r.job_id, r.who, r.words) for r in seen.workers])
    assert "holder" in rows["big"].waits_for
    assert "held by" in rows["big"].words
    assert rows["dies"].state == "dead"
    assert rows["dies"].words.startswith("dead: FileNotFoundError:")
    assert place(rows["dies"]).startswith(f"ray_states.py:{line_of('ray_states.py', 'DIES')} ")
    assert rows["killed"].state == "ended"
    assert (rows["asks"].state, rows["asks"].waits_for) == ("blocked", ("works",))
    assert f"ray_states.py:{line_of('ray_states.py', 'ASKS')}" in place(rows["asks"])
    assert rows["works"].state == "running"
    assert rows["rests"].state == "idle"
    assert rows["after"].state == "waiting for an argument"
    assert rows["during"].state == "running"
    assert place(rows["during"]) == f"ray_states.py:{line_of('ray_states.py', 'DURING')} during"
    assert rows["wants an argument"].state == "waiting for an argument"
    trouble = {row.who for row in seen.workers if row.trouble >= 2}
    assert trouble == {"huge", "dies"}


def _all_there(seen: RayWorkers) -> RayWorkers | None:
    rows = by_who(seen)
    there = {"huge", "big", "dies", "killed", "asks", "works", "rests", "after", "during", "wants an argument"} <= set(
        rows
    )
    settled = (
        there and rows["dies"].state == "dead" and rows["killed"].state == "ended" and rows["asks"].state == "blocked"
    )
    return seen if settled and rows["rests"].state == "idle" and rows["during"].state == "running" else None


# --- through helpers --------------------------------------------------------------------------------------------------


def test_through_helper_actors(using: Cluster, ray_collector: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on other machines: stacks and agents' answers come from an actor of ours on each node."""
    monkeypatch.setenv("TRAINDBG_RAY_HELPERS", "always")
    _, deadlocked, _ = ray_collector.said("deadlocked")
    seen = look(using, ray_collector)
    row = by_who(seen)[f"SelfPlayWorker[{deadlocked}]"]
    assert place(row) == f"ray_collector.py:{line_of('ray_collector.py', 'DEADLOCK')} Engine.step"
    assert any("helper actor" in note for note in seen.notes)
    assert not [row for row in seen.workers if "traindbg" in row.who.lower()]


def test_a_line_for_a_pipe(using: Cluster, ray_collector: Submitted) -> None:
    words = line(look(using, ray_collector, tier=1))
    assert words.startswith("7 running, 1 in __init__")
