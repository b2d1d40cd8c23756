"""The processes of a job over their hosts: who they are, by which route each is asked, and one answer from those of all.

On each host a plain `Job` has that host's processes (`part`), and every question is one call per host, all at once.
"""

from __future__ import annotations

import dataclasses
import functools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from .. import questions
from ..attach.base import Link
from ..diagnose import located
from ..errors import NoTarget, TargetGone, TraindbgError
from ..gather.clocks import Clock, measured
from ..hosts.base import HERE, Call, Hosts
from ..job import DEADLINE_S, Job
from ..language import text
from ..model import Attached, NotAvailable, Rank, Result, Silent, Slow
from ..progress import BytesBar
from ..questions.base import Whom, deadline_s
from .merging import merged
from .part import Member, RelayedLink, Roster
from .placed import Placed, numbered

__all__ = ["ACTION_S", "HOST_S", "RELAY_S", "SEVERAL", "Spread"]

PART = "jupyter_traindbg.spread.part"
RELAY_S = 2.0
"""What a call may take beside what it is for: a worker that is slow to be scheduled, a busy node."""
ACTION_S = 6.0
"""The same for an action, which looks at its own effect after its deadline."""
CLOSE_S = 3.0
CLOCKS_S = 1.0
"""How long it may take to learn how far the clocks of hosts are apart."""
SEVERAL = ""
"""In place of the route to a host: there is more than one."""
HOST_S = 5.0
POLL_S = 0.5
ENTERED_AT_MOST = 32
"""So many processes are entered by attaching, where it is not known who trains; a question enters what it needs."""

T = TypeVar("T")
P = ParamSpec("P")


