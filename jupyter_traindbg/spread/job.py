"""`SpreadJob`: a job whose processes are on several hosts, asked and changed like any other.

What changes the training goes to the trainers alone, the processes that have an optimizer.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..actions import checkpoint, tuning
from ..actions.checkpoint import planning
from ..errors import DeadlineExceeded, TargetGone, TraindbgError, UsageError
from ..gather.by_source import between_hosts
from ..gather.clocks import by_our_clock
from ..gather.elsewhere import followed
from ..hosts.base import HERE, Call
from ..job import DEADLINE_S
from ..language import text
from ..model import (
    Changed,
    Checkpoint,
    CheckpointPlan,
    Detached,
    Diagnosis,
    Freed,
    HostPid,
    InForce,
    JobEvidence,
    JobProcess,
    Look,
    LostHost,
    NewSteps,
    RankEvidence,
    Result,
)
from ..progress import BytesBar
from ..questions.diagnose import settled, verdict
from ..questions.jobless import log
from ..tasks import Task
from .base import ACTION_S, HOST_S, RELAY_S, SEVERAL, Spread
from .merging import one_job, polled
from .placed import Placed

if TYPE_CHECKING:
    from ..report import Hosts, OnHost

__all__ = ["SpreadJob"]


T = TypeVar("T")
COMPARE_S = 1.0
"""How long it may take to read the source where ranks are."""
LOOK_S = 1.0


class SpreadJob(Spread):
    """Questions to all of its processes, changes to its trainers."""

    # --- leaving ----------------------------------------------------------------------------------------------------

    def detached(self, *, force: bool = False, timeout: float = DEADLINE_S) -> Detached:
        """See `Job.detached`."""
        self._end_watching()
        hosts = self._by_host(self._placed, timeout)
        ended = self._end_together(timeout, force) if len(hosts) > 1 else ([], "")
        calls: dict[str, Call] = {route: ((self._roster(there), force, timeout), {}) for route, there in hosts.items()}
        answers = self._run_everywhere(calls, "detach", timeout + ACTION_S)
        result: Detached = self._put_together(self._placed, answers)
        self.close()
        if not any(ended):
            return result
        return dataclasses.replace(
            result, released=(*ended[0], *result.released), note="; ".join(filter(None, (ended[1], result.note)))
        )

    def _end_together(self, timeout: float, force: bool) -> tuple[list[InForce], str]:
        """What is in force on trainers of several hosts, ended at one step: one host after the other would end it at as many."""
        trainers = [p for p in self._placed if p.member.trainer]
        if len(self._by_host(trainers, timeout)) < 2:
            return [], ""
        answers = self._everywhere(trainers, "entered", HOST_S)
        there = {(route, pid) for route, pids in answers.items() if not isinstance(pids, TraindbgError) for pid in pids}
        links = [self._relayed(p) for p in trainers if (self._route(p), p.member.pid) in there]
        return tuning.end_all(links, timeout, force=force) if links else ([], "")

    # --- questions ------------------------------------------------------------------------------------------------------

    def diagnose(self, *, timeout: float = DEADLINE_S) -> Diagnosis:
        """See `jupyter_traindbg.questions.diagnose`: each host watches its own ranks, and all of them are judged together."""
        return self.diagnose_ranks(timeout=timeout)

    def diagnose_ranks(
        self, *, timeout: float = DEADLINE_S, processes: Mapping[HostPid, JobProcess] | None = None
    ) -> Diagnosis:
        """See `Job.diagnose_ranks`; of the trainers: as the ranks of a job that may hang. Raises `NoTarget` where there are none.

        `processes`: what a scheduler knows of those of the job, so that waits for the results of calls are followed, too.
        """
        placed = self._need_trainers(timeout)
        one_host = list(self._by_host(self._placed, timeout)) == [HERE]
        if processes or not one_host:  # a trainer may wait for any other process of the job
            return self._diagnose_across(placed, timeout, processes or {})
        result: Diagnosis = self._run(
            HERE, "ask", self._roster(placed), "diagnose_ranks", deadline_s=timeout + RELAY_S, timeout=timeout
        )
        return result

    def _diagnose_across(
        self, placed: Sequence[Placed], timeout: float, processes: Mapping[HostPid, JobProcess]
    ) -> Diagnosis:
        """One verdict on ranks of other hosts: each host gathers, at the same time, and all of it is judged here, where the rules are."""
        began = time.monotonic()
        evidence = settled(lambda left_s: self._gathered(placed, left_s, processes), timeout)
        links = [self._relayed(one) for one in placed]
        return verdict(log.with_last_words(evidence), links, began, timeout)

    def _gathered(
        self, placed: Sequence[Placed], timeout: float, processes: Mapping[HostPid, JobProcess]
    ) -> JobEvidence:
        """What all hosts know of `placed`, on one clock. Raises where none answers."""
        ends = time.monotonic() + timeout
        answers = self._everywhere(placed, "gather", timeout, timeout)
        good = {r: self._seen_on(r, a) for r, a in answers.items() if not isinstance(a, TraindbgError)}
        if not good:
            raise next(answer for answer in answers.values() if isinstance(answer, TraindbgError))
        there = self._by_route(placed)
        failed = {route: answer for route, answer in answers.items() if isinstance(answer, TraindbgError)}
        lost = [
            LostHost(self._host_names.get(route, route), why.cause, [one.member.rank for one in there[route]])
            for route, why in failed.items()
            if self._is_lost(why)
        ]
        silent = [s for r, why in failed.items() if not self._is_lost(why) for s in self._silent(placed, r, why)]
        unseen = [self._unseen(one, why) for route, why in failed.items() for one in there[route]]
        told = self.host_clocks(list(good)) if len(good) > 1 else {}
        parts = [by_our_clock(part, told[route].ahead_s if route in told else 0.0) for route, part in good.items()]
        evidence = one_job(parts, silent, [*lost, *self._lost_hosts()], unseen)
        if len(good) > 1:
            evidence = between_hosts(evidence, map(self._relayed, placed), time.monotonic() + COMPARE_S)
        names = {r: name for r, part in good.items() for name in part.beside}
        evidence = self._followed(evidence, placed, names, processes, ends)
        if not told or len(told) < len(good):
            return evidence
        return dataclasses.replace(evidence, clock_error_s=max(clock.error_s for clock in told.values()))

    def _followed(
        self,
        evidence: JobEvidence,
        placed: Sequence[Placed],
        names: Mapping[str, str],
        processes: Mapping[HostPid, JobProcess],
        ends: float,
    ) -> JobEvidence:
        """With whom ranks wait for elsewhere. `names`: what each host that has answered is called in the evidence, by its route."""
        ranks = self._by_route(placed)
        others = [route for route in (*self._bystanders, *self._by_route(self._placed)) if route not in ranks]
        answering = {route: ranks.get(route, []) for route in (*names, *others)}

        def named(route: str) -> str:
            return names.get(route, self._host_names.get(route, route))

        def ask(look: Callable[..., T], wanted: Any, called: Mapping[str, Any], timeout: float) -> dict[str, T]:
            name = f"{look.__module__}:{look.__name__}"
            calls: dict[str, Call] = {
                route: ((self._roster(known), name, wanted, called.get(named(route), {}), timeout), {})
                for route, known in answering.items()
                if wanted or named(route) in called
            }
            answers = self._run_everywhere(calls, "look", timeout)
            good = {route: answer for route, answer in answers.items() if not isinstance(answer, TraindbgError)}
            return {named(route): answer for route, answer in good.items()}

        def at(process: HostPid) -> HostPid:
            return named(self._route_of(process[0])), process[1]

        known = {
            at(process): dataclasses.replace(one, waits_for=tuple(map(at, one.waits_for)))
            for process, one in processes.items()
        }
        return followed(evidence, ask, ends, known)

    def _unseen(self, placed: Placed, why: TraindbgError) -> RankEvidence:
        """A rank of a host that gave no answer: it was looked at, and nothing was seen."""
        member, host = placed.member, self._host_names.get(placed.host, placed.host)
        looks = (Look(0.0, ()),)
        return RankEvidence(member.rank, member.world_size, 0, member.pid, host, looks, problem=why.cause)

    def _is_lost(self, why: TraindbgError) -> bool:
        """Whether it is the host that gives no answer, and not what runs there; where that is told otherwise, it is not told here."""
        return False

    def _lost_hosts(self) -> list[LostHost]:
        """Hosts that have given no answer from the beginning, so that nobody knows which ranks they have."""
        return []

    def poll(self, since: Mapping[int, int] | None, *, timeout: float = 1.0) -> list[NewSteps]:
        """See `Watchable.poll`; of the trainers, one call per host."""
        placed = self._need_trainers(max(timeout, DEADLINE_S) if since is None else timeout)
        if since is None:
            if self._ranks is None:
                self.enter(DEADLINE_S)  # from now on by their own numbers
            placed = [p for p in self._placed if p.member.trainer]
        else:
            placed = [p for p in placed if p.member.rank in since]
        answers = self._everywhere(placed, "new_steps", timeout, since, timeout) if placed else {}
        there = {r: [(p.member.rank, p.member.pid) for p in placed if self._route(p) == r] for r in answers}
        return polled(answers, there)

    # --- the report -------------------------------------------------------------------------------------------------

    def _questions(self) -> dict[str, Callable[[float], Result]]:
        """See `Job._questions`; where ranks are on other machines, these are read as well."""
        hosts = self._open_hosts()
        away = any(not hosts.is_here(p.host) for p in self._placed)
        return {**super()._questions(), **({"hosts": self._read_hosts} if away else {})}

    def _read_hosts(self, timeout: float) -> Hosts:
        """What a report has to tell of each host, in one call each. A log that all of them see is read by one, by us if it is here."""
        from ..report import Hosts, OnHost

        there = self._by_route(self._placed)
        here = self._logs_here()
        shared = list(dict.fromkeys(log for one in self._placed for log in one.member.logs))
        calls: dict[str, Call] = {}
        for route, placed in there.items():
            reads = [] if here or calls else shared
            left = [*([] if reads else shared), *(here if route == HERE else [])]
            calls[route] = ((self._roster(placed), reads, left, len(there), timeout), {})
        answers = self._run_everywhere(calls, "machine", timeout)
        read = [self._on_host(route, placed, answers[route]) for route, placed in there.items()]
        return Hosts([*read, *(OnHost(lost.name, lost.ranks, (), lost.reason) for lost in self._lost_hosts())])

    def _logs_here(self) -> list[str]:
        """The logs of the job that this machine has, and a report reads by itself; none where their disk does not answer."""
        look = Task(lambda: [path for pattern in self._left_logs() for path in glob.glob(pattern)], "logs")
        return look.quietly(time.monotonic() + LOOK_S) or []

    def _on_host(self, route: str, placed: Sequence[Placed], answer: OnHost | TraindbgError) -> OnHost:
        """The answer of one host, under the name and with the ranks that it has here."""
        from ..report import OnHost

        name = "this machine" if route == HERE else self._host_names.get(route, route)
        told = OnHost("", problem=answer.cause) if isinstance(answer, TraindbgError) else answer
        return dataclasses.replace(told, name=name, ranks=[one.member.rank for one in placed])

    # --- changes ----------------------------------------------------------------------------------------------------

    def free_memory(self, *, zero_grad: bool = False, timeout: float = DEADLINE_S) -> Freed:
        """See `Job.free_memory`; in the trainers."""
        placed = self._need_trainers(timeout)
        answers = self._everywhere(
            placed, "ask", timeout + ACTION_S, "free_memory", zero_grad=zero_grad, timeout=timeout
        )
        result: Freed = self._put_together(placed, answers)
        return result

    def checkpoint(
        self,
        directory: str,
        *,
        overwrite: bool = False,
        allow_mixed: bool = False,
        timeout: float = DEADLINE_S,
        progress: Callable[[int, int], None] | None = None,
    ) -> Checkpoint:
        """See `Job.checkpoint`. `directory` is on the trainers' host: an absolute path there, where that is not this machine.

        Trainers on several hosts need a directory that all of them share; where they have none, replicated ones save what rank 0 has.
        """
        placed = self._need_trainers(timeout)
        route, where = self._host_of_all(placed, timeout)
        options: dict[str, Any] = {"overwrite": overwrite, "allow_mixed": allow_mixed, "timeout": timeout}
        options["directory"] = _place(directory, route, where)
        if route == SEVERAL:
            with BytesBar("checkpoint") as bar:
                return checkpoint.save([self._relayed(p) for p in placed], progress=progress or bar, **options)
        made: Checkpoint = self._patiently(route, self._roster(placed), "_checkpoint", progress, **options)
        if route == HERE:
            return made
        return dataclasses.replace(made, notes=(*made.notes, f"written on {where}"))

    def checkpoint_plan(self, directory: str, *, timeout: float = DEADLINE_S) -> CheckpointPlan:
        """See `Job.checkpoint_plan`; `directory` as for `checkpoint`."""
        placed = self._need_trainers(timeout)
        route, where = self._host_of_all(placed, timeout)
        options: dict[str, Any] = {"directory": _place(directory, route, where), "timeout": timeout}
        if route == SEVERAL:
            return planning.plan([self._relayed(p) for p in placed], **options)
        planned: CheckpointPlan = self._run(
            route, "ask", self._roster(placed), "checkpoint_plan", deadline_s=timeout + RELAY_S, **options
        )
        return planned if route == HERE else dataclasses.replace(planned, note=f"{planned.note} on {where}".strip())

    def _change(self, wanted: Mapping[str, Any], timeout: float) -> Changed:
        placed = self._need_trainers(timeout)
        hosts = self._by_host(placed, timeout)
        if len(hosts) > 1:  # from here, where all of them are within reach
            return tuning.change(self.name, [self._relayed(p) for p in placed], dict(wanted), timeout)
        (route,) = hosts
        options: dict[str, Any] = {"wanted": dict(wanted), "timeout": timeout}
        try:
            result: Changed = self._run(
                route, "ask", self._roster(placed), "_change", deadline_s=timeout + ACTION_S, **options
            )
        except (DeadlineExceeded, TargetGone) as e:
            raise type(e)(
                e.cause, text("whether it was changed is not known: `traindbg lr {name}` shows it", name=self.name)
            ) from e
        return result

    def _pids_here(self) -> dict[int, int]:
        hosts = self._open_hosts()
        return {p.member.rank: p.member.pid for p in self._placed if hosts.is_here(p.host)}


def _place(directory: str, route: str, where: str) -> str:
    """`directory` as the trainers' host is to be asked for it. Raises `UsageError` for a relative one on another host."""
    if route == HERE:
        return os.path.abspath(os.path.expanduser(directory))
    if not os.path.isabs(directory):
        raise UsageError(
            text("{directory} is relative, and would be written on {where}", directory=directory, where=where),
            text("give the whole path, as it is seen there"),
        )
    return directory
