"""`SshJob`: the ranks of a job on hosts that ssh reaches, without Ray: ``ssh:node1,node2:torchrun``."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import (
    AmbiguousTarget,
    CannotAttach,
    DeadlineExceeded,
    NoTarget,
    TargetGone,
    TraindbgError,
    UnknownTarget,
)
from ..hosts.base import Call
from ..hosts.ssh import SshHosts, open_hosts
from ..job import DEADLINE_S
from ..language import text
from ..model import (
    GpuReport,
    JobEvidence,
    LostHost,
    Silent,
    Target,
    TargetName,
    Targets,
    hosts_named,
    hosts_written,
    parse_target,
)
from .found import Found, whole
from .job import SpreadJob
from .placed import Placed, numbered

__all__ = ["SshJob", "connect", "targets_on"]

FOUND = "jupyter_traindbg.spread.found"
THERE = ("process", "launcher", "kernel")
"""The kinds of targets that can be meant on another host."""


class SshJob(SpreadJob):
    """All of its processes are ranks. A host that cannot be reached is among the silent of every answer."""

    def __init__(self, name: str, hosts: SshHosts, job: Mapping[str, Found], lost: Mapping[str, TraindbgError]) -> None:
        placed = numbered([Placed(host, member) for host, part in job.items() for member in part.members])
        super().__init__(name, hosts, placed, {host: host for host in (*job, *lost)})
        self._lost = lost

    def _shown_host(self, placed: Placed) -> str:
        return placed.host

    def _seen_on(self, route: str, answer: Any) -> Any:
        """With the name that the person has for the host: its own may be another."""
        if isinstance(answer, JobEvidence):
            return _evidence_of(answer, route)
        return _gpus_of(answer, route) if isinstance(answer, GpuReport) else answer

    def _is_lost(self, why: TraindbgError) -> bool:
        return isinstance(why, (CannotAttach, DeadlineExceeded, TargetGone))

    def _lost_hosts(self) -> list[LostHost]:
        return [LostHost(host, why.cause) for host, why in self._lost.items()]

    def _told_by(self, route: str, error: TraindbgError) -> TraindbgError:
        """What it says of "this machine" it says of that host."""
        return _of_host(route, error)

    def _absent(self) -> list[Silent]:
        return _silences(self._lost)


def _evidence_of(evidence: JobEvidence, host: str) -> JobEvidence:
    own = {rank.host for rank in evidence.ranks if rank.host}
    return dataclasses.replace(
        evidence,
        ranks=[dataclasses.replace(r, host=host) if r.host else r for r in evidence.ranks],
        hosts=[dataclasses.replace(h, name=host) if h.name in own else h for h in evidence.hosts],
    )


def _gpus_of(report: GpuReport, host: str) -> GpuReport:
    """Every host has a GPU 0."""
    on = text("on {host}", host=host)
    return dataclasses.replace(
        report,
        devices=[dataclasses.replace(device, host=host) for device in report.devices],
        verdict=[dataclasses.replace(finding, evidence=(*finding.evidence, on)) for finding in report.verdict],
    )


def connect(named: TargetName, timeout: float = DEADLINE_S) -> SshJob:
    """The job that ``ssh:HOST,HOST:TARGET`` names; it is looked for on all hosts at once, and nothing is entered.

    Takes what ``ssh`` takes to connect and 0.5 s, where no connection is open yet. A host that cannot be reached is left out, and said.
    Raises `UnknownTarget`, `NoTarget`, `AmbiguousTarget`, and why there is no way to any of the hosts.
    """
    names = _names(named)
    hosts = open_hosts(names)
    try:
        found, lost = _look(hosts, names, named.id, timeout)
        job = _chosen(named, found, lost)
    except BaseException:
        hosts.close()
        raise
    return SshJob(str(named), hosts, job, lost)


def targets_on(named: TargetName, timeout: float = DEADLINE_S) -> Targets:
    """What can be attached to on the hosts, each by the name that it has from here. Raises why there is no way to any of them."""
    names = _names(named)
    hosts = open_hosts(names)
    try:
        calls: dict[str, Call] = {name: ((timeout,), {}) for name in names}
        answers = hosts.run_everywhere(calls, f"{FOUND}:all_targets", deadline_s=timeout)
    finally:
        hosts.close()
    found, lost = _sorted(answers)
    jobs = whole({host: parts for host, (_, parts) in found.items()})
    called = {(host, part.name): _name_of(job) for job in jobs for host, part in job.items()}
    targets = [_from_here(target, host, called) for host, (those, _) in found.items() for target in those]
    return Targets(tuple(_parts_together(targets)), tuple(found), tuple(_silences(lost)))


def _from_here(target: Target, host: str, called: Mapping[tuple[str, str], str]) -> Target:
    """By the name that it has from here: a part of a job on several hosts by that of the whole one."""

    def name(there: str) -> str:
        known = parse_target(there)
        if known is None or known.kind not in THERE:
            return there
        return called.get((host, there)) or str(TargetName("ssh", there, hosts_written([host])))

    return dataclasses.replace(target, name=name(target.name), part_of=target.part_of and name(target.part_of))


def _parts_together(targets: Sequence[Target]) -> list[Target]:
    """The launchers of one job as one, each followed by what it has."""
    heads = {target.name: target for target in reversed(targets) if target.part_of is None}
    members: dict[str | None, list[Target]] = {}
    for target in targets:
        members.setdefault(target.part_of, []).append(target)
    order = dict.fromkeys(target.name for target in targets if target.part_of is None)
    found = [one for name in order for one in (heads[name], *members.get(name, ()))]
    return found + [target for target in targets if target.part_of is not None and target.part_of not in heads]


def _names(named: TargetName) -> list[str]:
    names = hosts_named(named.address)
    if names is None:
        raise UnknownTarget(
            text("{hosts!r} names no hosts", hosts=named.address),
            text("write ssh:HOST:TARGET or ssh:HOST,HOST:TARGET, each HOST as `ssh` takes it"),
        )
    return names


def _look(
    hosts: SshHosts, names: Sequence[str], wanted: str, timeout: float
) -> tuple[dict[str, list[Found]], dict[str, TraindbgError]]:
    """What each host has of what is wanted, and why some say nothing. Raises the first reason where none says anything."""
    concrete = parse_target(wanted)
    if concrete is not None and concrete.pid is not None and len(names) > 1:
        wanted = ""  # a pid is one on one of them: what goes with it elsewhere is to be found as well
    calls: dict[str, Call] = {name: ((wanted, timeout), {}) for name in names}
    answers = hosts.run_everywhere(calls, f"{FOUND}:jobs", deadline_s=timeout)
    if len(names) > 1:
        answers = {name: [] if isinstance(answer, NoTarget) else answer for name, answer in answers.items()}
    return _sorted(answers)


def _sorted(answers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, TraindbgError]]:
    """What hosts answered, and why others did not. Raises the first reason where none did."""
    found = {name: answer for name, answer in answers.items() if not isinstance(answer, TraindbgError)}
    lost = {name: answer for name, answer in answers.items() if isinstance(answer, TraindbgError)}
    if not found:
        raise _of_host(*next(iter(lost.items())))
    return found, lost


def _of_host(host: str, error: TraindbgError) -> TraindbgError:
    """An error that says on which host it was."""
    if re.search(rf"(?<!\w){re.escape(host)}(?!\w)", error.cause):
        return error
    told = copy.copy(error)
    told.cause = text("{host}: {cause}", host=host, cause=error.cause)
    return told


def _silences(lost: Mapping[str, TraindbgError]) -> list[Silent]:
    """One for each host, whichever ranks are there."""
    return [Silent(None, 0, why.cause, why.next_step, host) for host, why in lost.items()]


def _chosen(
    named: TargetName, found: Mapping[str, Sequence[Found]], lost: Mapping[str, TraindbgError]
) -> Mapping[str, Found]:
    """The one job that is meant: its parts by their hosts. Raises `NoTarget` or `AmbiguousTarget`."""
    jobs = whole(found)
    concrete = parse_target(named.id)
    if concrete is not None and concrete.pid is not None:
        jobs = [job for job in jobs if any(_is_meant(part, concrete) for part in job.values())]
    if len(jobs) == 1:
        return jobs[0]
    hosts = text(", ").join(found)
    if jobs:
        candidates = {_name_of(job): next(iter(job.values())).command for job in jobs}
        raise AmbiguousTarget(
            text("there are {count} jobs to choose from on {hosts}", count=len(jobs), hosts=hosts),
            candidates=candidates,
        )
    what = named.id or text("training")
    raise NoTarget(
        text("; ").join(
            [text("there is no {what} on {hosts}", what=what, hosts=hosts), *(why.cause for why in lost.values())]
        ),
        text("`traindbg targets {target}` shows what there is", target=str(TargetName("ssh", "", named.address))),
    )


def _is_meant(part: Found, concrete: TargetName) -> bool:
    return part.name == str(concrete) or concrete.pid in [member.pid for member in part.members]


def _name_of(job: Mapping[str, Found]) -> str:
    return str(TargetName("ssh", next(iter(job.values())).name, hosts_written(list(job))))
