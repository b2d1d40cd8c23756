"""A cluster that loses a node, and then its dashboard: whatever is left goes on telling what it knows, and says what is missing.

One cluster for all of it, and one test, since nothing of it can be taken back.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray_asking import PROGRAM, assert_names_both, at, settled, workers
from ray_clusters import QUICK_DEATHS, RAY_TEST_S, Cluster, Submitted, until

from jupyter_traindbg.attach.ray.hosts import HELPERS, RayHosts, open_hosts
from jupyter_traindbg.errors import AmbiguousTarget, DeadlineExceeded, TargetGone
from jupyter_traindbg.model import RayActor, RayCluster
from jupyter_traindbg.outside.raystate import read, resolve

pytestmark = pytest.mark.timeout(2 * RAY_TEST_S)
PATIENT_S = 30.0
HELPER_S = 60.0
"""The first helper on a node of a busy machine takes its time."""


def test_a_node_dies_and_then_the_dashboard(
    ray_start: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ray_start(num_cpus=3, resources={"head": 1}, client=True, env=QUICK_DEATHS)
    cluster.add_node(2, resources={"extra": 1})
    (tmp_path / "slow").touch()
    building = cluster.submit("ray_environment.py", str(tmp_path), "--on", "head", ready="READY")
    job = cluster.submit(PROGRAM, "--workers", "4", ready="READY")
    cluster.submit("ray_ends.py", "--far", ready="READY")
    several_clusters_are_told_apart(cluster, ray_start, monkeypatch)
    assert_names_both(settled(cluster, "--job", job.id), job)
    an_environment_is_being_built(cluster, building, "state API")

    gone = on_the_second_node(cluster)
    lose_the_second_node_while_it_is_asked(cluster, monkeypatch)
    what_was_on_it_is_dead(cluster, job, gone)

    driver = job.driver_pid
    cluster.kill_dashboard()
    the_gcs_tells_what_is_left(cluster, job, gone)
    an_environment_is_being_built(cluster, building, "GCS")
    (tmp_path / "slow").unlink()
    until(lambda: "BUILT go9x9" in building.output(), "the end of the building", 90)
    assert psutil.pid_exists(driver)


def look(cluster: Cluster, job: str | None = None) -> RayCluster:
    return read(resolve(cluster.gcs, PATIENT_S), job, PATIENT_S)


def several_clusters_are_told_apart(
    cluster: Cluster, ray_start: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ray_start(num_cpus=1, dashboard=False)
    assert resolve(cluster.client, PATIENT_S).client == cluster.client
    assert resolve(cluster.client, PATIENT_S).dashboard == cluster.dashboard
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(AmbiguousTarget, match="Ray clusters run on this machine: ") as several:
        resolve("auto")
    assert cluster.gcs in several.value.cause
    assert other.gcs in several.value.cause
    other.stop()


def an_environment_is_being_built(cluster: Cluster, job: Submitted, source: str) -> None:
    """By Ray's own list, and without a dashboard by the program that its node's agent runs."""

    def told() -> dict[str, Any] | None:
        found = workers(cluster, patience="20")
        assert found["source"] == source
        row = next(row for row in found["workers"] if row["who"] == "Player[0]")
        by_pip = "`pip install` has been running" if source == "GCS" else f"pip: {job.said('PACKAGE')[1]}"
        return found if row["state"] == "building runtime_env" and by_pip in row["words"] else None

    found = until(told, "the building", HELPER_S)
    (one,) = [finding for finding in found["verdict"] if finding["code"] == "ray_runtime_env"]
    assert (one["severity"], one["who"]) == ("info", ["Player[0]"])


def on_the_second_node(cluster: Cluster) -> set[int]:
    """The actors there; of one in ``__init__`` it is the process that knows its node."""
    actors = {a["pid"] for a in cluster.state("actors")}
    there = actors & {w["pid"] for w in cluster.state("workers") if w["node_id"] == cluster.nodes[1].node_id}
    assert len(there) > 1
    return there


def lose_the_second_node_while_it_is_asked(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its helper is gone with it; the other one answers."""
    cluster.use(monkeypatch)
    monkeypatch.setenv(HELPERS, "always")
    address = resolve(cluster.gcs, PATIENT_S)
    nodes = read(address, None, PATIENT_S).nodes
    assert {n.node_id for n in nodes} == {n.node_id for n in cluster.nodes}
    hosts: RayHosts = open_hosts(address, nodes)
    try:
        where: dict[str, Any] = {n.node_id: ((), {}) for n in nodes}
        seen = hosts.run_everywhere(where, "jupyter_traindbg.spread.part:host", deadline_s=HELPER_S)
        assert len(set(map(str, seen.values()))) == 1, "simulated nodes: one machine"
        cluster.kill_node(cluster.nodes[1])
        calls: dict[str, Any] = {n.node_id: (([os.getpid()], 1.0), {}) for n in nodes}
        answers = hosts.run_everywhere(calls, "jupyter_traindbg.outside.standing:look", deadline_s=8)
        assert isinstance(answers[cluster.nodes[1].node_id], (TargetGone, DeadlineExceeded))
        assert isinstance(answers[cluster.nodes[0].node_id], dict)
    finally:
        hosts.end()
    monkeypatch.delenv(HELPERS)


def what_was_on_it_is_dead(cluster: Cluster, job: Submitted, gone: set[int]) -> None:
    until(lambda: any(n["state"] == "DEAD" for n in cluster.state("nodes")), "the node's death to be noticed")

    def died() -> RayActor | None:
        (far,) = [actor for actor in look(cluster).actors if actor.name == "far"]
        return far if far.state == "DEAD" else None

    far = until(died, "the end of the actor", 90)
    assert far.death is not None
    assert far.death.kind == "node died"
    dead = next(one for one in look(cluster).nodes if one.node_id == cluster.nodes[1].node_id)
    assert not dead.alive
    assert "health check" in dead.why_dead
    assert not dead.memory_used_bytes
    rows = {row["pid"]: row for row in workers(cluster, "--job", job.id)["workers"] if row["state"] == "dead"}
    assert set(rows) == gone - {far.pid}
    assert all("node" in row["words"] for row in rows.values())


def the_gcs_tells_what_is_left(cluster: Cluster, job: Submitted, gone: set[int]) -> None:
    found = look(cluster)
    assert (found.source, found.address) == ("GCS", cluster.gcs)
    assert "no dashboard answers at" in found.notes[0]
    head = next(one for one in found.nodes if one.alive)
    assert head.node_id == cluster.nodes[0].node_id
    assert (head.resources_total["CPU"], head.resources_total["head"]) == (3, 1)
    assert head.resources_available["head"] == pytest.approx(0.9), "what waits for its environment has its resources"
    assert len(found.jobs) == 3, "what reads the GCS is no job"

    seen = workers(cluster, patience="20")
    assert any("dashboard" in note for note in seen["notes"])
    assert {row["pid"] for row in seen["workers"] if row["state"] == "dead"} == gone
    for word, mark in (("deadlocked", "DEADLOCK"), ("stuck", "STUCK")):
        pid = int(job.said(word)[2])
        if pid not in gone:
            (row,) = [row for row in seen["workers"] if row["pid"] == pid]
            assert at(mark) in row["where"]
