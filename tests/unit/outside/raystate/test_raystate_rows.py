"""Rows of a real cluster's state API (Ray 2.60, recorded while a small scene ran), as dataclasses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.model import NotAvailable, RayActor, RayProcess
from jupyter_traindbg.outside.raystate import devices, events, naming, placing, processes, train, work
from jupyter_traindbg.outside.raystate.fields import identity, integer, resources, seconds
from jupyter_traindbg.outside.raystate.nodes import nodes as read_nodes

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded.json").read_text())
ACTORS = {actor.class_name + actor.state + str(actor.pid): actor for actor in map(work.actor, RECORDED["actors"])}


def actor(class_name: str, state: str) -> RayActor:
    (found,) = [one for one in ACTORS.values() if (one.class_name, one.state) == (class_name, state)]
    return found


def test_actors_in_all_their_states() -> None:
    stuck = actor("Collector", "PENDING_CREATION")
    assert stuck.pid > 0
    assert stuck.node_id is None, "Ray does not say it yet"
    assert actor("Big", "PENDING_CREATION").required == {"CPU": 64.0}
    assert actor("Big", "PENDING_CREATION").name == "big"
    assert actor("Idle", "ALIVE").detached
    dead = actor("Bad", "DEAD").death
    assert dead is not None
    assert (dead.kind, dead.words, dead.where) == (
        "in __init__",
        "ValueError: no such model: /models/7b",
        "/home/user/scene.py:15 load",
    )


def test_tasks_know_when_they_came_into_each_state() -> None:
    tasks = [work.task(row) for row in RECORDED["tasks"]]
    (running,) = [task for task in tasks if task.name == "work" and task.state == "RUNNING"]
    assert list(running.times) == ["PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER", "RUNNING"]
    assert 1.79e9 < running.times["RUNNING"] < 1.8e9
    (waiting,) = [task for task in tasks if task.state == "PENDING_ARGS_AVAIL"]
    assert (waiting.pid, waiting.node_id) == (0, None)
    (failed,) = [task for task in tasks if task.name == "fails"]
    assert failed.death is not None
    assert failed.death.where == "/home/user/scene.py:24 fails"


def test_an_actor_in_init_is_placed_by_its_pid_and_better_by_its_processs_own_report() -> None:
    stuck = actor("Collector", "PENDING_CREATION")
    tasks = [work.task(row) for row in RECORDED["tasks"]]
    live = processes.processes(RECORDED["workers"], {})
    node_id = RECORDED["nodes"][0]["node_id"]
    assert [one.node_id for one in placing.placed([stuck], tasks, live, {})] == [node_id]
    twin = RayProcess("w", stuck.pid, "another node", "WORKER", True)
    assert [one.node_id for one in placing.placed([stuck], tasks, [*live, twin], {})] == [None], (
        "which of the two is not known"
    )
    measured = processes.reported([RECORDED["detail"]])
    assert [one.node_id for one in placing.placed([stuck], tasks, [*live, twin], measured)] == [node_id]


def test_processes_are_joined_with_what_their_node_measured() -> None:
    measured = processes.reported([RECORDED["detail"], *RECORDED["summary"]["summary"]])
    found = {process.pid: process for process in processes.processes(RECORDED["workers"], measured)}
    running = found[9958]
    assert running.job_id == "01000000"
    assert isinstance(running.rss_bytes, int)
    assert running.rss_bytes > 50 << 20
    assert isinstance(running.cpu_percent, float)
    assert running.executed == 0, "its creation is no call, and the one that runs has not ended"
    dead = found[11341]
    assert (dead.alive, dead.exit_type, dead.rss_bytes) == (False, "SYSTEM_ERROR", NotAvailable("it has ended"))
    driver = found[9145]
    assert (driver.kind, driver.job_id, driver.launched_at) == (
        "DRIVER",
        "01000000",
        NotAvailable("Ray did not launch it"),
    )
    (idle,) = processes.of_actors([actor("Idle", "ALIVE")], measured)
    assert (idle.executed, idle.queued) == (1, 0)


def test_a_job_gets_its_drivers_node() -> None:
    (job,) = placing.drivers_placed(
        [work.job(row) for row in RECORDED["jobs"]], processes.processes(RECORDED["workers"], {})
    )
    assert (job.job_id, job.driver_pid, job.driver_node_id) == ("01000000", 9145, RECORDED["nodes"][0]["node_id"])
    assert job.running
    assert job.ended_at == NotAvailable("it has not ended")


def test_a_node_has_rays_numbers_and_the_machines() -> None:
    summary = RECORDED["summary"]
    (node,) = read_nodes(RECORDED["nodes"], summary["summary"], summary["nodeLogicalResources"])
    assert (node.head, node.alive, node.name, node.cpus) == (True, True, "trainer-0", 2)
    assert node.resources_total["CPU"] == 2.0
    assert node.resources_available
    assert node.resources_available["CPU"] == 0.0, "an actor has both"
    assert (node.object_store_total_bytes, node.spilled_bytes) == (80_000_000, 0)
    assert node.memory_used_bytes
    assert node.memory_total_bytes
    assert node.memory_used_bytes < node.memory_total_bytes


def test_a_node_that_died_or_says_nothing_has_no_numbers() -> None:
    row = {**RECORDED["nodes"][0], "state": "DEAD", "state_message": "Unexpected termination: health check failed"}
    (dead,) = read_nodes([row], [], {})
    assert (dead.alive, dead.why_dead, dead.cpus) == (
        False,
        "Unexpected termination: health check failed",
        NotAvailable("the node is dead"),
    )
    (silent,) = read_nodes(RECORDED["nodes"], [], {})
    assert silent.memory_used_bytes == NotAvailable("the node's dashboard agent has not reported")
    assert silent.resources_available == NotAvailable("the autoscaler's monitor has not reported")


@each(
    ("line", "free"),
    [
        ("1.0/8.0 CPU", {"CPU": 7.0}),
        ("3.0/8.0 CPU (2.0 used of 5.0 reserved in placement groups)", {"CPU": 2.0}),
        ("0B/22.11GiB memory", {"memory": 100.0 * (1 << 30)}),
        ("1.50GiB/100.00GiB memory", {"memory": 98.5 * (1 << 30)}),
        ("0.5/1.0 accelerator_type:A100", {"accelerator_type:A100": 0.5}),
        ("no such line", {"CPU": 8.0}),
    ],
)
def test_what_is_free_comes_from_the_monitors_lines(line: str, free: dict[str, float]) -> None:
    total = {"CPU": 8.0, "memory": 100.0 * (1 << 30), "accelerator_type:A100": 1.0}
    row = {**RECORDED["nodes"][0], "resources_total": total}
    (node,) = read_nodes([row], [], {row["node_id"]: line})
    assert node.resources_available
    for name, amount in free.items():
        assert node.resources_available[name] == pytest.approx(amount)


def test_a_placement_group_says_why_it_waits() -> None:
    (group,) = [work.placement_group(row) for row in RECORDED["placement_groups"]]
    assert (group.name, group.state, group.why, group.job_id) == ("pgx", "PENDING", "INFEASIBLE", "01000000")
    assert list(group.bundles) == [{"CPU": 1.0}, {"CPU": 100.0}]


def test_gpus_are_those_that_the_machine_has_and_what_each_process_has_there() -> None:
    gpus = [
        {
            "index": 0,
            "name": "H100",
            "memoryUsed": 70000,
            "memoryTotal": 81559,
            "processesPids": [{"pid": 9958, "gpuMemoryUsage": 400}],
        },
        {"index": 1, "name": "H100", "memoryUsed": 0, "memoryTotal": 81559, "processesPids": None},
    ]
    machine = {**RECORDED["detail"], "gpus": gpus}
    (node,) = devices.of_nodes(read_nodes(RECORDED["nodes"], [machine], {}), [machine])
    assert [(gpu.index, gpu.memory_total_bytes) for gpu in node.devices or ()] == [(0, 81559 << 20), (1, 81559 << 20)]
    found = {
        process.pid: process for process in processes.processes(RECORDED["workers"], processes.reported([machine]))
    }
    assert (found[9958].gpu_bytes, found[9958].on_gpus) == (400 << 20, {0: 400 << 20})
    assert found[9959].gpu_bytes == NotAvailable("it has no memory on a GPU that its node sees")


def test_events_are_in_order_and_each_is_told_once() -> None:
    def event(at: object, message: str, **more: object) -> dict[str, object]:
        return {
            "timestamp": at,
            "message": message,
            "severity": "INFO",
            "sourceType": "AUTOSCALER",
            "customFields": {},
            **more,
        }

    oom = event(
        1795349750,
        "killed",
        sourceType="RAYLET",
        severity="ERROR",
        label="RAY_WORKER_FAILURE",
        customFields={"nodeId": "ab"},
    )
    answer = {
        "data": {
            "events": {
                "global": [
                    event("1795349735", "No node can fulfill {'CPU': 64.0}"),
                    event("1795349770", "No node can fulfill {'CPU': 64.0}"),
                ],
                "01000000": [oom],
                "02000000": [event("1795349760", "of another job")],
            }
        }
    }
    found = events.events(answer, "01000000")
    assert [(one.at, one.source, one.message) for one in found] == [
        (1795349750.0, "RAYLET", "RAY_WORKER_FAILURE: killed"),
        (1795349770.0, "AUTOSCALER", "No node can fulfill {'CPU': 64.0}"),
    ]
    assert found[0].node_id == "ab"
    assert len(events.events(answer, None)) == 3
    assert events.events(None, None) == ()


def test_a_task_that_ends_between_two_listings_has_ended() -> None:
    (entry, *others) = RECORDED["tasks"]
    again = {**entry, "attempt_number": 1}
    found = work.tasks([entry, again, *others, {**entry, "state": "FAILED"}])
    assert len(found) == len(others) + 2
    assert {t.attempt: t.state for t in found if t.task_id == entry["task_id"]} == {0: "FAILED", 1: entry["state"]}


def test_ray_train_is_known_by_its_record_and_else_by_its_class() -> None:
    def worker(rank: int, actor_id: str) -> dict[str, object]:
        return {"world_rank": rank, "local_rank": rank, "pid": 100 + rank, "actor_id": actor_id, "node_id": "ab"}

    run = {
        "name": "tiny",
        "status": "RUNNING",
        "job_id": "01000000",
        "attempts": [
            {"start_time_ns": 1, "workers": [worker(0, "old")]},
            {"start_time_ns": 2, "workers": [worker(1, "b"), worker(0, "a")]},
        ],
    }
    recorded = train.from_runs({"train_runs": [run, {**run, "status": "FINISHED"}]})
    assert [(one.rank, one.world_size, one.actor_id, one.pid) for one in recorded] == [
        (0, 2, "a", 100),
        (1, 2, "b", 101),
    ]

    def member(actor_id: str, state: str = "ALIVE") -> RayActor:
        return RayActor(actor_id, "RayTrainWorker", "", "", "01000000", state, 7, "ab", {}, placement_group_id="g")

    alone = train.from_actors([member("a"), member("c"), member("d"), member("e", "DEAD")], recorded)
    assert [(one.actor_id, one.rank, one.world_size) for one in alone] == [("c", -1, 2), ("d", -1, 2)]


def test_ray_trains_record_is_of_all_jobs_and_kept_by_whichever_was_the_first() -> None:
    worker = {"world_rank": 0, "local_rank": 0, "pid": 100, "actor_id": "a", "node_id": "ab"}
    run = {"name": "tiny", "status": "RUNNING", "job_id": "01000000", "attempts": [{"workers": [worker]}]}
    other = {**run, "job_id": "02000000", "attempts": [{"workers": [{**worker, "actor_id": "b"}]}]}
    answer = {"train_runs": [run, other]}
    assert [one.actor_id for one in train.from_runs(answer)] == ["a", "b"]
    assert [one.actor_id for one in train.from_runs(answer, "02000000")] == ["b"]
    keeper = {"name": train.STATE_ACTOR, "state": "ALIVE", "job_id": "01000000"}
    assert train.state_is_kept([keeper])
    assert not train.state_is_kept([{**keeper, "state": "DEAD"}])
    assert not train.state_is_kept([{**keeper, "name": "another"}])


def test_the_creations_that_are_read_are_those_that_tell_unnamed_actors_apart() -> None:
    made = [work.actor(row) for row in RECORDED["actors"]]
    assert sorted(naming.creations(made)) == ["Collector.__init__", "Idle.__init__", "Two.__init__"]


def test_rays_ways_to_say_nothing() -> None:
    assert identity("f" * 56) is None
    assert identity("01000000") == "01000000"
    assert identity(None) is None
    assert integer("12") == 12
    assert integer(None) == 0
    assert seconds(18446744073709551615, "not so") == NotAvailable("not so")
    assert seconds("1795349727030", "") == 1795349727.03
    assert resources(
        {
            "CPU_group_0_41a4e0a8cc69b52b9b8bbda0d83301000000": 1.0,
            "bundle_group_0_41a4e0a8cc69b52b9b8bbda0d83301000000": 0.001,
        }
    ) == {"CPU": 1.0}
    assert resources(None) == {}


def test_what_an_older_ray_does_not_say_is_missing_and_breaks_nothing() -> None:
    assert work.actor({"actor_id": "a", "state": "ALIVE", "pid": 3}).required == {}
    assert work.task({"task_id": "t", "state": "RUNNING", "start_time_ms": 1000}).times == {"RUNNING": 1.0}
    assert work.job({"job_id": "01000000", "status": "RUNNING"}).driver_pid == NotAvailable("Ray does not say")
    assert processes.processes([{"worker_id": "w", "pid": 1, "is_alive": True}], {})[0].node_id is None
    assert read_nodes([{"node_id": "n", "state": "ALIVE"}], [{}], {})[0].name == ""
    assert work.placement_group({"placement_group_id": "g", "bundles": None}).bundles == ()
