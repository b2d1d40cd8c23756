"""What a person does who finds a Ray job stuck: one command, from a cold shell or a real kernel, on clusters to which things happen.

What the verbs say of each kind of trouble is tested in test_ray_diagnose.py, a job's questions and changes in test_ray_job.py.
"""

from __future__ import annotations

import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from kernels import Kernel
from ray_asking import assert_names_both, run, settled, workers
from ray_clusters import Cluster, Submitted, living_helpers, until

HELPER = "ray::TraindbgHelper"
HERE_TOO = {"TRAINDBG_RAY_HELPERS": "always"}
"""Helpers on this machine as well, which need none."""


def test_one_command_from_a_cold_shell_names_both_bad_workers(ray_collector: Submitted) -> None:
    found = settled(ray_collector.cluster, "--job", ray_collector.id)
    assert_names_both(found, ray_collector)
    assert len([row for row in found["workers"] if row["kind"] == "actor"]) == 8


@pytest.mark.parametrize("way", ["auto", "gcs", "dashboard"])
def test_every_form_of_the_address_leads_there(ray_collector: Submitted, way: str) -> None:
    cluster = ray_collector.cluster
    address = {"auto": "auto", "gcs": cluster.gcs, "dashboard": cluster.dashboard}[way]
    found = workers(
        cluster, f"ray:{ray_collector.id}@{address}", "--tier", "0", env={} if way == "auto" else {"RAY_ADDRESS": ""}
    )
    assert found["address"] == cluster.gcs
    assert len(found["workers"]) == 9  # with the driver


def test_a_client_address_and_a_token(ray_token_cluster: Cluster) -> None:
    cluster = ray_token_cluster
    for address in (cluster.client, cluster.gcs, cluster.dashboard):
        found = workers(cluster, address, "--tier", "0")
        assert [node["node_id"] for node in found["nodes"]] == [cluster.nodes[0].node_id]
    for wrong in ({"RAY_AUTH_TOKEN": "0" * 64}, {"RAY_AUTH_MODE": "", "RAY_AUTH_TOKEN": "", "HOME": "/nonexistent"}):
        for verb in ("ray-workers", "diagnose", "stacks"):
            target = cluster.gcs if verb == "ray-workers" else f"ray:@{cluster.gcs}"
            status, said, error = run(cluster, verb, target, env=wrong)
            assert (status, said, error.count("\n")) == (3, "", 1), error
            assert "token" in error
            assert cluster.token not in error
            assert "RAY_AUTH_TOKEN" in error


@pytest.fixture
def notebook(ray_collector: Submitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A kernel of its own, whose every look goes through helpers."""
    ray_collector.cluster.use(monkeypatch)
    for name, value in HERE_TOO.items():
        monkeypatch.setenv(name, value)
    kernel = Kernel(sys.executable, tmp_path, uuid.uuid4().hex)
    yield kernel
    kernel.close()


def listening(pid: int) -> list[Any]:
    return [c for c in psutil.Process(pid).net_connections(kind="inet") if c.status == psutil.CONN_LISTEN]


def test_a_notebook_that_is_killed_leaves_nothing_and_the_job_goes_on(
    ray_collector: Submitted, notebook: Kernel
) -> None:
    """From a cold notebook; killed in the midst of watching, with helpers at work."""
    cluster = ray_collector.cluster
    before = cluster.processes()
    notebook.value("%load_ext traindbg")
    found = notebook.value(f"found = %ray_workers --job {ray_collector.id} --timeout 30")
    assert "ray_collector.py" in found or "SelfPlayWorker" in notebook.value("print(found)")
    notebook.run(f"%ray_workers --job {ray_collector.id} --watch --every 0.5 --timeout 30")
    helpers = until(
        lambda: [pid for pid, command in cluster.processes().items() if command.startswith(HELPER)], "helpers"
    )
    ordinary = int(ray_collector.said("deadlocked")[2])
    assert all(len(listening(pid)) <= len(listening(ordinary)) for pid in helpers)  # what Ray itself opens in a worker
    assert all(
        c.laddr.ip in ("127.0.0.1", "::ffff:127.0.0.1", "::", "0.0.0.0", "::1")
        for pid in helpers
        for c in listening(pid)
    )

    notebook.kill()

    def left() -> list[str]:
        """Of ours: Ray itself starts idle workers as it likes."""
        new = [command for pid, command in cluster.processes().items() if pid not in before]
        return [command for command in new if "traindbg" in command.lower() or "py-spy" in command]

    try:
        until(lambda: not left(), "the end of what the notebook brought", 15)
    except AssertionError as late:
        raise AssertionError(left()) from late
    until(
        lambda: not living_helpers(cluster), "Ray's word that they are dead, which comes after their processes' end", 15
    )
    assert not list(cluster.session_dir.glob("traindbg-*"))
    assert ray_collector.status() == "RUNNING"
    healthy = [int(line.split()[2]) for line in ray_collector.output().splitlines() if line.startswith("healthy")]
    moved = {pid: psutil.Process(pid).cpu_times().user for pid in healthy}
    until(
        lambda: all(psutil.Process(pid).cpu_times().user > moved[pid] for pid in healthy), "the healthy ones to play on"
    )
    assert_names_both(settled(cluster, "--job", ray_collector.id), ray_collector)


def test_what_does_not_answer_is_told_in_one_line(ray_cluster: Cluster) -> None:
    with socket.socket() as silent:  # accepts, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for address in (
            f"127.0.0.1:{silent.getsockname()[1]}",
            f"http://127.0.0.1:{silent.getsockname()[1]}",
            "127.0.0.1:9",
        ):
            status, said, error = run(ray_cluster, "ray-workers", address, "--timeout", "5")
            assert (status, said, error.count("\n")) == (3, "", 1), error
