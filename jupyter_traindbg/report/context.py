"""What a part is given and what it gives back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..model import Finding, Result

__all__ = ["Collected", "Context", "Hosts", "OnHost", "Part", "Question", "Subject", "Unavailable"]

Question: TypeAlias = Callable[[float], Result]
"""Asks a job, within so many seconds."""


class Unavailable(Exception):
    """A part cannot be had; the message is the reason, for the index."""


@dataclass(frozen=True)
class Subject:
    """What the report is about: a job, the remains of one, log files, or this machine alone."""

    name: str = "this machine"
    pids: Mapping[int, int] = field(default_factory=dict)
    """The processes of the ranks by rank; those of them that have ended count as well."""
    launcher_pid: int | None = None
    questions: Mapping[str, Question] = field(default_factory=dict)
    """By name (``"stacks"``, ``"steps"`` ...); ``"enter"`` is asked first, ``"stacks"`` next, the others after them, all at once. A job
    that has ranks on other machines answers ``"hosts"`` with what was read of each, a `Hosts`."""
    problem: str = ""
    """Why a job that was named cannot be asked."""
    left_logs: Sequence[str] = ()
    """Patterns of the logs that its processes write, those that have ended as well."""
    others_logs: Sequence[str] = ()
    """Paths of logs that are left to another machine: all of them see the same file."""

    @property
    def elsewhere(self) -> bool:
        """Whether the machines that matter are others than this one."""
        return "hosts" in self.questions


@dataclass(frozen=True)
class Context:
    """What there is to collect from. ``timeout`` is how long one part may wait for one thing."""

    subject: Subject
    logs: Sequence[str] = ()
    configs: Sequence[str] = ()
    timeout: float = 10.0
    ends: float = float("inf")
    stuck: frozenset[int] = frozenset()
    """Processes in uninterruptible sleep: reading their memory maps, command line or environment would wait with them."""
    machines: int = 1
    """How many machines go into the report: where they are many, less is kept of each one's logs."""

    @property
    def readable(self) -> dict[int, int]:
        """Pid by rank, those of which all of /proc may be read without waiting."""
        return {rank: pid for rank, pid in self.subject.pids.items() if pid not in self.stuck}

    @property
    def all_pids(self) -> list[int]:
        """The launcher and the ranks, as far as they can be read."""
        launcher = self.subject.launcher_pid
        return [*([launcher] if launcher and launcher not in self.stuck else []), *self.readable.values()]

    def left_s(self, most: float | None = None) -> float:
        """Seconds that the asking part may still wait."""
        return max(0.1, min(self.ends - time.monotonic(), self.timeout if most is None else most))

    def ask(self, question: str, most: float | None = None) -> Result:
        """The job's answer. Raises `Unavailable` where there is no job, and what the question raises."""
        if question not in self.subject.questions:
            raise Unavailable(self.subject.problem or "there is no running job to ask")
        return self.subject.questions[question](self.left_s(most))


@dataclass(frozen=True)
class Part:
    """What was collected, with every secret still in it: `jupyter_traindbg.report` takes them out before anything is written."""

    summary: str
    """One line: the figures that matter."""
    results: Sequence[Result] = ()
    """Drawn in the index as in a notebook, and put into report.json."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Files of the bundle, by their names."""
    about: Mapping[str, str] = field(default_factory=dict)
    """What is to be known of some of these files."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Plain data for report.json, and all that the part draws (`jupyter_traindbg.report.running.Collector`)."""
    findings: Sequence[Finding] = ()
    excerpts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Lines that the index shows as they are, by their caption."""
    issue: Sequence[str] = ()
    """Lines for issue.md, each ``label: words``."""
    missing: Sequence[str] = ()
    """What could not be had, with the reason."""
    learn: Any = None
    """Not written anywhere: read for the secrets that its names give away (a whole environment, say)."""


@dataclass(frozen=True)
class Collected:
    """One part with how it went. ``problem`` is why there is nothing; ``trace`` is set where that is our own fault."""

    name: str
    title: str
    part: Part | None
    problem: str = ""
    trace: str = ""
    taken_s: float = 0.0


@dataclass(frozen=True)
class OnHost:
    """What was read of one machine that the job has ``ranks`` on, or the ``problem`` why nothing was."""

    name: str
    ranks: Sequence[int] = ()
    parts: Sequence[Collected] = ()
    problem: str = ""
    tokens: Sequence[str] = ()
    """What lets a client into our agents there; not written anywhere."""


@dataclass(frozen=True)
class Hosts(Result):
    """What was read of all machines of a job, with every secret still in it."""

    hosts: Sequence[OnHost]