class Spread(Job):
    """A `Job` whose ranks are processes on `hosts`, each with its place there; those that train come first."""

    def __init__(self, name: str, hosts: Hosts, placed: Sequence[Placed], host_names: Mapping[str, str]) -> None:
        """`host_names`: what each host is called, by its name in `hosts`."""
        super().__init__(name, [])
        self._key = uuid.uuid4().hex
        self._placed = list(placed)
        self._searched = any(p.member.trainer for p in self._placed)
        self._hosts: Hosts | None = hosts
        self._host_names = host_names
        self._used: set[str] = set()
        self._host_of: dict[str, str] = {}
        self._same: dict[str, str] = {}
        self._bystanders: Sequence[str] = ()
        """Hosts that were named and have no process of the job: they may have one for which it waits."""

    def __repr__(self) -> str:
        many = len(self._placed)
        state = "closed" if self._hosts is None else f"{many} process{'es' * (many != 1)}"
        return f"<{type(self).__name__} {self.name}: {state}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": repr(self)} if self._hosts is None else self.attached()._repr_mimebundle_()

    @property
    def part(self) -> None:
        """It is a whole job."""
        return None

    @property
    def who(self) -> dict[int, str]:
        """What each rank is called: ``{0: "rank 0", 1: "rank 1"}``, and of a Ray job ``{2: "driver", 3: "Collector[0]"}``."""
        return {p.member.rank: p.member.who or f"rank {p.member.rank}" for p in self._placed}

    # --- entering and leaving ---------------------------------------------------------------------------------------

    def enter(self, timeout: float = DEADLINE_S) -> None:
        """Bring agents into the trainers; into all, as far as they are few, where none is known. Raises where none can be looked at."""
        began = time.monotonic()
        wanted = [p for p in self._placed if p.member.trainer] or self._placed[:ENTERED_AT_MOST]
        answers = self._everywhere(wanted, "enter", timeout, timeout)
        found = {
            (route, rank.pid): rank
            for route, answer in answers.items()
            if not isinstance(answer, TraindbgError)
            for rank in answer
        }
        if not found:
            raise next(answer for answer in answers.values() if isinstance(answer, TraindbgError))
        self._learn(found)
        everybody = [self._rank(placed, found.get(self._at(placed)), answers) for placed in self._placed]
        self._ranks = sorted(everybody, key=lambda rank: rank.rank)
        self.attach_s = time.monotonic() - began

    def attached(self, *, timeout: float = DEADLINE_S) -> Attached:
        """See `Job.attached`."""
        if self._ranks is None:
            self.enter(timeout)
        ranks = self.ranks
        silent = [Silent(r.rank, r.pid, r.note, "") for r in ranks if not r.agent and r.way == "outside only"]
        return Attached(self.name, tuple(ranks), self.attach_s, (*silent, *self._absent()))

    def keep(self, *, timeout: float = DEADLINE_S) -> None:
        """Let the agents stay when this job is closed, until `detach`."""
        placed = self._trainers(timeout) or self._placed
        for answer in self._everywhere(placed, "ask", timeout, "keep", timeout=timeout).values():
            if isinstance(answer, TraindbgError):
                raise answer

    def close(self) -> None:
        """Say goodbye, as `Job.close` does. The helpers stay for two minutes, in case somebody asks again."""
        self._end_watching()
        if self._hosts is not None:
            there = [route for route in self._used if self._hosts.answering(route)]
            self._run_everywhere({route: ((self._key,), {}) for route in there}, "close", CLOSE_S)
            self._hosts.close()
            self._hosts = None

    # --- who trains -------------------------------------------------------------------------------------------------

    def _trainers(self, timeout: float) -> list[Placed]:
        """The processes with an optimizer: Ray Train's workers, else whoever is found to have one; that search is made once."""
        if not self._searched:
            self._find_trainers(timeout)
        return [placed for placed in self._placed if placed.member.trainer]

    def _find_trainers(self, timeout: float) -> None:
        answers = self._everywhere(self._placed, "trainers", timeout, timeout)
        found = {
            (route, pid): rank
            for route, answer in answers.items()
            if not isinstance(answer, TraindbgError)
            for pid, rank in answer.items()
        }
        marked = []
        for placed in self._placed:
            rank = found.get(self._at(placed))
            if rank is not None:
                placed = placed.ranked(*rank)  # noqa: PLW2901
            marked.append(placed)
        self._placed = numbered(marked)
        self._searched = bool(found)  # one that has not begun yet may be found next time

    def _need_trainers(self, timeout: float) -> list[Placed]:
        trainers = self._trainers(timeout)
        if not trainers:
            raise self._nobody_trains()
        return trainers

    def _nobody_trains(self) -> TraindbgError:
        return NoTarget(
            text("no process of {name} has an optimizer (yet), so there is no training to ask", name=self.name)
        )

    def _learn(self, ranks: Mapping[tuple[str, int], Rank]) -> None:
        """Where nobody has told the ranks of those that train, they tell them themselves."""
        learned = []
        for placed in self._placed:
            rank = ranks.get(self._at(placed)) if placed.member.trainer else None
            known = rank is not None and rank.agent
            learned.append(placed.ranked(rank.rank, rank.world_size) if rank is not None and known else placed)
        self._placed = numbered(learned)

    def _rank(self, placed: Placed, found: Rank | None, answers: Mapping[str, Any]) -> Rank:
        """What is known of a process, be it entered or not."""
        why = answers.get(self._route(placed))
        rank = found or _not_entered(placed.member, why if isinstance(why, TraindbgError) else None)
        return dataclasses.replace(rank, rank=placed.member.rank, host=self._shown_host(placed))

    def _absent(self) -> list[Silent]:
        """Who is among the silent of every answer: there may be ranks of which nothing is known."""
        return []

    def _shown_host(self, placed: Placed) -> str:
        """The host of a process, where a person should be told of it."""
        return ""

    # --- asking -----------------------------------------------------------------------------------------------------

    def _to_ask(self, name: str) -> Callable[..., Result]:
        """See `Askable._to_ask`; here, or on every host, as the question's `Whom` says."""
        question = questions.load(name)

        @functools.wraps(question.ask)
        def ask(job: Spread, *words: Any, timeout: float | None = None, **keywords: Any) -> Result:
            timeout = deadline_s(question, keywords) if timeout is None else timeout
            if question.WHOM is Whom.OTHERS:
                return question.ask(job, *words, timeout=timeout, **keywords)
            if question.WHOM in (Whom.AGENTS, Whom.HOSTS):
                return job._located(question.ask(job, timeout=timeout, **keywords))
            keywords["timeout"] = timeout
            if question.WHOM is Whom.TOGETHER:
                return job._located(job._ask_together(name, **keywords))
            answers = job._everywhere(job._placed, "ask", timeout, name, **keywords)
            answer: Result = job._put_together(job._placed, answers)
            return job._located(answer)

        return ask

    def _located(self, answer: Result) -> Result:
        """With the hosts of those that its findings blame, where a person knows more than one."""
        places = {p.member.rank: (self._shown_host(p), p.member.pid) for p in self._placed}
        if isinstance(answer, Slow):
            blamed = located.told([cause.finding for cause in answer.causes], places)
            causes = [dataclasses.replace(c, finding=f) for c, f in zip(answer.causes, blamed, strict=True)]
            return dataclasses.replace(answer, causes=tuple(causes))
        verdict = getattr(answer, "verdict", ())
        assert dataclasses.is_dataclass(answer)
        return dataclasses.replace(answer, verdict=tuple(located.told(verdict, places))) if verdict else answer

    def _ask_together(self, name: str, *, timeout: float, **keywords: Any) -> Result:
        """Of trainers on one host, there; of those on several, from here."""
        placed = self._need_trainers(timeout)
        routes = list(self._by_host(placed, timeout))
        if len(routes) > 1:
            return questions.load(name).ask(self, timeout=timeout, **keywords)
        deadline_s = timeout + RELAY_S
        answer: Result = self._run(
            routes[0], "ask", self._roster(placed), name, deadline_s=deadline_s, timeout=timeout, **keywords
        )
        return answer

    @property
    def several(self) -> bool:
        """There may be."""
        return True

    def open_links(self) -> list[Link]:
        """Lines to the trainers, wherever they are, for what has to ask all of them at once; to everybody where nobody trains yet."""
        return [self._relayed(p) for p in self._trainers(DEADLINE_S) or self._placed]

    def ask_agents(
        self,
        method: str,
        params: Mapping[str, Any],
        timeout: float,
        build: Callable[[int, int, Any], T],
        *,
        of_rank: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> tuple[tuple[T, ...], tuple[Silent, ...]]:
        """See `Job.ask_agents`; of the trainers."""
        placed = self._need_trainers(timeout)
        good: list[T] = []
        silent = self._absent()
        errors: list[TraindbgError] = []
        for route, answer in self._everywhere(placed, "raw", timeout, method, params, timeout, of_rank).items():
            if isinstance(answer, TraindbgError):
                errors.append(answer)
                silent += self._silent(placed, route, answer)
                continue
            answers, quiet, first = answer
            good += [build(*one) for one in sorted(answers, key=lambda one: one[:2])]
            silent += quiet
            errors += [first] if first is not None else []
        if errors and not good:
            raise errors[0]
        return tuple(good), tuple(silent)

    def on_each_host(
        self, look: Callable[Concatenate[Sequence[Link], P], T], timeout: float, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Mapping[str, T], tuple[Silent, ...]]:
        """See `jupyter_traindbg.questions.base.Ranks`; of the trainers, or of everybody where nobody trains yet."""
        placed = self._trainers(timeout) or self._placed
        name = f"{look.__module__}:{look.__name__}"
        answers = self._everywhere(placed, "look", timeout, name, *args, **kwargs)
        good, silent = self._sorted(placed, answers)
        return good, tuple(silent)

    def host_clocks(self, hosts: Sequence[str]) -> Mapping[str, Clock]:
        """See `jupyter_traindbg.questions.base.Ranks`; of one alone nobody compares the time with another's."""
        known = {route: Clock() for route in hosts if route == HERE or len(hosts) == 1}
        others = [route for route in hosts if route not in known]
        return known | measured(others, lambda route, s: float(self._run(route, "now", deadline_s=s)), CLOCKS_S)

    def _everywhere(
        self, placed: Sequence[Placed], function: str, deadline_s: float, /, *args: Any, **kwargs: Any
    ) -> dict[str, Any | TraindbgError]:
        """Run a function of `part` on every host of `placed`, with the roster of those there; the answers by the host's route."""
        if not placed:
            raise TargetGone(
                text("{name} has no process that runs", name=self.name),
                text("`traindbg diagnose` tells what became of it"),
            )
        by_route = self._by_route(placed)
        calls: dict[str, Call] = {route: ((self._roster(there), *args), kwargs) for route, there in by_route.items()}
        return self._run_everywhere(calls, function, deadline_s)

    def _by_route(self, placed: Sequence[Placed]) -> dict[str, list[Placed]]:
        found: dict[str, list[Placed]] = {}
        for one in placed:
            found.setdefault(self._route(one), []).append(one)
        return found

    def _run_everywhere(
        self, calls: Mapping[str, Call], function: str, deadline_s: float
    ) -> dict[str, Any | TraindbgError]:
        self._used.update(calls)
        return self._open_hosts().run_everywhere(calls, f"{PART}:{function}", deadline_s=deadline_s + RELAY_S)

    def _run(self, route: str, function: str, /, *args: Any, deadline_s: float, **kwargs: Any) -> Any:
        self._used.add(route)
        return self._open_hosts().run(route, f"{PART}:{function}", *args, deadline_s=deadline_s, **kwargs)

    def _put_together(self, placed: Sequence[Placed], answers: Mapping[str, Any | TraindbgError]) -> Any:
        """One result from those of all hosts; the processes of hosts that gave none are silent. Raises where there is none at all."""
        good, silent = self._sorted(placed, answers)
        return merged(list(good.values()), silent)

    def _sorted(
        self, placed: Sequence[Placed], answers: Mapping[str, Any | TraindbgError]
    ) -> tuple[dict[str, Any], list[Silent]]:
        """The answers by the routes of their hosts; and who is on hosts that gave none. Raises why where there is none at all."""
        good: dict[str, Any] = {}
        silent = self._absent()
        for route, answer in answers.items():
            if isinstance(answer, TraindbgError):
                silent += self._silent(placed, route, answer)
            else:
                good[route] = self._seen_on(route, answer)
        if not good:
            raise self._told_by(*next((r, a) for r, a in answers.items() if isinstance(a, TraindbgError)))
        return good, silent

    def _seen_on(self, route: str, answer: Any) -> Any:
        """The answer of one host, as a part of what this job answers."""
        return answer

    def _told_by(self, route: str, error: TraindbgError) -> TraindbgError:
        """The error of a host as an answer for all of the job."""
        return error

    def _silent(self, placed: Sequence[Placed], route: str, error: TraindbgError) -> list[Silent]:
        there = [p.member for p in placed if self._route(p) == route]
        return [Silent(m.rank, m.pid, error.cause, error.next_step) for m in there]

    def _relayed(self, placed: Placed) -> Link:
        """A line to a process on any host, for questions that need all trainers at once."""
        route, roster = self._route(placed), self._roster([placed])
        return RelayedLink(
            placed.member,
            lambda function, *args, deadline_s: self._run(
                route, function, roster, *args, deadline_s=deadline_s + RELAY_S
            ),
        )

    def _roster(self, placed: Sequence[Placed]) -> Roster:
        return Roster(self._key, self.name, tuple(p.member for p in placed))

    def _patiently(
        self, route: str, roster: Roster, method: str, progress: Callable[[int, int], None] | None, **options: Any
    ) -> Any:
        """Run a method that takes as long as it takes, and ask now and then, so that a node that dies meanwhile is noticed."""
        asked_s = options["timeout"] + RELAY_S
        ticket = self._run(route, "begin", roster, method, deadline_s=asked_s, **options)
        with BytesBar(method.strip("_")) as bar:
            tell = progress or bar
            while True:
                done, answer = self._run(route, "poll", ticket, POLL_S, deadline_s=asked_s)
                if done:
                    return answer
                tell(*answer)

    # --- where they are ---------------------------------------------------------------------------------------------

    def _open_hosts(self) -> Hosts:
        if self._hosts is None:
            raise TargetGone.job_closed(self.name)
        return self._hosts

    def _route(self, placed: Placed) -> str:
        """The host to ask for `placed`: its own, or for all nodes of this machine the same one."""
        return self._route_of(placed.host)

    def _route_of(self, host: str) -> str:
        return HERE if self._open_hosts().is_here(host) else host

    def _at(self, placed: Placed) -> tuple[str, int]:
        """What tells a process from those of other hosts, which may have its pid."""
        return self._route(placed), placed.member.pid

    def _by_host(self, placed: Sequence[Placed], timeout: float) -> dict[str, list[Placed]]:
        """`placed` by a route to their host, where they must be asked together: several nodes may be on one host."""
        routes = list(dict.fromkeys(self._route(p) for p in placed))
        if len(routes) > 1:
            unknown: dict[str, Call] = {route: ((), {}) for route in routes if route not in self._same}
            answers = self._run_everywhere(unknown, "host", min(timeout, HOST_S))
            first = {host: route for route, host in self._host_of.items()}
            for route, answer in answers.items():
                if not isinstance(answer, TraindbgError):
                    self._host_of[route] = answer
                    self._same[route] = first.setdefault(answer, route)
        found: dict[str, list[Placed]] = {}
        for one in placed:
            route = self._route(one)
            found.setdefault(self._same.get(route, route), []).append(one)
        return found

    def _host_of_all(self, placed: Sequence[Placed], timeout: float) -> tuple[str, str]:
        """The route to the host that all of `placed` are on, or `SEVERAL`, and how it is named."""
        routes = list(self._by_host(placed, timeout))
        if len(routes) > 1:
            return SEVERAL, f"{len(routes)} hosts"
        node = placed[0].host
        return routes[0], self._host_names.get(node, node)


def _not_entered(member: Member, why: TraindbgError | None) -> Rank:
    unknown = NotAvailable("not entered yet: a question that needs it does so" if why is None else str(why))
    way, note = ("not entered", "") if why is None else ("outside only", str(why))
    return Rank(
        member.rank, member.world_size, member.pid, way, unknown, unknown, agent=False, note=note, worker=member.who
    )
