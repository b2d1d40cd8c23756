"""`RemoteJob`: the ranks of a job on other hosts, without Ray: ``ssh:node1,node2:torchrun``, ``slurm:4242``."""

from __future__ import annotations

import copy
import dataclasses
import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from ..hosts import slurm, ssh
from ..hosts.base import Call
from ..hosts.remote import RemoteHosts
from ..job import DEADLINE_S
from ..language import text
from ..model import (
    Ending,
    GpuReport,
    HostPid,
    JobEvidence,
    JobProcess,
    LostHost,
    Problem,
    Silent,
    Target,
    TargetName,
    Targets,
    hosts_named,
    hosts_written,
    names_slurm_job,
    parse_target,
)
from .found import Found, whole
from .job import SpreadJob
from .placed import Placed, numbered

__all__ = ["NamedHosts", "RemoteJob", "connect", "targets_on"]

FOUND = "jupyter_traindbg.spread.found"
LOOK_S = 2.0
THERE = ("process", "launcher", "kernel")
"""The kinds of targets that can be meant on another host."""


@dataclass(frozen=True)
class NamedHosts:
    """The hosts that a target names, open. ``typed``: the target; ``name``: the same, exactly. ``within``: the numbers of
    the Slurm job that alone is meant; empty for whatever runs there. ``logs``: where that writes.
    """

    typed: TargetName
    name: TargetName
    hosts: RemoteHosts
    host_names: Sequence[str]
    within: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()

    def called(self, part: str, where: Sequence[str]) -> str:
        """What is `part` as a target on the hosts `where`, from here."""
        return str(TargetName(self.name.kind, part, self.name.address if self.within else hosts_written(where)))

    def ask(self, function: str, timeout: float, *args: Any, of: Sequence[str] | None = None) -> dict[str, Any]:
        """What a function of `FOUND` says on each host, or on some."""
        call: Call = ((*args, timeout, self.within), {})
        calls = dict.fromkeys(self.host_names if of is None else of, call)
        return self.hosts.run_everywhere(calls, f"{FOUND}:{function}", deadline_s=timeout)


class RemoteJob(SpreadJob):
    """All of its processes are ranks. A host that cannot be reached is among the silent of every answer."""

    def __init__(self, there: NamedHosts, job: Mapping[str, Found], lost: Mapping[str, TraindbgError]) -> None:
        """`job`: its part on each host that has one; `lost`: why others say nothing."""
        placed = numbered([Placed(host, member) for host, part in job.items() for member in part.members])
        super().__init__(str(there.name), there.hosts, placed, {host: host for host in (*job, *lost)})
        self._there, self._lost = there, lost
        self._bystanders = [host for host in there.host_names if host not in job and host not in lost]

    def _gathered(
        self, placed: Sequence[Placed], timeout: float, processes: Mapping[HostPid, JobProcess]
    ) -> JobEvidence:
        """Ranks that no host has have ended, where one was named that nothing trains on."""
        evidence = super()._gathered(placed, timeout, processes)
        all_known = all(rank.pid or rank.ending is not None for rank in evidence.ranks)
        if all_known or not self._bystanders or evidence.lost_hosts:
            return evidence
        answers = self._there.ask("all_targets", LOOK_S, of=self._bystanders)
        if any(isinstance(answer, TraindbgError) or answer[0] for answer in answers.values()):
            return evidence  # something starts there, or belongs to another job
        said = text("nothing that trains is left on {hosts}", hosts=hosts_written(self._bystanders))
        host = self._bystanders[0] if len(self._bystanders) == 1 else ""
        ranks = [
            rank
            if rank.pid or rank.ending is not None
            else dataclasses.replace(rank, host=host, ending=Ending(0, evidence=(said,)))
            for rank in evidence.ranks
        ]
        return dataclasses.replace(evidence, ranks=tuple(ranks))

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

    def _left_logs(self) -> Sequence[str]:
        """Where a Slurm job writes: a file that is here as well, mostly."""
        return [glob.escape(log) for log in dict.fromkeys(log for p in self._placed for log in p.member.logs)]


