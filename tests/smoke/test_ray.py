"""A Ray job that nobody prepared: from a cold shell to both of its bad workers, each with its line, and nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ray_asking import assert_names_both, settled
from ray_clusters import RAY_TEST_S, Cluster


@pytest.mark.timeout(RAY_TEST_S)
def test_both_bad_workers_are_named(ray_start: Callable[..., Cluster]) -> None:
    cluster = ray_start(num_cpus=4)
    job = cluster.submit("ray_collector.py", "--workers", "4", ready="READY")
    assert_names_both(settled(cluster, "--job", job.id), job)
    assert job.status() == "RUNNING"
