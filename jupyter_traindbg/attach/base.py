"""What every way in has in common: it resolves a target's text into links, one per process, and a link knows how to enter its process."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeVar

from ..command_lines import is_rays
from ..errors import AgentRefused, DeadlineExceeded, GilHeld, TargetGone, TraindbgError
from ..language import later, text
from ..model import NotAvailable, ProcessStacks, Rank, Silent, TargetName
from ..outside import procfs, sources, stacks
from ..outside.ending import Noted
from ..tasks import each
from ..verbose import milliseconds
from .client import HANG_UP_S, AgentClient, connect

__all__ = [
    "ANSWERING_S",
    "LEAVE_S",
    "Entered",
    "Link",
    "Part",
    "Round",
    "Way",
    "ask_all",
    "ask_each",
    "clusters_below",
    "end_calls",
    "identified",
    "introduce",
    "whole_job",
]

log = logging.getLogger(__name__)

T = TypeVar("T")

GOODBYE_S = 5.0
LEAVE_S = GOODBYE_S + HANG_UP_S
"""How long leaving one process takes at most."""
MEANWHILE_S, CONNECT_S = 0.1, 0.5
"""How long a look that enters nothing waits for one that does, and for an agent that is there."""
ANSWERING_S = MEANWHILE_S + 2 * CONNECT_S
"""How long `Link.answering` takes at most."""
AFTERWARDS = later("`%diagnose` tells how; a notebook that was attached to it still has its last steps")
"""What can be done about a process that has ended."""


@dataclass(frozen=True)
class Entered:
    """The outcome of entering a process: a client and how we came in."""

    client: AgentClient
    way: str


@dataclass(frozen=True)
class Part:
    """What a process is of a job of several. ``whole`` names all of it as a target: ``torchrun:41``, ``ray:01000000@10.0.0.1:6379``."""

    whole: str
    what: Literal["rank", "driver", "worker"]

    @property
    def of_ray(self) -> bool:
        return self.what != "rank"

    @property
    def words(self) -> str:
        return f"the driver of {self.whole}" if self.what == "driver" else f"a {self.what} of {self.whole}"


class Way(Protocol):
    """One way in. Each is a module of this package with this function."""

    def links(self, named: TargetName, deadline_s: float) -> list[Link]:
        """The processes that a target of this way's kind names, not entered yet. Raises a `TraindbgError`."""