def _evidence_of(evidence: JobEvidence, host: str) -> JobEvidence:
    own = {rank.host for rank in evidence.ranks if rank.host}
    return dataclasses.replace(
        evidence,
        ranks=[dataclasses.replace(r, host=host) if r.host else r for r in evidence.ranks],
        hosts=[dataclasses.replace(h, name=host) if h.name in own else h for h in evidence.hosts],
        beside={host if name in own else name: known for name, known in evidence.beside.items()},
    )


def _gpus_of(report: GpuReport, host: str) -> GpuReport:
    """Every host has a GPU 0, and a "this machine"."""
    on = text("on {host}", host=host)
    problem = report.problem
    if problem is not None:
        problem = Problem(text("{host}: {cause}", host=host, cause=problem.cause), problem.next_step)
    return dataclasses.replace(
        report,
        problem=problem,
        devices=[dataclasses.replace(device, host=host) for device in report.devices],
        verdict=[dataclasses.replace(finding, evidence=(*finding.evidence, on)) for finding in report.verdict],
    )


def connect(named: TargetName, timeout: float = DEADLINE_S) -> RemoteJob:
    """The job that ``ssh:HOST,HOST:TARGET`` or ``slurm:JOB:TARGET`` names; it is looked for on all hosts at once, and nothing is entered.

    Takes what ``ssh`` or ``srun`` takes to connect and 0.5 s, where no connection is open yet. A host that cannot be reached is left out,
    and said. Raises `UnknownTarget`, `NoTarget`, `AmbiguousTarget`, and why there is no way to any of the hosts.
    """
    there = _opened(named, timeout)
    try:
        found, lost = _look(there, timeout)
        job = _chosen(there, found, lost)
    except BaseException:
        there.hosts.close()
        raise
    return RemoteJob(there, {host: _writing(part, there.logs) for host, part in job.items()}, lost)


def targets_on(named: TargetName, timeout: float = DEADLINE_S) -> Targets:
    """What can be attached to on the hosts, each by the name that it has from here. Raises why there is no way to any of them."""
    there = _opened(named, timeout)
    try:
        answers = there.ask("all_targets", timeout)
    finally:
        there.hosts.close()
    found, lost = _sorted(answers)
    jobs = whole({host: parts for host, (_, parts) in found.items()})
    names: dict[tuple[str, str], str] = {}
    heads: dict[tuple[str, str], str] = {}
    for job in jobs:
        name = _name_of(there, job, jobs)
        parts = list(job.items())
        names |= {(host, part.name): name for n, (host, part) in enumerate(parts) if n == 0 or part.launched}
        heads |= {(host, str(member.pid)): name for host, part in parts for member in part.members}
    targets = [_from_here(target, host, there, names, heads) for host, (those, _) in found.items() for target in those]
    return Targets(tuple(_parts_together(targets)), tuple(found), tuple(_silences(lost)))


def _opened(named: TargetName, timeout: float) -> NamedHosts:
    """The hosts that it names. Raises `UnknownTarget` for what can be no host or no job, and as `jupyter_traindbg.hosts.slurm.running`."""
    if named.kind == "slurm":
        if not names_slurm_job(named.address):
            raise UnknownTarget(
                text("{job!r} is no job of Slurm", job=named.address),
                text(
                    "write slurm:NUMBER, slurm:NUMBER_TASK of an array, or slurm: for the only one that you have running"
                ),
            )
        job = slurm.running(named.address, timeout)
        exactly = TargetName("slurm", named.id, job.id)
        return NamedHosts(named, exactly, slurm.open_nodes(job), list(job.nodes), job.numbers, job.logs)
    names = hosts_named(named.address)
    if names is None:
        raise UnknownTarget(
            text("{hosts!r} names no hosts", hosts=named.address),
            text("write ssh:HOST:TARGET or ssh:HOST,HOST:TARGET, each HOST as `ssh` takes it"),
        )
    return NamedHosts(named, named, ssh.open_hosts(names), names)


