"""A job's processes on one host, as a plain `Job` there: what `jupyter_traindbg.spread` has run on each host, here or in a helper.

Every function gets the whole roster, so a helper that was started anew knows as much as the one before. Answers are plain data and results.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..attach.base import LEAVE_S, Entered, Link, ask_all, ask_each, identified
from ..attach.client import AgentClient
from ..attach.discover import launcher_of
from ..attach.process import enter as enter_process
from ..errors import CannotAttach, NoSafeThread, TargetGone, TraindbgError
from ..hosts import wire
from ..job import Job
from ..language import text
from ..model import Detached, JobEvidence, NewSteps, ProcessStacks, Rank, Silent
from ..outside import procfs
from ..polling import Poller

if TYPE_CHECKING:
    from ..report import OnHost

__all__ = [
    "Member",
    "Roster",
    "ask",
    "begin",
    "call",
    "close",
    "detach",
    "enter",
    "entered",
    "gather",
    "host",
    "look",
    "machine",
    "new_steps",
    "now",
    "poll",
    "raw",
    "stacks_outside",
    "text_of",
    "trainers",
]

LOOK_S = 3.0
AGAIN_S = 1.0


@dataclass(frozen=True)
class Member:
    """A process of the job. ``rank`` is the trainer's own, where it is one; the others are numbered on behind the trainers. ``who``: what a
    Ray cluster calls it, else nothing. ``logs``: the files where what it writes ends up, as far as whoever started it tells that.
    """

    pid: int
    rank: int
    world_size: int
    who: str
    trainer: bool
    logs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Roster:
    """The processes on one host, under a name that is the job's alone."""

    key: str
    name: str
    members: tuple[Member, ...]


class _Worker(Link):
    """A link that keeps its number where its process has none of its own: every actor would say that it is rank 0 of 1."""

    def __init__(self, member: Member) -> None:
        pid = member.pid
        started = procfs.start_ticks(pid)
        super().__init__(
            pid, lambda deadline_s: enter_process(pid, deadline_s), member.rank, member.world_size, started=started
        )
        self.noted.logs = member.logs
        self.be(member)

    def be(self, member: Member) -> None:
        """Take the number and the name that the job has for it."""
        self.member, self.worker = member, member.who
        self.rank, self.world_size = member.rank, member.world_size

    def twin(self) -> Link:
        return _Worker(self.member)

    def enter(self, deadline_s: float) -> AgentClient:
        """Tries again where no thread could be borrowed: a Ray worker has many, which wait for a moment at a time."""
        ends = time.monotonic() + deadline_s
        while True:
            try:
                return super().enter(max(0.05, ends - time.monotonic()))
            except NoSafeThread:
                if time.monotonic() + AGAIN_S > ends:
                    raise
            time.sleep(AGAIN_S / 10)

    def identify(self, deadline_s: float) -> Rank:
        found = super().identify(deadline_s)
        if not self.member.trainer or found.world_size == 1:
            self.rank, self.world_size = self.member.rank, self.member.world_size
        return dataclasses.replace(found, rank=self.rank, world_size=self.world_size, worker=self.member.who)


class RelayedLink(Link):
    """A link to a process on another host. What looks at processes from outside must not: another one has that pid here."""

    here = False

    def __init__(self, member: Member, run: Callable[..., Any]) -> None:
        """`run`: runs a function of this module for that one process, on its host."""
        super().__init__(member.pid, self._never, member.rank, member.world_size)
        self._run, self.worker = run, member.who

    def call(self, method: str, params: dict[str, Any], deadline_s: float) -> Any:
        return self._run("call", method, params, deadline_s, deadline_s=deadline_s)

    def text_of(self, file: str, deadline_s: float) -> str | None:
        try:
            read: str | None = self._run("text_of", file, deadline_s, deadline_s=deadline_s)
        except TraindbgError:
            return None
        return read

    def stacks_outside(self, deadline_s: float) -> list[ProcessStacks]:
        seen: list[ProcessStacks] = self._run("stacks_outside", deadline_s, deadline_s=deadline_s)
        return seen

    def answering(self) -> None:
        return None

    @staticmethod
    def _never(deadline_s: float) -> Entered:
        raise CannotAttach(text("the process is on another host"))


