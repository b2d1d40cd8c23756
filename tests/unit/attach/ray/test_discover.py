"""Ray workers that train are one target, their cluster; whoever is no part of one stays what it was."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

from jupyter_traindbg.attach.ray.discover import gathered, raylets
from jupyter_traindbg.model import Target
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.outside.procfs import Process
from jupyter_traindbg.outside.raystate.membership import Membership

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


def of(jobs: dict[int, str], *drivers: int) -> Callable[[int], Membership | None]:
    return lambda pid: Membership("h:1", jobs[pid], driver=pid in drivers) if pid in jobs else None


def test_several_jobs_of_a_cluster_are_several_targets_and_who_is_of_none_stays_alone() -> None:
    members = [target(11), target(12), target(31), target(20)]
    found = gathered(members, TABLE, {10: "h:1", 30: "h:1"}, of({11: "01000000", 12: "02000000", 31: ""}))
    assert [(t.name, t.part_of) for t in found] == [
        ("ray:01000000@h:1", None),
        ("11", "ray:01000000@h:1"),
        ("ray:02000000@h:1", None),
        ("12", "ray:02000000@h:1"),
        ("31", None),
        ("20", None),
    ]
    assert found[0].command == "Ray job 01000000"


def test_the_driver_of_a_job_is_the_first_of_its_processes() -> None:
    members = [target(11), target(20, part_of=None), target(12)]
    found = gathered(members, TABLE, {10: "h:1"}, of({11: "01000000", 12: "01000000", 20: "01000000"}, 20))
    assert [(t.name, t.part_of) for t in found] == [("ray:@h:1", None), *((str(n), "ray:@h:1") for n in (20, 11, 12))]
    assert found[0].pid == 10


def test_a_kernel_that_drives_a_job_belongs_to_it_and_a_rank_that_has_a_job_of_its_own_does_not() -> None:
    kernel, rank = dataclasses.replace(target(20), kind="kernel"), target(12, part_of="torchrun:5")
    found = gathered(
        [target(11), kernel, rank], TABLE, {10: "h:1"}, of(dict.fromkeys((11, 12, 20), "01000000"), 12, 20)
    )
    assert [(t.name, t.part_of) for t in found] == [
        ("ray:@h:1", None),
        ("20", "ray:@h:1"),
        ("11", "ray:@h:1"),
        ("12", "torchrun:5"),
    ]


def test_a_driver_whose_workers_do_not_train_stays_what_it_is() -> None:
    assert gathered([target(20)], TABLE, {10: "h:1"}, of({20: "01000000"}, 20)) == [target(20)]


def test_two_nodes_of_one_cluster_are_one_target() -> None:
    found = gathered([target(11), target(31)], TABLE, {10: "h:1", 30: "h:1"})
    assert [t.name for t in found] == ["ray:@h:1", "11", "31"]


def test_without_ray_nothing_changes() -> None:
    before = [target(20), target(11, part_of="torchrun:10")]
    assert gathered(before, TABLE, {}) == before
    assert gathered(before, TABLE, {10: "h:1"}) == before


def test_what_is_no_raylet_is_none() -> None:
    assert raylets({OURS.pid: OURS}) == {}