def _from_here(
    target: Target,
    host: str,
    where: NamedHosts,
    names: Mapping[tuple[str, str], str],
    heads: Mapping[tuple[str, str], str],
) -> Target:
    """By the name that it has from here: a part of a job on several hosts by that of the whole one (`names`), and beside it the others that
    belong to it (`heads`), where no launcher there has them."""

    def name(there: str) -> str:
        known = parse_target(there)
        if known is None or known.kind not in THERE:
            return there
        return names.get((host, there)) or where.called(there, [host])

    named = name(target.name)
    head = name(target.part_of) if target.part_of is not None else heads.get((host, target.name))
    return dataclasses.replace(target, name=named, part_of=None if head == named else head)


def _parts_together(targets: Sequence[Target]) -> list[Target]:
    """The launchers of one job as one, each followed by what it has."""
    heads = {target.name: target for target in reversed(targets) if target.part_of is None}
    members: dict[str | None, list[Target]] = {}
    for target in targets:
        members.setdefault(target.part_of, []).append(target)
    order = dict.fromkeys(target.name for target in targets if target.part_of is None)
    found = [one for name in order for one in (heads[name], *members.get(name, ()))]
    return found + [target for target in targets if target.part_of is not None and target.part_of not in heads]


def _look(there: NamedHosts, timeout: float) -> tuple[dict[str, list[Found]], dict[str, TraindbgError]]:
    """What each host has of what is wanted, and why some say nothing. Raises the first reason where none says anything."""
    several, wanted = len(there.host_names) > 1, there.name.id
    concrete = parse_target(wanted)
    if concrete is not None and concrete.pid is not None and several:
        wanted = ""  # a pid is one on one of them: what goes with it elsewhere is to be found as well
    answers = there.ask("jobs", timeout, wanted)
    if several:
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
    there: NamedHosts, found: Mapping[str, Sequence[Found]], lost: Mapping[str, TraindbgError]
) -> Mapping[str, Found]:
    """The one job that is meant: its parts by their hosts. Raises `NoTarget` or `AmbiguousTarget`."""
    jobs = whole(found)
    concrete = parse_target(there.name.id)
    if concrete is not None and concrete.pid is not None:
        jobs = [job for job in jobs if any(_is_meant(part, concrete) for part in job.values())]
    if len(jobs) == 1:
        return jobs[0]
    hosts = text(", ").join(found)
    if jobs:
        candidates = {_told_apart(there, job, jobs): next(iter(job.values())).command for job in jobs}
        raise AmbiguousTarget(
            text("there are {count} jobs to choose from on {hosts}", count=len(jobs), hosts=hosts),
            candidates=candidates,
            instead_of=str(there.typed),
        )
    what = there.name.id or text("training")
    raise NoTarget(
        text("; ").join(
            [text("there is no {what} on {hosts}", what=what, hosts=hosts), *(why.cause for why in lost.values())]
        ),
        text("`traindbg targets {target}` shows what there is", target=there.called("", there.host_names)),
    )


def _told_apart(there: NamedHosts, job: Mapping[str, Found], jobs: Sequence[Mapping[str, Found]]) -> str:
    """What to type for `job` and for none of the others. The hosts stay as they were named: one may have what the job waits for."""
    name = next(iter(job.values())).name
    alone = sum(part.name == name for other in jobs for part in other.values()) == 1
    return there.called(name, there.host_names) if alone else _name_of(there, job, jobs)


def _is_meant(part: Found, concrete: TargetName) -> bool:
    return part.name == str(concrete) or concrete.pid in [member.pid for member in part.members]


def _writing(part: Found, logs: tuple[str, ...]) -> Found:
    """With the files where its processes write."""
    return dataclasses.replace(part, members=tuple(dataclasses.replace(one, logs=logs) for one in part.members))


def _name_of(there: NamedHosts, job: Mapping[str, Found], jobs: Sequence[Mapping[str, Found]]) -> str:
    """What the job is called from here, as one of `jobs`: the only one of a Slurm job by nothing but that."""
    alone = bool(there.within) and len(jobs) == 1
    return there.called("" if alone else next(iter(job.values())).name, list(job))
