"""Nodes of this machine are looked at from here, by the same calls that go to helpers elsewhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from jupyter_traindbg.attach.ray import hosts as module
from jupyter_traindbg.attach.ray.hosts import HELPERS, RayHosts, open_hosts
from jupyter_traindbg.errors import DeadlineExceeded, MissingPiece, TargetGone
from jupyter_traindbg.model import RayNode
from jupyter_traindbg.outside import standing
from jupyter_traindbg.outside.raystate import ClusterAddress

ADDRESS = ClusterAddress("10.255.0.1:6379", "")
HERE, THERE = (RayNode(c * 8, "10.255.0.1", c, True, True) for c in "ab")
EXISTS = "jupyter_traindbg.outside.procfs:exists"


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[RayHosts]:
    monkeypatch.delenv(HELPERS, raising=False)
    monkeypatch.setattr(module, "nodes_here", lambda: frozenset({HERE.node_id}))
    monkeypatch.setattr(module, "_known", {})
    opened = open_hosts(ADDRESS, [HERE])
    yield opened
    opened.end()


def test_a_node_here_needs_no_broker(hosts: RayHosts) -> None:
    assert hosts.is_here(HERE.node_id)
    assert hosts.run(HERE.node_id, EXISTS, os.getpid(), deadline_s=10) is True
    assert hosts.run_everywhere({HERE.node_id: ((2**22 + 1,), {})}, EXISTS, deadline_s=10) == {HERE.node_id: False}
    with pytest.raises(TargetGone):
        hosts.run(HERE.node_id, "jupyter_traindbg.attach.process:link", 2**22 + 1, deadline_s=10)
    assert not hosts.broker.alive
    assert hosts.tier == ("1 node of this machine: looked at from here",)


@pytest.mark.timeout(30)
def test_what_hangs_costs_its_deadline(hosts: RayHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(standing, "look", released.wait)
    try:
        with pytest.raises(DeadlineExceeded):
            hosts.run(HERE.node_id, "jupyter_traindbg.outside.standing:look", deadline_s=0.3)
    finally:
        released.set()


def test_a_cluster_has_one_that_knows_all_nodes_that_anybody_has_opened(hosts: RayHosts) -> None:
    assert open_hosts(ADDRESS, [THERE]) is hosts
    assert hosts.is_here(HERE.node_id)
    assert not hosts.is_here(THERE.node_id)
    assert hosts.tier[1].startswith("1 node through a helper actor")


def test_helpers_can_be_forced(hosts: RayHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HELPERS, "always")
    assert not open_hosts(ADDRESS, [HERE]).is_here(HERE.node_id)


def test_without_ray_another_node_is_told_how_to_get_it(hosts: RayHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    open_hosts(ADDRESS, [THERE])
    with pytest.raises(MissingPiece, match="pip install"):
        hosts.run(THERE.node_id, EXISTS, 1, deadline_s=5)
    answers = hosts.run_everywhere({HERE.node_id: ((1,), {}), THERE.node_id: ((1,), {})}, EXISTS, deadline_s=5)
    assert answers[HERE.node_id] is True
    assert isinstance(answers[THERE.node_id], MissingPiece)
