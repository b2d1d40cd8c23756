"""Ray clusters, and jobs on them, that tests share.

Fixtures (conftest.py has them for every test; all skip where Ray is missing, and fail in CI)::

    ray_cluster        Cluster   shared by all tests: a head of 10 CPUs and a second node of 2 ("extra": 2), dashboard, no token
    ray_token_cluster  Cluster   shared: one node of 2 CPUs with token authentication, and a client server (ray://)
    ray_collector      Submitted shared, on ray_cluster: the scene of ray_collector.py, for tests that only look
    ray_start          start_cluster, whose clusters end with the test: for tests that do harm

The shared ones start with the first test that asks and end after the last test in a row that does: what runs on beside others' tests
costs them time. `in_turn` puts tests of one scene side by side, and together where several pytests share the work (``pytest -n 2 --dist
loadgroup``: half of it is waiting for processes to come up). A start takes 4-10 s, so share where you can; with `Submitted.stop` a test
takes its own job away again.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from ray_clusters import Cluster, Job, Submitted, need_ray, start_cluster
from support import PROGRAMS

T = TypeVar("T")
_shared: dict[str, tuple[Any, tuple[Cluster | Job, ...]]] = {}
"""By the name of its fixture: what was made, and what of it has to be stopped."""
SCENES = (
    "ray_start",
    "ray_token_cluster",
    "ray_cluster",
    "ray_collector",
    "at_once",
    "ray_training",
    "ray_rescue_scene",
    "ends",
    "troubles",  # of which the cluster still tells when they are over
)
"""The fixtures that set them, in the order of their tests."""


def share(fixture: str, make: Callable[[], T]) -> T:
    """What `make` returns, made once for all tests in a row that use the fixture of that name."""
    need_ray()
    if fixture not in _shared:
        made = make()
        parts = made.values() if isinstance(made, dict) else made if isinstance(made, tuple) else (made,)
        _shared[fixture] = made, tuple(part for part in parts if isinstance(part, (Cluster, Job)))
    found: T = _shared[fixture][0]
    return found


def stop_unneeded(following: pytest.Item | None) -> None:
    """End what the `following` test does not share, all of it, even where one complains: a test without Ray wants the cores for itself."""
    over = [fixture for fixture in _shared if fixture not in _fixtures(following)]
    parts = [part for fixture in over for part in _shared.pop(fixture)[1]]
    with contextlib.ExitStack() as stack:
        for part in reversed(parts):  # the cluster, which was made first, before its jobs
            stack.callback(_stop, part)


def _stop(part: Cluster | Job) -> None:
    if not isinstance(part, Submitted) or not part.cluster.stopped:
        part.stop()


def uses_ray(item: pytest.Item) -> bool:
    return any(name.startswith("ray_") for name in _fixtures(item))


def in_turn(items: list[pytest.Item]) -> None:
    """Sort the tests of tests/on_ray by the scene that they share; those that start clusters of their own come first, each alone."""
    places = [place for place, item in enumerate(items) if item.path.parent.name == "on_ray"]
    by_scene = sorted((items[place] for place in places), key=_scene)
    for place, item in zip(places, by_scene, strict=True):
        items[place] = item
        alone = "ray_start" in _fixtures(item)
        item.add_marker(pytest.mark.xdist_group(item.name if alone else f"scene {_scene(item)}"))


def _scene(item: pytest.Item) -> int:
    return max((SCENES.index(name) for name in _fixtures(item) if name in SCENES), default=-1)


def _fixtures(item: pytest.Item | None) -> tuple[str, ...]:
    return tuple(getattr(item, "fixturenames", ()))


def _main() -> Cluster:
    cluster = start_cluster(num_cpus=10)
    cluster.add_node(2, resources={"extra": 2})
    return cluster


@pytest.fixture
def ray_cluster() -> Cluster:
    return share("ray_cluster", _main)


@pytest.fixture
def ray_token_cluster() -> Cluster:
    """What it starts for clients can be lost: see programs/lost_forks."""
    forks = {"PYTHONPATH": str(PROGRAMS / "lost_forks")}
    return share("ray_token_cluster", lambda: start_cluster(num_cpus=2, token=True, client=True, env=forks))


@pytest.fixture
def ray_collector(ray_cluster: Cluster) -> Submitted:
    """Its workers ask for so little that there is room for other tests' on both nodes."""
    return share("ray_collector", lambda: ray_cluster.submit("ray_collector.py", "--cpus", "0.25", ready="READY"))


def _training(cluster: Cluster) -> tuple[Submitted, Path]:
    out = Path(tempfile.mkdtemp(prefix="losses-", dir=cluster.session_dir))
    return cluster.submit("ray_train_two.py", "--out", str(out), "--sleep", "0.05", ready="READY"), out


@pytest.fixture
def ray_training(ray_cluster: Cluster) -> Iterator[tuple[Submitted, Path]]:
    """A Ray Train job of two gloo workers, and the folder that it writes its losses to. It costs half a minute: tests that leave it
    training share it.
    """
    job, out = share("ray_training", lambda: _training(ray_cluster))
    yield job, out
    if job.status() != "RUNNING":
        shutil.rmtree(out)
        del _shared["ray_training"]


@pytest.fixture
def ray_start() -> Iterator[Callable[..., Cluster]]:
    need_ray()
    with contextlib.ExitStack() as stack:
        yield lambda *args, **words: stack.enter_context(start_cluster(*args, **words))
