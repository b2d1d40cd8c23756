"""The scene of tests/programs/ray_rescue_scene.py in the shared cluster, and questions to the agents in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ray_clusters import Cluster, Submitted, until
from ray_shared import share

from jupyter_traindbg.attach import process
from jupyter_traindbg.attach.client import AgentClient

SCENE = "ray_rescue_scene.py"
ASK_S = 30.0


@pytest.fixture
def ray_rescue_scene(ray_cluster: Cluster) -> Submitted:
    """The job of actors in every state; tests that end a method take one each."""
    return share("ray_rescue_scene", lambda: ray_cluster.submit(SCENE, ready="ready", timeout_s=200))


@pytest.fixture
def pids(ray_rescue_scene: Submitted) -> dict[str, int]:
    (line,) = [line for line in ray_rescue_scene.output().splitlines() if line.startswith("{")]
    found: dict[str, int] = json.loads(line)
    return found


@contextmanager
def entered(pid: int) -> Iterator[AgentClient]:
    client = process.enter(pid, ASK_S).client
    try:
        yield client
    finally:
        client.call("leave", {}, ASK_S)
        client.await_hang_up()
        client.close()


def ask(pid: int, probe: str, **params: Any) -> Any:
    with entered(pid) as client:
        return client.call(probe, params, ASK_S)


def in_init(cluster: Cluster) -> int:
    def found() -> int:
        return next((int(row["pid"]) for row in cluster.state("actors") if row["name"] == "loading"), 0)

    return until(found, "the process of the actor in __init__")
