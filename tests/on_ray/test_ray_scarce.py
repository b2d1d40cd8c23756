"""A node that has little: two GPUs, of which all take the first, and 4 GiB."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ray_clusters import RAY_TEST_S, Cluster, until
from scarce import control_group
from support import PROGRAMS, need

from jupyter_traindbg.model import Diagnosis, RayCluster
from jupyter_traindbg.outside.raystate import read, resolve
from jupyter_traindbg.ray import diagnosing

pytestmark = pytest.mark.timeout(RAY_TEST_S)
GIB = 2**30
PATIENT_S = 30.0


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group with 4 GiB, seen as a container sees its own."""
    need("root", os.geteuid() == 0)
    with control_group(f"traindbg-ray-{os.getpid()}", 4 * GIB, swaps=False) as join:
        yield join


def test_workers_on_one_gpu_too_many_for_the_memory_and_one_killed_for_it(
    small_group: Path,
    fake_nvml: Path,
    tmp_path: Path,
    ray_start: Callable[..., Cluster],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "users").touch()
    machine = {
        "LD_LIBRARY_PATH": str(fake_nvml),
        "FAKE_NVML_USERS": str(tmp_path / "users"),
        "JOIN": str(small_group),
        "RAY_memory_usage_threshold": "0.8",  # before the kernel itself kills
    }
    cluster = ray_start(
        num_cpus=4,
        num_gpus=2,
        resources={"room": 3},
        env=machine,
        before=["sh", str(PROGRAMS / "in_control_group.sh")],
    )
    cluster.use(monkeypatch)
    one_gpu_is_used_and_the_memory_will_not_do(cluster)
    who_was_killed_for_memory_is_told_with_the_numbers(cluster)


def one_gpu_is_used_and_the_memory_will_not_do(cluster: Cluster) -> None:
    job = cluster.submit("ray_troubles.py", "one_gpu", "memory", ready="READY")

    def told() -> Diagnosis | None:
        seen = diagnosing.diagnose(f"ray:{job.id}@{cluster.gcs}", PATIENT_S)
        return seen if {"ray_same_gpu", "ray_too_many_for_memory"} <= {f.code for f in seen.findings} else None

    by_code = {f.code: f for f in until(told, "both", 90).findings}
    gpu, memory = by_code["ray_same_gpu"], by_code["ray_too_many_for_memory"]
    assert gpu.title.startswith("Loader[0-2] all load onto GPU 0 of ")
    assert "which has 2" in gpu.title
    assert set(gpu.who) == {"Loader[0]", "Loader[1]", "Loader[2]"}
    assert "together 2.6 GiB on that one device" in gpu.evidence
    assert "num_gpus=0.5)" in gpu.next_steps[0]
    assert memory.who == ("Hungry",)
    assert memory.title.startswith("9 Hungry need more memory than ")
    assert any(" of 4.0 GiB" in line for line in memory.evidence)
    fits = int(memory.title.rpartition(" ")[2])
    assert 3 <= fits <= 8
    job.stop()


def who_was_killed_for_memory_is_told_with_the_numbers(cluster: Cluster) -> None:
    job = cluster.submit("ray_ends.py", "--eat", ready="READY")

    def reported() -> RayCluster | None:
        seen = read(resolve(cluster.gcs, PATIENT_S), job.id, PATIENT_S)
        told = [event.message for event in seen.events or ()]
        return seen if any("memory" in words.lower() for words in told) else None

    found = until(reported, "the event", 90)
    (hungry,) = [actor.death for actor in found.actors if actor.name == "hungry"]
    assert hungry is not None
    assert hungry.kind == "out of memory"
    assert hungry.words.startswith("Ray killed it for memory: its node had ")
    assert "NODE_OUT_OF_MEMORY" in {process.exit_type for process in found.processes or ()}
