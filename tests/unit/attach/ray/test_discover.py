"""Ray workers that train are one target, their cluster; whoever is no part of one stays what it was."""

from __future__ import annotations

import dataclasses
import os

from jupyter_traindbg.attach.ray.discover import gathered, raylets
from jupyter_traindbg.model import Target
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.outside.procfs import Process

OURS = procfs.stat(os.getpid())
assert OURS is not None


def process(pid: int, parent: int) -> Process:
    return dataclasses.replace(OURS, pid=pid, parent=parent)


def target(pid: int, **words: object) -> Target:
    return Target(str(pid), pid, "process", f"python {pid}", "me", 1.0, "torch", **words)  # type: ignore[arg-type]


TABLE = {
    p.pid: p
    for p in (process(10, 1), process(11, 10), process(12, 11), process(20, 1), process(30, 1), process(31, 30))
}


def test_workers_stand_behind_their_cluster_and_the_rest_follows() -> None:
    found = gathered([target(20), target(11), target(12), target(31)], TABLE, {10: "h:1", 30: "h:2"})
    assert [(t.name, t.part_of) for t in found] == [
        ("ray:@h:1", None),
        ("11", "ray:@h:1"),
        ("12", "ray:@h:1"),
        ("ray:@h:2", None),
        ("31", "ray:@h:2"),
        ("20", None),
    ]
    assert found[0].pid == 10
    assert found[0].attachable


def test_several_jobs_of_a_cluster_are_several_targets_and_a_driver_stays_alone() -> None:
    jobs = {11: "01000000", 12: "02000000"}
    members = [target(11), target(12), target(31), target(20)]
    found = gathered(members, TABLE, {10: "h:1", 30: "h:1"}, lambda pid: jobs.get(pid, ""))
    assert [(t.name, t.part_of) for t in found] == [
        ("ray:01000000@h:1", None),
        ("11", "ray:01000000@h:1"),
        ("ray:02000000@h:1", None),
        ("12", "ray:02000000@h:1"),
        ("31", None),
        ("20", None),
    ]
    assert found[0].command == "Ray job 01000000"


def test_two_nodes_of_one_cluster_are_one_target() -> None:
    found = gathered([target(11), target(31)], TABLE, {10: "h:1", 30: "h:1"})
    assert [t.name for t in found] == ["ray:@h:1", "11", "31"]


def test_without_ray_nothing_changes() -> None:
    before = [target(20), target(11, part_of="torchrun:10")]
    assert gathered(before, TABLE, {}) == before
    assert gathered(before, TABLE, {10: "h:1"}) == before


def test_what_is_no_raylet_is_none() -> None:
    assert raylets({OURS.pid: OURS}) == {}