class _Part:
    """The links of one job on this host. They stay from one question to the next, and with them the agents and what they have recorded."""

    def __init__(self) -> None:
        self.links: dict[int, _Worker] = {}
        self.poller: tuple[tuple[Member, ...], Poller] | None = None

    def take(self, members: Iterable[Member]) -> None:
        for member in members:
            link = self.links.get(member.pid)
            if link is None:
                self.links[member.pid] = _Worker(member)
            elif link.member != member:
                link.be(member)

    def end_watching(self) -> None:
        with _taking:
            poller, self.poller = self.poller, None
        if poller is not None:
            poller[1].close()


_parts: dict[str, _Part] = {}
_closed: deque[str] = deque(maxlen=1000)
"""The keys of jobs that have been closed: a question that was late begins nothing for them any more."""
_taking = threading.Lock()


def host() -> str:
    """What tells this host, and this view of its processes, from any other."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        return f"{f.read().strip()}/{os.stat('/proc/self/ns/pid').st_ino}"


def _links(roster: Roster) -> list[Link]:
    with _taking:
        part = _open(roster)
        return [part.links[member.pid] for member in roster.members]


def _open(roster: Roster) -> _Part:
    """What is kept of the job, for whoever holds `_taking`. Raises `TargetGone` where it has been closed."""
    if roster.key in _closed:
        raise TargetGone.job_closed(roster.name)
    part = _parts.setdefault(roster.key, _Part())
    part.take(roster.members)
    return part


def ask(roster: Roster, method: str, **kwargs: Any) -> Any:
    """What `Job.method` answers for the processes of `roster`. Raises what it raises."""
    return getattr(Job(roster.name, _links(roster)), method)(**kwargs)


def enter(roster: Roster, timeout: float) -> list[Rank]:
    """Bring agents into all of them; who cannot be entered says why in its note."""
    return [rank for _, rank in identified(_links(roster), timeout)]


def raw(
    roster: Roster,
    method: str,
    params: Mapping[str, Any],
    timeout: float,
    of_rank: Mapping[int, Mapping[str, Any]] | None = None,
) -> tuple[list[tuple[int, int, Any]], list[Silent], TraindbgError | None]:
    """What each process's agent answers to `method`, as ``(rank, pid, answer)``; who gave none, and the first reason.

    `of_rank`: what else some of them are asked with.
    """

    def one(link: Link) -> Any:
        return _call(link, method, {**params, **(of_rank or {}).get(link.rank, {})}, timeout)

    asked = ask_all(_links(roster), one, timeout)
    return [(link.rank, link.pid, answer) for link, answer in asked.answers], list(asked.silent), asked.problem


def new_steps(roster: Roster, since: Mapping[int, int] | None, timeout: float) -> list[NewSteps]:
    """The steps of each of them after the number given (None: all), over lines of their own."""
    with _taking:
        part = _open(roster)
        before = part.poller
        if before is None or before[0] != roster.members:
            part.poller = (roster.members, Poller([part.links[member.pid] for member in roster.members]))
        poller = part.poller
    if before is not None and before is not poller:
        before[1].close()
    assert poller is not None
    return poller[1].poll(since, timeout)


def call(roster: Roster, method: str, params: Mapping[str, Any], deadline_s: float) -> Any:
    """What the agent of the only process in `roster` answers. Raises what `Link.call` raises."""
    return _call(_links(roster)[0], method, params, deadline_s)


def _call(link: Link, method: str, params: Mapping[str, Any], deadline_s: float) -> Any:
    ends = time.monotonic() + deadline_s
    if link.client is None:
        link.identify(deadline_s)  # so that the answer goes by the rank's own number
    return link.call(method, dict(params), max(0.05, ends - time.monotonic()))


def text_of(roster: Roster, file: str, deadline_s: float) -> str | None:
    """A source file as the only process in `roster` sees it; see `Link.text_of`."""
    return _links(roster)[0].text_of(file, deadline_s)


def stacks_outside(roster: Roster, deadline_s: float) -> list[ProcessStacks]:
    """The stacks of the only process in `roster`, from outside; see `Link.stacks_outside`."""
    return _links(roster)[0].stacks_outside(deadline_s)


def entered(roster: Roster) -> list[int]:
    """The pids of those that have an agent of ours already. None is brought in."""
    return [link.pid for link in _links(roster) if link.answering() is not None]


def trainers(roster: Roster, timeout: float) -> dict[int, tuple[int, int]]:
    """Which of them have an optimizer: rank and world size by pid. Enters those that have torch loaded."""
    likely = [link for link in _links(roster) if procfs.maps_library(link.pid, b"libtorch")]

    def look(link: Link) -> tuple[int, int] | None:
        info = link.call("info", {}, timeout)
        found = link.call("lr", {}, min(LOOK_S, timeout))
        return (info["rank"], info["world_size"]) if found["optimizers"] else None

    return {link.pid: found for link, found in ask_each(likely, look, timeout + LOOK_S) if isinstance(found, tuple)}


def gather(roster: Roster, timeout: float) -> JobEvidence:
    """Everything about the ranks here that a diagnosis of hangs goes by."""
    from ..gather.whole_job import gather as gather_all

    return gather_all(roster.name, _links(roster), None, timeout)


def look(roster: Roster, function: str, /, *args: Any, **kwargs: Any) -> Any:
    """What the function ``"module:name"`` of this package, given the lines to the ranks here, sees. Raises what it raises."""
    return wire.function(function)(_links(roster), *args, **kwargs)


def now() -> float:
    """What time it is here."""
    return time.time()


def machine(roster: Roster, logs: Sequence[str], others_logs: Sequence[str], machines: int, timeout: float) -> OnHost:
    """What a report has to tell of this host and the ranks on it, one of so many `machines`, with every secret in it.

    `logs`: files that this host is to read beside those of its ranks; `others_logs`: ones that all hosts see and another one reads.
    """
    from ..report import Subject, of_machine

    links = _links(roster)
    pids = {link.rank: link.pid for link in links if link.ended() is None}
    left = [log for link in links if link.ended() is not None for log in link.noted.logs]
    subject = Subject(
        roster.name,
        pids,
        next((above for pid in pids.values() if (above := launcher_of(pid)) is not None), None),
        left_logs=[glob.escape(log) for log in dict.fromkeys([*left, *logs])],
        others_logs=others_logs,
    )
    return of_machine(subject, machines=machines, timeout=timeout)


def detach(roster: Roster, force: bool, timeout: float) -> Detached:
    """Take the agents out of all of them. Raises `ActionRefused` as `Job.detached` does; then the job is open as before."""
    with _taking:
        part = _open(roster)
    part.end_watching()  # or its lines would keep the agents
    result = Job(roster.name, _links(roster)).detached(force=force, timeout=timeout)
    close(roster.key)
    return result


def close(key: str) -> None:
    """Say goodbye to the agents of a job's processes here, for good."""
    with _taking:
        _closed.append(key)
        part = _parts.pop(key, None)
    if part is not None:
        part.end_watching()
        ask_each(list(part.links.values()), lambda link: link.leave(), LEAVE_S)


