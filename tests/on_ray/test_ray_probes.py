# ruff: noqa: F811 - a fixture is asked for by its name
"""What an agent tells of a Ray worker, of real ones in every state; and that each goes on afterwards, with nothing left in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from ray_clusters import Cluster, Submitted, line_of, until
from ray_rescuing import SCENE, ask, entered, in_init, pids, ray_rescue_scene  # noqa: F401 - fixtures
from support import PROGRAMS

from jupyter_traindbg.agent import rendezvous


def where(mark: str, function: str) -> str:
    return f"{PROGRAMS / SCENE}:{line_of(SCENE, mark)} {function}"


def test_both_threads_of_a_deadlock_are_named_with_their_locks(pids: dict[str, int]) -> None:
    answer = ask(pids["deadlocked"], "locks")
    threads = {row["thread"]: row for row in answer["threads"]}
    main, stats = threads["MainThread"], threads["stats"]
    assert main["where"] == where("DEADLOCK", "CollectorCode.deadlock")
    assert (main["waits_for"]["name"], main["waits_for"]["kind"]) == ("self.b", "RLock")
    assert [(h["thread"], h["how"]) for h in main["waits_for"]["held_by"]] == [("stats", "owner")]
    assert stats["waits_for"]["where"] == where("STATS", "CollectorCode.write_stats")
    assert [(h["thread"], h["how"]) for h in stats["waits_for"]["held_by"]] == [("MainThread", "with")]
    assert [lock["name"] for lock in stats["holds"]] == ["self.b"]
    assert [sorted(ring) for ring in answer["cycles"]] == [sorted([main["tid"], stats["tid"]])]


@pytest.mark.parametrize("name", ["idle", "busy", "getting", "threaded"])
def test_no_lock_is_blamed_where_none_is_waited_for(pids: dict[str, int], name: str) -> None:
    answer = ask(pids[name], "locks")
    assert (answer["threads"], answer["cycles"]) == ([], [])


@pytest.mark.parametrize(("name", "call", "wanted"), [("getting", "ray.get", 1), ("waiting", "ray.wait", 2)])
def test_a_wait_for_others_says_for_whose_results(
    pids: dict[str, int], ray_cluster: Cluster, name: str, call: str, wanted: int
) -> None:
    (wait,) = ask(pids[name], "ray_waits")["waits"]
    assert (wait["call"], wait["thread"], wait["refs"], wait["num_returns"]) == (call, "MainThread", wanted, wanted)
    assert wait["where"] == where(call[4:].upper(), f"CollectorCode.{call[4:]}")
    assert wait["timeout_s"] == (None if call == "ray.get" else 600.0)
    actors = {row["actor_id"]: row["name"] for row in ray_cluster.state("actors")}
    assert {actors[ref["actor_id"]] for ref in wait["waits_for"]} == {"threaded"}
    tasks = {row["task_id"]: row["name"] for row in ray_cluster.state("tasks", state="RUNNING")}
    assert {tasks[ref["task_id"]] for ref in wait["waits_for"]} == {"CollectorCode.nap"}


def test_coroutines_are_told_apart_with_what_each_awaits(pids: dict[str, int]) -> None:
    with entered(pids["streaming"]) as client:
        rows = {row["method"]: row for row in client.call("coroutines", {}, 30)["tasks"] if not row["ours"]}
        again = {row["method"]: row for row in client.call("coroutines", {}, 30)["tasks"]}
    stream, get = rows["StreamerCode.stream"], rows["StreamerCode.get"]
    assert (stream["state"], stream["waits_for"], stream["refs"]) == ("waiting", "asyncio.sleep", [])
    assert stream["where"] == where("STREAM", "StreamerCode.next_one")
    assert (get["waits_for"], get["where"]) == ("ObjectRef", where("AWAIT", "StreamerCode.get"))
    assert get["refs"][0]["actor_id"] != get["actor_id"] == stream["actor_id"]
    assert stream["task_id"] != get["task_id"]
    assert again["StreamerCode.stream"]["seen_waiting_s"] > stream["seen_waiting_s"] == 0.0


def test_a_coroutine_that_lets_nobody_else_on_is_running(pids: dict[str, int]) -> None:
    (row,) = [row for row in ask(pids["spinning"], "coroutines")["tasks"] if row["method"]]
    assert (row["state"], row["method"], row["waits_for"]) == ("running", "StreamerCode.spin", None)


def test_counters_are_plain_attributes_of_the_actor(pids: dict[str, int]) -> None:
    answer = ask(
        pids["busy"],
        "counters",
        names=["self.games", "self.moves", "self.a", "self.score", "games", "self.ends", "ends"],
    )
    values = answer["values"]
    assert answer["actor"]["class"] == "CollectorCode"
    assert values["self.games"]["value"] > 0
    assert values["self.moves"] == {"value": 0.5, "from": "actor"}
    assert "no number" in values["self.a"]["missing"]
    assert "score" in values["self.score"]["missing"], "a property is not called"
    assert "missing" in values["games"]
    assert values["ends"]["value"] > 0, "a variable of the running method"


def test_an_actor_in_its_init_tells_too(ray_rescue_scene: Submitted, ray_cluster: Cluster) -> None:
    pid = in_init(ray_cluster)
    answer = ask(pid, "counters", names=["self.loaded"])
    assert answer["values"]["self.loaded"] == {"value": 3, "from": "actor"}


def test_every_kind_of_worker_goes_on_and_nothing_stays_in_it(
    ray_rescue_scene: Submitted, ray_cluster: Cluster, pids: dict[str, int]
) -> None:
    """The driver too. (What they hold before is what they hold afterwards: no thread, no file, no module of ours.)"""
    kinds = {
        **pids,
        "loading": in_init(ray_cluster),
        "task": task_pid(ray_cluster),
        "driver": ray_rescue_scene.driver_pid,
    }
    for name, pid in kinds.items():
        assert ask(pid, "info")["pid"] == pid, name
        folder = rendezvous.directory(pid, os.getuid())
        until(lambda folder=folder: not os.path.exists(folder), f"the agent's directory in {name} to go", 10)
        until(lambda pid=pid: not our_threads(pid), f"the agent's threads in {name} to go", 10)
        assert "_traindbg_agent" not in maps(pid), name
    counts = [ask(pids["busy"], "counters", names=["self.games"])["values"]["self.games"]["value"] for _ in range(2)]
    assert counts[1] > counts[0]
    assert ray_rescue_scene.status() == "RUNNING"


def task_pid(cluster: Cluster) -> int:
    rows: Callable[[], list[dict[str, Any]]] = lambda: cluster.state("tasks", name="long_task", state="RUNNING")  # noqa: E731
    return int(until(rows, "the task to run")[0]["worker_pid"])


def our_threads(pid: int) -> list[str]:
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/comm") as f:
                found.append(f.read().strip())
        except FileNotFoundError:
            continue
    return [name for name in found if name.startswith("traindbg")]


def maps(pid: int) -> str:
    with open(f"/proc/{pid}/maps") as f:
        return f.read()
