"""Who waits for whom in a Ray job: each scene of ray_waits.py on a real cluster, asked as a person asks, and the end of its waits named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from ray_asking import run
from ray_clusters import RAY_TEST_S, Cluster, Job, line_of, until
from support import need

pytestmark = pytest.mark.timeout(RAY_TEST_S)
PROGRAM = "ray_waits.py"


class Told(NamedTuple):
    """What the first finding has to say; ``mark`` is the one of its line. ``call``: the last one that Ray has to know of before."""

    call: str
    code: str
    who: tuple[str, ...]
    mark: str
    says: str
    state: str = "stuck"


STUCK = {
    "asks": Told("Reward.score", "python_wait", ("rank 0", "Reward[0]"), "SCORES", "Reward[0] "),
    "asks_async": Told(
        "AsyncReward.score", "python_wait", ("rank 0", "AsyncReward[0]"), "AWAITS", "waits for Event.wait"
    ),
    "asks_queue": Told("_QueueActor.get", "python_wait", ("rank 0", "_QueueActor[0]"), "TAKES", "waits for Queue.get"),
    "asks_http": Told("Trainer.train", "io_wait", ("rank 0", "Engine[0]"), "SLEEPS", "Engine[0] "),
    "asks_on": Told("Reward.score", "io_wait", ("rank 0", "Reward[0]"), "SCORES", "Reward[0] "),
    "crossed": Told("Engine.take_weights", "process_deadlock", ("rank 0", "Engine[0]"), "GIVES", "wait for each other"),
    "raised": Told("Trainer.train", "ray_call_failed", ("Trainer[1]",), "RAISES", "ValueError: no such sample"),
    "in_ray_train": Told("Reward.score", "python_wait", ("rank 1", "reward"), "SCORES", "reward "),
    "ring": Told("Rollout.receive", "process_deadlock", ("Rollout[0]", "Rollout[1]"), "BETWEEN", "wait for each other"),
    "task": Told("inner", "ray_worker_stuck", ("inner",), "INNER", "driver waits for it"),
    "rests": Told("Reward.score", "ray_worker_stuck", ("Reward[0]",), "SCORES", "driver waits for it", "not known"),
    "chain": Told("Reward.score", "ray_worker_stuck", ("Reward[0]",), "SCORES", "driver waits for it", "not known"),
    "http": Told("Rollout.post", "ray_worker_stuck", ("Engine[0]",), "SLEEPS", "driver waits for it", "not known"),
}


@pytest.fixture
def scene(ray_cluster: Cluster) -> Iterator[Callable[[str, str], Job]]:
    """Starts one, and waits until Ray tells of the `call`: of one that began just now it would hear during the look only."""
    jobs: list[Job] = []

    def start(name: str, call: str) -> Job:
        jobs.append(job := ray_cluster.drive(PROGRAM, name, ready="READY", timeout_s=150))
        until(lambda: ray_cluster.state("tasks", job_id=job.id, name=call), f"Ray to tell of {call}")
        return job

    yield start
    for job in jobs:
        job.stop()


def diagnosed(job: Job, status: int) -> dict[str, Any]:
    """Nodes report every 15 s how many calls have ended: until the first ones have been counted, the job may seem to get on."""
    command = ("diagnose", f"ray:{job.id}", "--json", "--timeout", "20")
    answers: list[tuple[int, str, str]] = []
    until(lambda: answers.append(run(job.cluster, *command)) or answers[-1][0] == status, f"exit status {status}", 60)
    told: dict[str, Any] = json.loads(answers[-1][1])
    return told


@pytest.mark.parametrize("name", STUCK)
def test_the_end_of_the_waits_is_named_with_its_line(name: str, scene: Callable[[str, str], Job]) -> None:
    expected = STUCK[name]
    told = diagnosed(scene(name, expected.call), 1)
    first = told["findings"][0]
    assert (first["code"], tuple(first["who"]), told["state"]) == (expected.code, expected.who, expected.state), told
    assert f"/{PROGRAM}:{line_of(PROGRAM, expected.mark)} " in first["where"], first
    assert expected.says in first["title"], first
    assert not [f for f in told["findings"][1:] if f["severity"] == "critical"], told["findings"]


def test_it_is_followed_to_another_node(ray_start: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes have numbers of their own there, so that only a helper on that node can look at them."""
    need("root and unshare, for a host of its own", os.geteuid() == 0 and shutil.which("unshare") is not None)
    cluster = ray_start(num_cpus=4, resources={"near": 1})
    cluster.add_host(1, resources={"far": 1})
    cluster.use(monkeypatch)
    for name in ("asks", "chain"):
        job = cluster.drive(PROGRAM, name, "--far", ready="READY", timeout_s=150)
        try:
            is_followed_far(cluster, job, STUCK[name])
        finally:
            job.stop()


def is_followed_far(cluster: Cluster, job: Job, expected: Told) -> None:
    until(lambda: cluster.state("tasks", job_id=job.id, name="Reward.score"), "Ray to tell of Reward.score")
    told = diagnosed(job, 1)
    first = told["findings"][0]
    assert (first["code"], tuple(first["who"])) == (expected.code, expected.who), told
    assert f"/{PROGRAM}:{line_of(PROGRAM, 'SCORES')} " in first["where"], first
    assert any("Reward[0] (process " in line and " on node " in line for line in first["evidence"]), first


def test_where_the_called_one_computes_nothing_is_stuck(scene: Callable[[str, str], Job]) -> None:
    told = diagnosed(scene("asks_busy", "BusyReward.score"), 1)
    assert told["state"] == "progressing", told
    assert [f["code"] for f in told["findings"]] == ["cpu_phase"], told["findings"]
    assert any("BusyReward[0]" in line for line in told["findings"][0]["evidence"]), told["findings"]


def test_of_a_server_it_is_not_known_whether_it_is_stuck(scene: Callable[[str, str], Job]) -> None:
    told = diagnosed(scene("serves", "Rollout.wait_for_work"), 3)
    assert (told["state"], told["findings"]) == ("not known", []), told
    led = f"driver waits, in the end, for Rollout[0], which waits for an item from a queue at {PROGRAM}:{line_of(PROGRAM, 'SERVES')} "
    assert any(why.startswith(led) for why in told["why"]), told["why"]
