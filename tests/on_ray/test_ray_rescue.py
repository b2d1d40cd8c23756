# ruff: noqa: F811 - a fixture is asked for by its name
"""Rescue in a real cluster: methods are interrupted and their actors stay, actors are killed, jobs stopped, leftovers released."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from ray_clusters import Cluster, Submitted, until
from ray_rescuing import ask, in_init, pids, ray_rescue_scene  # noqa: F401 - fixtures
from support import Start

from jupyter_traindbg.actions.ray_rescue import rescue
from jupyter_traindbg.errors import ActionRefused, AmbiguousTarget, NoTarget
from jupyter_traindbg.model import RayRescued

LONG_S = 40.0
Rescue = Callable[..., RayRescued]


@pytest.fixture
def ray_rescue(ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Rescue:
    ray_cluster.use(monkeypatch)
    return lambda **words: rescue(f"ray:@{ray_cluster.gcs}", timeout=LONG_S, **words)


def state(cluster: Cluster, name: str) -> str:
    (row,) = [row for row in cluster.state("actors") if row["name"] == name]
    return str(row["state"])


@pytest.mark.parametrize("name", ["getting", "waiting", "deadlocked", "napping", "busy"])
def test_an_interrupted_method_fails_and_its_actor_goes_on(
    ray_rescue: Rescue,
    ray_rescue_scene: Submitted,
    ray_cluster: Cluster,
    name: str,
) -> None:
    plan = ray_rescue(interrupt=name)
    assert (plan.done, plan.confirm, [item.state for item in plan.items]) == (False, "--yes", ["planned"])
    assert f"failed {name}" not in ray_rescue_scene.output(), "a plan does nothing"

    done = ray_rescue(interrupt=name, yes=True)
    (item,) = done.items
    assert (done.done, item.state, done.findings) == (True, "verified", ()), item
    ray_rescue_scene.wait_for(f"failed {name} RayTaskError(TaskCancelledError)")
    ray_rescue_scene.wait_for(f"alive {name} ")
    assert state(ray_cluster, name) == "ALIVE"


def test_of_a_deadlock_one_method_ends_and_the_other_thread_goes_on(
    ray_rescue: Rescue,
    ray_rescue_scene: Submitted,
    pids: dict[str, int],
) -> None:
    if "alive deadlocked" not in ray_rescue_scene.output():
        ray_rescue(interrupt="deadlocked", yes=True)
    until(lambda: ask(pids["deadlocked"], "locks")["cycles"] == [], "the deadlock to end")
    assert ask(pids["deadlocked"], "counters", names=["self.moves"])["values"]["self.moves"]["value"] == 1.5


def test_one_coroutine_of_several_is_cancelled(ray_rescue: Rescue, ray_rescue_scene: Submitted) -> None:
    done = ray_rescue(interrupt="streaming", method="stream", yes=True)
    assert [(item.state, item.note) for item in done.items] == [("verified", "its coroutine was cancelled")]
    ray_rescue_scene.wait_for("failed streaming ")
    ray_rescue_scene.wait_for("alive streaming 1")
    assert "awaiting" not in ray_rescue_scene.output(), "the other one goes on"


def test_a_coroutine_that_never_awaits_is_interrupted_and_the_loop_stays(
    ray_rescue: Rescue,
    ray_rescue_scene: Submitted,
) -> None:
    done = ray_rescue(interrupt="spinning", yes=True)
    assert [item.state for item in done.items] == ["verified"]
    ray_rescue_scene.wait_for("failed spinning ")
    ray_rescue_scene.wait_for("alive spinning ")


def test_what_sleeps_on_another_thread_is_told_honestly(ray_rescue: Rescue, ray_rescue_scene: Submitted) -> None:
    play = ray_rescue(interrupt="threaded", method="play", yes=True)
    assert [item.state for item in play.items] == ["verified"]
    naps = ray_rescue(interrupt="threaded", method="nap", yes=True)
    assert naps.items
    assert {item.state for item in naps.items} == {"not done"}
    assert all("kill the actor" in item.note for item in naps.items)
    assert [finding.code for finding in naps.findings] == ["ray-rescue-not-done"] * len(naps.items)
    ray_rescue_scene.wait_for("alive threaded ")


def test_a_task_is_interrupted_by_its_pid_too(
    ray_rescue: Rescue, ray_rescue_scene: Submitted, ray_cluster: Cluster
) -> None:
    pid = until(lambda: ray_cluster.state("tasks", name="long_task", state="RUNNING"), "the task to run")[0][
        "worker_pid"
    ]
    done = ray_rescue(interrupt=str(pid), yes=True)
    assert [item.state for item in done.items] == ["verified"]
    ray_rescue_scene.wait_for("failed task RayTaskError(TaskCancelledError)")


@pytest.mark.parametrize(
    ("who", "words"),
    [("loading", "does not survive"), ("idle", "runs no method"), ("driver", "no worker is called driver")],
)
def test_what_must_not_be_interrupted_is_refused(
    ray_rescue: Rescue,
    ray_rescue_scene: Submitted,
    ray_cluster: Cluster,
    who: str,
    words: str,
) -> None:
    in_init(ray_cluster)
    with pytest.raises((ActionRefused, NoTarget), match=words):
        ray_rescue(interrupt=who, yes=True)


def test_names_are_never_guessed(ray_rescue: Rescue, ray_rescue_scene: Submitted) -> None:
    with pytest.raises(NoTarget, match=r"no worker is called CollectorCode.*there are"):
        ray_rescue(kill_actor="CollectorCode", yes=True)
    with pytest.raises(NoTarget):
        ray_rescue(kill_actor="idl", yes=True)
    with pytest.raises((AmbiguousTarget, NoTarget)):
        ray_rescue(kill_actor="CollectorCode[*]", yes=True)


def test_an_actor_without_a_name_is_killed_by_its_id_and_nobody_else(
    ray_rescue: Rescue,
    ray_rescue_scene: Submitted,
    ray_cluster: Cluster,
    pids: dict[str, int],
) -> None:
    rows = {row["pid"]: row for row in ray_cluster.state("actors", state="ALIVE")}
    ident = rows[pids["unnamed"]]["actor_id"]
    assert ray_rescue(kill_actor=ident).items[0].state == "planned"
    done = ray_rescue(kill_actor=ident, yes=True)
    assert [(item.state, item.after) for item in done.items] == [("verified", "DEAD")]
    until(lambda: not os.path.exists(f"/proc/{pids['unnamed']}"), "the process of the killed actor to end")
    alive = {row["pid"] for row in ray_cluster.state("actors", state="ALIVE")}
    assert rows.keys() - alive == {pids["unnamed"]}
    with pytest.raises(ActionRefused, match="dead already"):
        ray_rescue(kill_actor=ident, yes=True)


def test_an_actor_in_its_init_is_killed(ray_rescue: Rescue, ray_rescue_scene: Submitted, ray_cluster: Cluster) -> None:
    pid = in_init(ray_cluster)
    done = ray_rescue(kill_actor="loading", yes=True)
    assert [item.state for item in done.items] == ["verified"]
    until(lambda: not os.path.exists(f"/proc/{pid}"), "its process to end")


def test_a_submitted_job_is_stopped_by_the_job_api(ray_rescue: Rescue, ray_cluster: Cluster) -> None:
    job = ray_cluster.submit("ray_leaving.py", "stay", ready="ready")
    assert "job API" in ray_rescue(stop_job=job.id).items[0].will
    assert job.status() == "RUNNING"
    done = ray_rescue(stop_job=job.id, yes=True)
    assert [(item.state, item.after) for item in done.items] == [("verified", "STOPPED")]
    with pytest.raises(ActionRefused, match="does not run"):
        ray_rescue(stop_job=job.id, yes=True)
    leftovers_are_released(ray_rescue, ray_cluster, job.job_id)


def test_a_job_that_was_not_submitted_is_ended_by_its_driver(
    ray_rescue: Rescue, ray_cluster: Cluster, start: Start
) -> None:
    driver = start("ray_leaving.py", "stay", env=ray_cluster.env, timeout_s=120)
    (job,) = [row for row in ray_cluster.state("jobs") if (row["driver_info"] or {}).get("pid") == str(driver.pid)]
    plan = ray_rescue(stop_job=job["job_id"])
    assert f"process {driver.pid}" in plan.items[0].will
    assert "SIGTERM" in plan.items[0].will
    assert driver.process.poll() is None
    done = ray_rescue(stop_job=job["job_id"], yes=True)
    assert [item.state for item in done.items] == ["verified"]
    assert driver.wait(20) != 0
    leftovers_are_released(ray_rescue, ray_cluster, job["job_id"])


def leftovers_are_released(ray_rescue: Rescue, cluster: Cluster, job_id: str) -> None:
    def left() -> dict[str, Any]:
        return {item.who.split(" ")[0]: item for item in ray_rescue().items if job_id in item.before}

    found = until(lambda: left() if len(left()) == 2 else {}, "both leftovers to be listed")
    assert found.keys() == {"keeper", "reserve"}
    assert all(item.state == "planned" for item in found.values())
    before = {row["actor_id"] for row in cluster.state("actors", state="ALIVE")}
    done = ray_rescue(release=[item.ident for item in found.values()], yes=True)
    assert {item.ident: item.state for item in done.items if item.ident in {i.ident for i in found.values()}} == {
        item.ident: "verified" for item in found.values()
    }
    assert before - {row["actor_id"] for row in cluster.state("actors", state="ALIVE")} == {found["keeper"].ident}
    assert left() == {}


def test_the_command_line_plans_does_and_says_it_in_json(
    ray_rescue_scene: Submitted,
    ray_cluster: Cluster,
    start: Start,
) -> None:
    words = [
        sys.executable,
        "-m",
        "jupyter_traindbg.cli",
        "ray-rescue",
        f"ray:@{ray_cluster.gcs}",
        "--leftovers",
        "--json",
    ]
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("RAY_")}, **ray_cluster.env}
    seen = subprocess.run(words, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert seen.returncode == 0, seen.stderr
    answer = json.loads(seen.stdout)
    assert (answer["done"], answer["action"]) == (False, "release what dead jobs left")
