"""What a real Ray cluster says of itself: by every kind of address, of every end, with a token, without its dashboard, with a node gone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ray_clusters import RAY_TEST_S, Cluster, Submitted, line_of, until
from ray_shared import share
from support import PROGRAMS

from jupyter_traindbg.attach.ray import hosts  # installs the way to the GCS
from jupyter_traindbg.errors import NoTarget, NotPermitted
from jupyter_traindbg.model import RayActor, RayCluster, RayDeath, RayProcess, RayTask, parse_cluster
from jupyter_traindbg.outside.raystate import brokered, pick_job, read, resolve

pytestmark = pytest.mark.timeout(RAY_TEST_S)
assert hosts

PATIENT_S = 30.0
LONG_S = 600.0
"""The deadline of a call that is to come back long before: longer than its test may take."""
"""The deadline of a look that a test waits for: the machine may be busy."""

ENDS: dict[str, tuple[str, str]] = {
    "raises": ("in __init__", "FileNotFoundError: no such model: /models/7b"),
    "leaves": ("exited", "it called ray.actor.exit_actor()"),
    "exits": ("crashed", "its process exited with code 3"),
    "vanishes": ("crashed", "its process vanished"),
    "killed": ("killed", "it was killed by ray.kill()"),
    "owned": ("owner died", "the process that created it has ended"),
    "homeless": ("unschedulable", "The node specified via NodeAffinitySchedulingStrategy doesn't exist"),
    "grouped": ("placement group removed", "its placement group"),
}


@pytest.fixture
def ends(ray_cluster: Cluster) -> Submitted:
    """Shared as the cluster is: a dozen workers take their time to come up."""
    return share("ends", lambda: ray_cluster.submit("ray_ends.py", ready="READY"))


def look(cluster: Cluster, job: str | None = None) -> RayCluster:
    return read(resolve(cluster.gcs, PATIENT_S), job, PATIENT_S)


def by_name(found: RayCluster) -> dict[str, RayActor]:
    return {actor.name: actor for actor in found.actors}


def assert_all_ends_are_told(actors: dict[str, RayActor]) -> None:
    told = {name: actors[name].death for name in ENDS}
    assert {name: death and (death.kind, death.words[: len(ENDS[name][1])]) for name, death in told.items()} == ENDS
    raised = told["raises"]
    assert isinstance(raised, RayDeath)
    assert raised.where == f"{PROGRAMS / 'ray_ends.py'}:{line_of('ray_ends.py', 'RAISES')} load"


def test_every_end_is_told_by_its_cause_and_place(ray_cluster: Cluster, ends: Submitted) -> None:
    def reported() -> RayCluster | None:  # Ray's workers tell of their tasks once a second
        seen = look(ray_cluster, ends.id)
        return seen if any(task.name == "fails" and task.death for task in seen.tasks or ()) else None

    found = until(reported, "the task's end")
    assert (found.source, found.notes, found.ray_version != "") == ("state API", (), True)
    assert_all_ends_are_told(by_name(found))
    failed = next(task for task in found.tasks or () if task.name == "fails")
    assert failed.death is not None
    assert failed.death.words == "KeyError: 'no such shard'"
    assert failed.death.where == f"{PROGRAMS / 'ray_ends.py'}:{line_of('ray_ends.py', 'FAILS')} fails"
    died = {process.exit_type for process in found.processes or () if not process.alive}
    assert "SYSTEM_ERROR" in died
    assert {actor.job_id for actor in found.actors} == {ends.job_id}


def test_calls_are_counted_once_its_node_has_reported(ray_cluster: Cluster, ends: Submitted) -> None:
    def counted() -> RayActor | None:
        one = by_name(look(ray_cluster, ends.id))["alive"]
        return one if one.executed else None

    def measured(pid: int) -> RayProcess | None:
        found = (p for p in look(ray_cluster).processes or () if p.pid == pid and p.alive)
        return next((p for p in found if p.rss_bytes), None)

    alive = until(counted, "its node's report", 60)
    assert (alive.executed, alive.queued, alive.state) == (2, 0, "ALIVE")
    process = until(lambda: measured(alive.pid), "its memory", 60)
    assert process.node_id == alive.node_id
    assert process.job_id == ends.job_id


def test_the_gcs_alone_says_the_same(ray_cluster: Cluster, ends: Submitted) -> None:
    address = resolve(ray_cluster.gcs, PATIENT_S)
    found = brokered.cluster(address, ends.job_id, time.monotonic() + 2 * PATIENT_S)
    assert found is not None
    assert found.source == "GCS"
    assert_all_ends_are_told(by_name(found))
    there = look(ray_cluster, ends.id)
    assert {actor.actor_id for actor in found.actors} == {actor.actor_id for actor in there.actors}
    assert {(t.task_id, t.state) for t in found.tasks or ()} == {(t.task_id, t.state) for t in there.tasks or ()}
    assert {(node.node_id, node.alive, node.head) for node in found.nodes} == {
        (n.node_id, n.alive, n.head) for n in there.nodes
    }
    mine = next(job for job in found.jobs if job.job_id == ends.job_id)
    assert (mine.submission_id, mine.driver_pid, mine.running) == (ends.id, ends.driver_pid, True)


def test_a_job_is_found_by_either_id_and_a_wrong_one_lists_them(ray_cluster: Cluster, ends: Submitted) -> None:
    found = look(ray_cluster)
    job = pick_job(found, ends.id)
    assert job == pick_job(found, ends.job_id)
    assert (job.driver_pid, job.status) == (ends.driver_pid, "RUNNING")
    assert job.driver_node_id == ray_cluster.nodes[0].node_id
    with pytest.raises(NoTarget, match=f"no job 77777777 in this cluster; its jobs are .*{ends.id}"):
        look(ray_cluster, "77777777")


def test_stuck_in_init_has_a_node_and_a_pid(ray_cluster: Cluster, ray_collector: Submitted) -> None:
    pid = int(ray_collector.said("stuck")[2])

    def reported() -> RayCluster | None:  # Ray's workers tell of their tasks once a second
        seen = look(ray_cluster, ray_collector.id)
        return seen if creation_at(pid, seen).state == "RUNNING" else None

    found = until(reported, "the run of its creation")
    stuck = next(actor for actor in found.actors if actor.pid == pid)
    assert stuck.state == "PENDING_CREATION"
    assert stuck.node_id in {node.node_id for node in ray_cluster.nodes}
    assert creation_at(pid, found).times["RUNNING"] <= time.time()
    made = {task.actor_id for task in found.tasks or () if task.kind == "ACTOR_CREATION_TASK"}
    assert {actor.actor_id for actor in found.actors} <= made, "the order of creation is known of all"


def creation_at(pid: int, found: RayCluster) -> RayTask:
    actor = next(actor for actor in found.actors if actor.pid == pid)
    made = (task for task in found.tasks or () if task.actor_id == actor.actor_id)
    return next(task for task in made if task.kind == "ACTOR_CREATION_TASK")


def test_nodes_have_rays_numbers_and_their_machines(ray_cluster: Cluster) -> None:
    def reported() -> Any:
        nodes = look(ray_cluster).nodes
        return (
            nodes
            if all(node.cpus and node.resources_available and node.object_store_total_bytes for node in nodes)
            else None
        )

    head, other = until(reported, "reports of both nodes", 60)
    assert head.head
    assert head.resources_total["CPU"] == 10
    assert other.resources_total["extra"] == 2
    assert 0 <= head.resources_available["CPU"] <= 10
    assert head.memory_total_bytes > head.memory_used_bytes > 0
    assert head.devices == ()


@pytest.mark.parametrize("form", ["gcs", "dashboard", "auto", "localhost"])
def test_every_form_of_address_finds_the_same_cluster(
    form: str, ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray_cluster.use(monkeypatch)
    text = {
        "gcs": ray_cluster.gcs,
        "dashboard": ray_cluster.dashboard,
        "auto": "ray:auto",
        "localhost": "ray:@localhost:PORT",
    }[form]
    asked = parse_cluster(text.replace("PORT", ray_cluster.gcs.rpartition(":")[2]))
    found = resolve(asked.address, PATIENT_S)
    assert (found.gcs, found.dashboard) == (ray_cluster.gcs, ray_cluster.dashboard)
    assert found.session_dir == str(ray_cluster.session_dir)
    assert found.token is None


# --- a token -------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_token(ray_token_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This process is a client of that cluster, but for the token."""
    ray_token_cluster.use(monkeypatch)
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("form", ["gcs", "dashboard"])
@pytest.mark.parametrize(("token", "words"), [(None, "wants a token"), ("wrong", "refuses the token")])
@pytest.mark.usefixtures("no_token")
def test_a_missing_or_wrong_token_is_told_and_not_waited_for(
    form: str, token: str | None, words: str, ray_token_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    if token is not None:
        monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    with pytest.raises(NotPermitted, match=words):
        resolve(getattr(ray_token_cluster, form), LONG_S)


def test_with_the_token_all_is_read(ray_token_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ray_token_cluster.use(monkeypatch)
    monkeypatch.delenv("RAY_AUTH_MODE")  # it is the cluster that wants it
    address = resolve(ray_token_cluster.gcs, PATIENT_S)
    assert address.token == ray_token_cluster.token
    found = read(address, None, PATIENT_S)
    assert [node.alive for node in found.nodes] == [True]
    through = brokered.cluster(address, None, time.monotonic() + PATIENT_S)
    assert through is not None
    assert [node.node_id for node in through.nodes] == [found.nodes[0].node_id]


def test_the_gcs_refuses_a_wrong_token_too(ray_token_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ray_token_cluster.use(monkeypatch)
    address = resolve(ray_token_cluster.gcs, PATIENT_S)
    for token in (None, "wrong"):
        with pytest.raises(NotPermitted, match="wants another token than ours"):
            brokered.cluster(type(address)(address.gcs, "", token), None, time.monotonic() + PATIENT_S)