# --- what takes as long as it takes --------------------------------------------------------------------------------


class _Running:
    """A method that is under way, and how far it is."""

    def __init__(self, roster: Roster, method: str, kwargs: Mapping[str, Any]) -> None:
        self.written = self.total = 0
        self.done = threading.Event()
        self.answer: Any = None
        self.error: TraindbgError | None = None
        self._roster, self._method, self._kwargs = roster, method, kwargs
        run = copy_context().run  # what it says is in the language of whoever began it
        threading.Thread(target=run, args=(self._run,), name=f"traindbg-{method}", daemon=True).start()

    def _run(self) -> None:
        try:
            self.answer = ask(self._roster, self._method, **self._kwargs, progress=self._tell)
        except TraindbgError as e:
            self.error = e
        except Exception as e:  # noqa: BLE001
            self.error = TargetGone(
                text("{name} failed: {kind}: {why}", name=self._method, kind=type(e).__name__, why=e),
                text("please report this text"),
            )
        finally:
            self.done.set()

    def _tell(self, written: int, total: int) -> None:
        self.written, self.total = written, total


_running: dict[str, _Running] = {}


def begin(roster: Roster, method: str, **kwargs: Any) -> str:
    """Start a method of `Job` that takes as long as it takes and tells its `progress`; the ticket to ask for it by."""
    ticket = uuid.uuid4().hex
    _running[ticket] = _Running(roster, method, kwargs)
    return ticket


def poll(ticket: str, wait_s: float) -> tuple[bool, Any]:
    """Whether it is done, and then what it returned; waits at most `wait_s` for that. Raises what it raised."""
    running = _running.get(ticket)
    if running is None:
        raise TargetGone(text("the helper that worked on it has gone"), text("see what became of it, and try again"))
    if not running.done.wait(wait_s):
        return False, (running.written, running.total)
    del _running[ticket]
    if running.error is not None:
        raise running.error
    return True, running.answer
