"""The hook that brings an agent into every worker without ptrace, and never harms one."""

from __future__ import annotations

import pytest
from ray_clusters import Cluster, until
from support import Start

from jupyter_traindbg.attach.client import connect
from jupyter_traindbg.ray import hook as ray_hook


def workers(cluster: Cluster, start: Start, *words: str) -> list[int]:
    driver = start("ray_hooked.py", *words, env=cluster.env, timeout_s=150)
    (line,) = [line.split() for line in driver.output().splitlines() if line.startswith("pids ")]
    return [int(word) for word in line[1:]]


def test_every_worker_has_an_agent_that_nobody_injected(ray_cluster: Cluster, start: Start) -> None:
    for pid in workers(ray_cluster, start):
        client = until(lambda pid=pid: connect(pid, 20), "the agent of the hook", 30)
        try:
            info = client.call("info", {}, 20)
            assert (info["pid"], info["keep"]) == (pid, True)
            found = client.call("counters", {"names": ["self.games"]}, 20)
            assert found["actor"] is None or found["values"]["self.games"]["value"] == 5
        finally:
            client.close()


def test_a_worker_starts_although_its_hook_is_broken_and_tells_why(ray_cluster: Cluster, start: Start) -> None:
    for pid in workers(ray_cluster, start, "broken"):
        assert connect(pid) is None
        why = until(
            lambda pid=pid: ray_hook.reason(str(ray_cluster.session_dir), pid), "the reason in the worker's log"
        )
        assert "zip" in why.lower()


@pytest.mark.parametrize("pid", [1, 4_000_000])
def test_a_worker_without_the_hook_has_no_reason(ray_cluster: Cluster, pid: int) -> None:
    assert ray_hook.reason(str(ray_cluster.session_dir), pid) is None