class Link:
    """The line to one process. Enters it on first need; where that cannot be, `problem` says why and the outside remains."""

    here = True
    """Whether the process is on this machine, so that it can be looked at from outside by its pid."""

    def __init__(
        self,
        pid: int,
        enter: Callable[[float], Entered],
        rank: int = 0,
        world_size: int = 1,
        *,
        started: int | None = None,
        numbered: bool = True,
    ) -> None:
        """`started`: see `procfs.Process.start_ticks`; None where the process cannot be seen from here by that number. `numbered`: whether
        `rank` and `world_size` are known; else its agent is asked, once there is one.
        """
        self.pid, self.rank, self.world_size = pid, rank, world_size
        self.noted = Noted()
        self.others: frozenset[int] = frozenset()
        """The pids of the job's other ranks, and of a Ray cluster that one has started: none of these is a child of this rank to us."""
        self.worker = ""
        """What a Ray cluster calls it; empty outside of one."""
        self.client: AgentClient | None = None
        self.way = "not entered"
        self.problem: TraindbgError | None = None
        self._enter = enter
        self._entering = threading.Lock()
        self._taking = threading.Lock()
        """Held for a moment by who takes or gives back the client: none is taken any more once the line has been left."""
        self._left = False
        self._started = started
        self._numbered = numbered

    @cached_property
    def part(self) -> Part | None:
        """What it is of a job of several processes on this machine; None where it is one by itself. 10 ms, once."""
        from .discover import part_of

        seen = self.here and (self._started is not None or self.pid == os.getpid())
        return part_of(self.pid) if seen and self.ended() is None else None

    def twin(self) -> Link:
        """Another line to the same process, for questions that must not wait for those on this one."""
        other = Link(self.pid, self._enter, self.rank, self.world_size, started=self._started, numbered=self._numbered)
        other.others, other.noted = self.others, self.noted
        return other

    def ended(self) -> TargetGone | None:
        """How the process has ended; None while it runs. One that has its number by now is another one, and not to be touched."""
        if self._started is None:
            return None
        process = procfs.stat(self.pid)
        same = process is not None and process.start_ticks == self._started
        if process is not None and same and process.state not in "ZX":
            return None
        if same:
            self.noted.note(self.pid)
        how = self.noted.how
        ended = (
            text("process {pid} has ended: {how}", pid=self.pid, how=how)
            if how
            else text("process {pid} has ended", pid=self.pid)
        )
        return TargetGone(ended, text(AFTERWARDS))

    def enter(self, deadline_s: float) -> AgentClient:
        """The client of this process's agent; starts the agent where none runs. Raises why that cannot be.

        Of several threads that ask one enters, and the others wait for it. Raises `TargetGone` once the line has been left.
        """
        ends = time.monotonic() + deadline_s
        if not self._entering.acquire(timeout=deadline_s):
            raise DeadlineExceeded(
                text("process {pid} is still being entered after {deadline_s:g} s", pid=self.pid, deadline_s=deadline_s)
            )
        try:
            return self._enter_alone(max(0.05, ends - time.monotonic()))
        finally:
            self._entering.release()

    def _enter_alone(self, deadline_s: float) -> AgentClient:
        if (gone := self.ended()) is not None:
            self.hang_up()
            self.problem = gone
            raise gone
        if self.client is not None:
            return self.client
        if self._left:
            raise TargetGone.line_closed(self.pid)
        if isinstance(self.problem, GilHeld):
            client = self._arrived()
            if client is None:
                raise self.problem  # our thread waits inside; entering again would only add another one
            return self._take(client, "injected")
        began = time.monotonic()
        try:
            entered = self._enter(deadline_s)
        except TraindbgError as e:
            log.debug("process %d: not entered, after %s: %s", self.pid, milliseconds(began), e)
            self.problem, self.way = e, "outside only"
            raise
        log.debug("process %d: entered (%s), after %s", self.pid, entered.way, milliseconds(began))
        return self._take(entered.client, entered.way)

    def _take(self, client: AgentClient, way: str) -> AgentClient:
        """Keep `client`. Raises `TargetGone`, after a goodbye to its agent, where the line has been left meanwhile."""
        with self._taking:
            if not self._left:
                self.client, self.way, self.problem = client, way, None
                return client
        with contextlib.suppress(TraindbgError):
            _say_goodbye(client, force=False, deadline_s=GOODBYE_S)
        raise TargetGone.line_closed(self.pid)

    def hang_up(self) -> None:
        """Close the line without a goodbye; the next question may find another agent, or none."""
        client = self._give_back()
        if client is not None:
            client.close()

    def _give_back(self, only: AgentClient | None = None) -> AgentClient | None:
        """The client, which is the caller's now to close; None where there is none, or another one than `only`."""
        with self._taking:
            client = self.client
            if only is not None and client is not only:
                return None
            self.client = None
            return client

    def _arrived(self) -> AgentClient | None:
        """The agent's client, where the GIL was let go since."""
        with contextlib.suppress(TraindbgError):
            return connect(self.pid, CONNECT_S)
        return None

    def call(self, method: str, params: dict[str, Any], deadline_s: float) -> Any:
        """Ask this process's agent, entering first where need be."""
        ends = time.monotonic() + deadline_s
        client = self.enter(deadline_s)
        try:
            if not self._numbered and method != "info":
                self._take_number(client.call("info", {}, max(0.05, ends - time.monotonic())))
            return client.call(method, params, max(0.05, ends - time.monotonic()))
        except TargetGone:
            if (mine := self._give_back(client)) is not None:
                mine.close()  # the next call may find or start another agent
            raise

    def text_of(self, file: str, deadline_s: float) -> str | None:
        """A source file as the process sees it; None where it cannot be read, or has changed since the process began.

        `deadline_s` is for another host; a disk of this one may take longer.
        """
        return sources.text_of(self.pid, file)

    def stacks_outside(self, deadline_s: float) -> list[ProcessStacks]:
        """Its stacks without those of its children, whether or not an agent answers. Raises as `jupyter_traindbg.outside.stacks.dump`."""
        return stacks.dump(self.pid, self.rank, deadline_s=deadline_s, children=False)

    def answering(self) -> AgentClient | None:
        """The client of an agent that is there already; never starts one."""
        if self.ended() is not None:
            self.hang_up()
            return None
        if self.client is None and self._entering.acquire(timeout=MEANWHILE_S):
            try:
                with contextlib.suppress(TraindbgError):
                    if self.client is None and not self._left and (client := connect(self.pid, CONNECT_S)) is not None:
                        self._take(client, "found running")
            finally:
                self._entering.release()
        client = self.client
        if client is not None and not self._numbered:
            with contextlib.suppress(TraindbgError):
                self._take_number(client.call("info", {}, CONNECT_S))
        return client

    def identify(self, deadline_s: float) -> Rank:
        """Who this process is, by its own word where its agent answers. Raises nothing but programming errors."""
        if self.here and self.ended() is None:
            self.noted.note(self.pid)
        try:
            info = self.call("info", {}, deadline_s)
        except TraindbgError as e:
            return self.unentered(e)
        self._take_number(info)
        torch = info["torch"] or NotAvailable("torch is not imported")
        note = "; ".join(info["failures"])
        return Rank(
            self.rank, self.world_size, self.pid, self.way, info["python"], torch, tuple(info["frameworks"]), note=note
        )

    def unentered(self, why: TraindbgError) -> Rank:
        """What this process is to us where it cannot be asked."""
        unknown = NotAvailable("the agent does not answer")
        return Rank(self.rank, self.world_size, self.pid, self.way, unknown, unknown, agent=False, note=str(why))

    def _take_number(self, info: dict[str, Any]) -> None:
        self.rank, self.world_size, self._numbered = info["rank"], info["world_size"], True

    def leave(self, *, force: bool = False, deadline_s: float = GOODBYE_S) -> bool:
        """Say goodbye, for good: who enters now, or later, does not. True where the agent left the process with us, its last client."""
        with self._taking:
            self._left = True
        client = self._give_back()
        return client is not None and _say_goodbye(client, force=force, deadline_s=deadline_s)


