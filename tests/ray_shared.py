"""Ray clusters, and jobs on them, that tests share.

Fixtures (conftest.py has them for every test; all skip where Ray is missing, and fail in CI)::

    ray_cluster        Cluster   shared by all tests: a head of 10 CPUs and a second node of 2 ("extra": 2), dashboard, no token
    ray_token_cluster  Cluster   shared: one node of 2 CPUs with token authentication, and a client server (ray://)
    ray_collector      Submitted shared, on ray_cluster: the scene of ray_collector.py, for tests that only look
    ray_start          start_cluster, whose clusters end with the test: for tests that do harm

The shared ones start with the first test that asks and end after the last test in a row that uses any of them. A start takes 6-10 s (one
node; 3-5 s more for each further one), so share where you can; with `Submitted.stop` a test takes its own job away again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from ray_clusters import Cluster, Submitted, need_ray, start_cluster
from support import PROGRAMS

T = TypeVar("T")
_shared: dict[str, Any] = {}


def share(name: str, make: Callable[[], T]) -> T:
    """What `make` returns, made once for all tests in a row that use Ray."""
    need_ray()
    if name not in _shared:
        _shared[name] = make()
    found: T = _shared[name]
    return found


def stop_shared() -> None:
    """End the shared clusters; the next test that asks for one starts it anew."""
    clusters = [it for it in _shared.values() if isinstance(it, Cluster)]
    _shared.clear()
    with contextlib.ExitStack() as stack:  # all of them, even where one complains
        for cluster in clusters:
            stack.callback(cluster.stop)


def uses_ray(item: pytest.Item | None) -> bool:
    return any(name.startswith("ray_") for name in getattr(item, "fixturenames", ()))


def _main() -> Cluster:
    cluster = start_cluster(num_cpus=10)
    cluster.add_node(2, resources={"extra": 2})
    return cluster


@pytest.fixture
def ray_cluster() -> Cluster:
    return share("main", _main)


@pytest.fixture
def ray_token_cluster() -> Cluster:
    """What it starts for clients can be lost: see programs/lost_forks."""
    forks = {"PYTHONPATH": str(PROGRAMS / "lost_forks")}
    return share("token", lambda: start_cluster(num_cpus=2, token=True, client=True, env=forks))


@pytest.fixture
def ray_collector(ray_cluster: Cluster) -> Submitted:
    """Its workers ask for so little that there is room for other tests' on both nodes."""
    return share("collector", lambda: ray_cluster.submit("ray_collector.py", "--cpus", "0.25", ready="READY"))


def _training(cluster: Cluster) -> tuple[Submitted, Path]:
    out = cluster.session_dir / "losses"
    out.mkdir()
    return cluster.submit("ray_train_two.py", "--out", str(out), ready="READY"), out


@pytest.fixture
def ray_training(ray_cluster: Cluster) -> Iterator[tuple[Submitted, Path]]:
    """A Ray Train job of two gloo workers, and the folder that it writes its losses to. It costs half a minute: tests that leave it
    training share it.
    """
    job, out = share("training", lambda: _training(ray_cluster))
    yield job, out
    if job.status() != "RUNNING":
        shutil.rmtree(out)
        del _shared["training"]


@pytest.fixture
def ray_start() -> Iterator[Callable[..., Cluster]]:
    need_ray()
    with contextlib.ExitStack() as stack:
        yield lambda *args, **words: stack.enter_context(start_cluster(*args, **words))
