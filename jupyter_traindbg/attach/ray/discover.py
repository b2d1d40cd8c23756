"""Ray jobs among the targets of this host: processes that train below a raylet are parts of one target, ``ray:@ADDRESS``, and so is
the program that drives them.

Where a cluster runs several jobs that train, each is a target, ``ray:JOB@ADDRESS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...model import Target, TargetName, parse_cluster
from ...outside import procfs
from ...outside.procfs import Process
from ...outside.raystate.local import clusters as clusters_here
from ...outside.raystate.membership import Membership, membership

__all__ = ["gathered", "raylets"]


def raylets(table: Mapping[int, Process]) -> dict[int, str]:
    """The raylets of this host, by pid, with the address of the GCS of their cluster."""
    found = {}
    for process in table.values():
        if process.comm == "raylet" and process.state not in "ZX":
            told = (word.partition("=") for word in procfs.command(process.pid))
            gcs = next((value for name, _, value in told if name == "--gcs-address"), "")
            if gcs:
                found[process.pid] = gcs
    return found


def gathered(
    targets: Sequence[Target],
    table: Mapping[int, Process],
    raylets: Mapping[int, str],
    member_of: Callable[[int], Membership | None] | None = None,
) -> list[Target]:
    """The `targets` with those below a raylet, and their drivers, behind one for their job, and the rest as they were.

    `member_of` tells the job that a process takes part in; one of which that is not known belongs to none of several.
    """
    if not raylets:
        return list(targets)
    member_of = partial(membership, known=clusters_here(everyones=True)) if member_of is None else member_of
    above = {target.pid: _raylet_above(target.pid, table, raylets) for target in targets if target.part_of is None}
    clusters: dict[str, list[Target]] = {}
    for target in targets:
        if target.kind != "kernel" and (raylet := above.get(target.pid)) is not None:
            clusters.setdefault(raylets[raylet], []).append(target)
    known = {member.pid: member_of(member.pid) for members in clusters.values() for member in members}
    for target in targets if clusters else ():
        if (
            above.get(target.pid, 0) is None
            and (drives := member_of(target.pid)) is not None
            and drives.address in clusters
        ):
            clusters[drives.address].insert(0, target)
            known[target.pid] = drives
    found = []
    grouped: set[int] = set()
    for gcs, members in clusters.items():
        raylet = next(pid for member in members if (pid := above[member.pid]) is not None)
        for name, own in _jobs(gcs, members, known).items():
            grouped |= {id(member) for member in own}
            found += [_whole(name, raylet, table, own), *(replace(member, part_of=name) for member in own)]
    return found + [target for target in targets if id(target) not in grouped]


def _jobs(gcs: str, members: Sequence[Target], known: Mapping[int, Membership | None]) -> dict[str, list[Target]]:
    """The members by the target that they belong to; of several jobs, those of none are left out."""
    ids = {m.pid: "" if (ray := known[m.pid]) is None else ray.job_id for m in members}
    if len(set(ids.values()) - {""}) < 2:
        return {str(TargetName("ray", address=gcs)): list(members)}
    jobs: dict[str, list[Target]] = {}
    for member in members:
        if ids[member.pid]:
            jobs.setdefault(str(TargetName("ray", ids[member.pid], gcs)), []).append(member)
    return jobs


def _raylet_above(pid: int, table: Mapping[int, Process], raylets: Mapping[int, str]) -> int | None:
    seen = set()
    while pid in table and pid not in seen:
        if pid in raylets:
            return pid
        seen.add(pid)
        pid = table[pid].parent
    return None


def _whole(name: str, raylet: int, table: Mapping[int, Process], members: Sequence[Target]) -> Target:
    job = parse_cluster(name).id
    return Target(
        name=name,
        pid=raylet,
        kind="launcher",
        command=f"Ray job {job}" if job else "a Ray cluster",
        user=members[0].user,
        running_s=procfs.running_s(table[raylet]),
        framework=members[0].framework,
        agent=all(member.agent for member in members),
    )
