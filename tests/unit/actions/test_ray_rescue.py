"""Whom a person's words name in a cluster, what counts as left over, and what is never done without being confirmed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.actions import ray_rescue
from jupyter_traindbg.actions.ray_rescue import killing, leftovers, on_node, stopping
from jupyter_traindbg.actions.ray_rescue.case import Case
from jupyter_traindbg.errors import ActionRefused, AmbiguousTarget, NoTarget, TargetGone, UsageError
from jupyter_traindbg.model import NotAvailable, RayActor, RayCluster, RayJobInfo, RayPlacementGroup, RayTask
from jupyter_traindbg.outside.raystate import ClusterAddress

RUNNING, ENDED = "02000000", "01000000"


def actor(number: int, name: str = "", **changes: Any) -> RayActor:
    settings: dict[str, Any] = {
        "namespace": "ann",
        "job_id": RUNNING,
        "state": "ALIVE",
        "pid": 100 + number,
        "node_id": "n1",
        **changes,
    }
    return RayActor(f"{number:024x}{settings['job_id']}", "Collector", name, required={"CPU": 1.0}, **settings)


def job(ident: str, status: str, **changes: Any) -> RayJobInfo:
    settings: dict[str, Any] = {"driver_pid": 50, "driver_node_id": "n1", "driver_ip": "10.0.0.1", **changes}
    return RayJobInfo(ident, None, status, "python train.py", **settings)


def case(*actors: RayActor, **changes: Any) -> Case:
    settings: dict[str, Any] = {"jobs": (job(RUNNING, "RUNNING"), job(ENDED, "FAILED")), **changes}
    cluster = RayCluster("10.0.0.1:6379", "", "2.60.0", 0.0, 0.1, "state API", actors=actors, **settings)
    return Case(ClusterAddress("10.0.0.1:6379", ""), cluster, None, time.monotonic() + 1)


STORE = actor(1, "store")
CASE = case(STORE, actor(2), actor(3), actor(4, "gone", state="DEAD", pid=0))


@each(
    ("words", "number"),
    [("store", 1), ("Collector[1]", 2), (f"{3:024x}{RUNNING}", 3), ("102", 2), ("gone", 4), (f"{2:024x}{RUNNING}", 2)],
)
def test_a_worker_is_named_by_name_place_id_or_pid(words: str, number: int) -> None:
    assert CASE.worker(words).actor_id == f"{number:024x}{RUNNING}"


@each("words", ["Collector", "Collector[*]", "sto", "STORE", "10", "", "0", ".*"])
def test_nothing_else_names_one(words: str) -> None:
    with pytest.raises(NoTarget, match=r"there are .*store"):
        CASE.worker(words)


def test_what_names_two_is_refused_with_both() -> None:
    two = case(actor(5, "same", namespace="a"), actor(6, "same", namespace="b"))
    with pytest.raises(AmbiguousTarget, match="names 2 workers"):
        two.worker("same")
    again = case(actor(5, "same", state="DEAD", pid=0), actor(6, "same"))
    assert again.worker("same").pid == 106, "the one that lives"


def test_a_running_task_is_a_worker_too() -> None:
    task = RayTask("ab" * 24, 0, "fetch", "NORMAL_TASK", "RUNNING", RUNNING, None, None, "n1", "w", 300, {})
    assert case(tasks=(task,)).worker("300").task_id == task.task_id
    with pytest.raises(ActionRefused, match="no actor but a task"):
        killing.kill(case(tasks=(task,)), "fetch", yes=True)


def test_what_is_dead_is_not_killed_again() -> None:
    with pytest.raises(ActionRefused, match="dead already"):
        killing.kill(CASE, "gone", yes=True)


def test_only_what_an_ended_job_left_is_a_leftover() -> None:
    left = actor(7, "keeper", job_id=ENDED, detached=True)
    serving = actor(8, "proxy", job_id=ENDED, detached=True, namespace="serve")
    others = [
        actor(9, "mine", detached=True),
        actor(10, "ended", job_id=ENDED),
        actor(11, "unknown", job_id="09000000", detached=True),
    ]
    groups = (
        RayPlacementGroup("aa" * 18, "reserve", "CREATED", ENDED, ({"CPU": 2.0}, {"CPU": 1.0})),
        RayPlacementGroup("bb" * 18, "", "CREATED", RUNNING),
        RayPlacementGroup("cc" * 18, "old", "REMOVED", ENDED),
    )
    found = leftovers.release(case(left, serving, *others, placement_groups=groups), None, yes=True)
    assert [(item.who.split(" ")[0], item.state) for item in found] == [
        ("keeper", "planned"),
        ("proxy", "left"),
        ("reserve", "planned"),
    ]
    assert "3 CPU" in found[2].before
    with pytest.raises(NoTarget, match="no dead job has left mine"):
        leftovers.release(case(left, *others), ["mine"], yes=True)


def test_leftovers_that_are_not_known_are_said_to_be_so() -> None:
    blind = case(placement_groups=NotAvailable("the dashboard is down"))
    assert leftovers.release(blind, None, yes=False) == []
    assert "placement groups are not known: the dashboard is down" in blind.notes[0]


def test_a_job_that_does_not_run_or_whose_driver_is_not_known_is_not_stopped() -> None:
    with pytest.raises(ActionRefused, match="does not run: it is FAILED"):
        stopping.stop(CASE, ENDED, yes=True)
    unknown = case(jobs=(job(RUNNING, "RUNNING", driver_pid=NotAvailable("not told")),))
    with pytest.raises(ActionRefused, match="does not say where the driver"):
        stopping.stop(unknown, RUNNING, yes=True)


@each(
    "words",
    [
        {"interrupt": "a", "kill_actor": "b"},
        {"stop_job": "a", "release": []},
        {"method": "run"},
    ],
)
def test_one_rescue_at_a_time(words: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ray_rescue.rescue("10.0.0.1:6379", **words)


def test_a_driver_is_ended_and_no_younger_process_of_its_number() -> None:
    code = "import time; print(1, flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        said.readline()  # before its program has begun it has no command line
    try:
        with pytest.raises(ActionRefused, match="began after the job"):
            on_node.end(process.pid, time.time() - 1000, 1.0)
        assert process.poll() is None
        assert "time.sleep" in (on_node.command(process.pid) or "")
        assert on_node.end(process.pid, time.time(), 10.0) == "SIGTERM"
        assert process.wait(10) == -signal.SIGTERM
    finally:
        process.kill()
    with pytest.raises(TargetGone):
        on_node.end(process.pid, None, 1.0)
    assert on_node.command(process.pid) is None


def test_one_that_does_not_listen_is_killed() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        said.readline()
        assert on_node.end(process.pid, None, 0.3) == "SIGKILL"
    assert process.wait(10) == -signal.SIGKILL
    assert not os.path.exists(f"/proc/{process.pid}")