def ask_each(
    links: Sequence[Link], ask: Callable[[Link], T], deadline_s: float
) -> list[tuple[Link, T | TraindbgError]]:
    """`each` of links. Whoever interrupts it ends the calls under way, so that what is asked next does not wait for them."""
    try:
        return each(links, ask, deadline_s)
    except KeyboardInterrupt:
        end_calls(links)
        raise


def end_calls(links: Sequence[Link]) -> None:
    """Hang up where somebody still waits for an answer."""
    for link in links:
        if link.client is not None and link.client.busy:
            link.hang_up()


@dataclass(frozen=True)
class Round(Generic[T]):
    """What came of asking several processes at once: those that answered, those that did not, and why the first of these did not."""

    answers: Sequence[tuple[Link, T]]
    silent: tuple[Silent, ...] = ()
    problem: TraindbgError | None = None

    def need_one(self) -> Round[T]:
        """This round. Raises its `problem` where nobody answered."""
        if self.problem is not None and not self.answers:
            raise self.problem
        return self


def ask_all(links: Sequence[Link], ask: Callable[[Link], T], deadline_s: float) -> Round[T]:
    """`ask_each`, answers apart from silences."""
    answers: list[tuple[Link, T]] = []
    silent: list[Silent] = []
    problem = None
    for link, answer in ask_each(links, ask, deadline_s):
        if isinstance(answer, TraindbgError):
            problem = problem or answer
            silent.append(Silent(link.rank, link.pid, answer.cause, answer.next_step))
        else:
            answers.append((link, answer))
    return Round(answers, tuple(silent), problem)


def identified(links: Sequence[Link], deadline_s: float) -> list[tuple[Link, Rank]]:
    """Who each of `links` is, its process entered where that can be; else its `Rank` says why not."""
    answers = ask_each(links, lambda link: link.identify(deadline_s), deadline_s)
    return [(link, link.unentered(who) if isinstance(who, TraindbgError) else who) for link, who in answers]


def _say_goodbye(client: AgentClient, *, force: bool, deadline_s: float) -> bool:
    """Leave the agent behind `client`; whether it has left its process."""
    try:
        stopped = bool(client.call("leave", {"force": force}, deadline_s)["stopped"])
        if stopped:
            client.await_hang_up()
        return stopped
    except (TargetGone, AgentRefused):
        return True
    finally:
        client.close()


def whole_job(links: Sequence[Link]) -> str:
    """The target that names all of the job that `links` are a part of, as far as that can be told here."""
    part = links[0].part
    return part.whole if part is not None else str(TargetName("launcher", "PID"))


def introduce(links: Sequence[Link]) -> None:
    """Tell the links of one job of each other, and of the Ray cluster that one of them has started: none of that is its child."""
    pids = frozenset(link.pid for link in links)
    cluster = clusters_below([link.pid for link in links if link.here], procfs.processes())
    for link in links:
        link.others = (pids - {link.pid}) | cluster


def clusters_below(pids: Collection[int], table: Mapping[int, procfs.Process]) -> frozenset[int]:
    """The processes right below `pids` that a Ray cluster consists of: whoever calls ``ray.init()`` starts one below itself."""
    below = procfs.children(pids, table)
    return frozenset(p.pid for p in below if p.state not in "DZX" and is_rays(procfs.command(p.pid)))
