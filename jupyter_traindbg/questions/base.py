"""What a question is, and what it is given to ask with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ..attach.base import Link, Part
from ..gather.clocks import Clock
from ..model import Attached, RankSteps, Result, Silent

__all__ = ["DEADLINE_S", "InReport", "Question", "Ranks", "Whom", "deadline_s"]

DEADLINE_S = 10.0
"""How long a question may take that nobody has given a deadline."""

T = TypeVar("T")
P = ParamSpec("P")


class Whom(Enum):
    """Who of a job on several hosts is asked, and from where."""

    AGENTS = "the trainers' agents, from here: the question uses `Ranks.ask_agents` alone"
    HOSTS = "the trainers, or everybody where nobody trains yet: the question uses `Ranks.on_each_host`"
    OTHERS = "whom the questions ask that it is made of: it uses these and `Ranks.ask_agents` alone, from here"
    EVERYBODY = "all processes of the job, each host by itself"
    TOGETHER = (
        "the trainers, judged together: on their host, or from here where they have several,"
        " by `Ranks.on_each_host` or `Ranks.open_links`"
    )


@dataclass(frozen=True)
class InReport:
    """That a report has the answer as a part of its own: under which title, where in the index, asked with which keywords."""

    title: str
    order: int
    keywords: Mapping[str, Any] = field(default_factory=dict)


class Question(Protocol):
    """What a module of this package defines. It is a method of `Job` by the module's name.

    It is a verb by itself where `jupyter_traindbg.magics` has none of that name. The module's docstring is its help then, ``EXAMPLES`` are
    as of `jupyter_traindbg.magics.base.Verb`, and ``OPTIONS``, if there are any, have a help for each switch among the keywords of `ask`.
    With ``IN_REPORT``, an `InReport`, its answer is a part of every report. One that watches for as long as it is asked to has a
    ``deadline_s(**keywords)`` of its own, for where no `timeout` is given.
    """

    WHOM: Whom

    def ask(self, job: Ranks, *words: Any, timeout: float = DEADLINE_S) -> Result:
        """Ask it, within `timeout` seconds. Raises a `TraindbgError` where nobody answers.

        `words`: what cannot be left out, such as a query; of a question that is asked from here alone.
        """


def deadline_s(question: Question, keywords: Mapping[str, Any]) -> float:
    """How long it may take, asked with `keywords`, where nobody has given a deadline."""
    own = getattr(question, "deadline_s", None)
    return DEADLINE_S if own is None else float(own(**keywords))


class Ranks(Protocol):
    """The ranks of a job, as a question sees them: `jupyter_traindbg.job.Job`."""

    name: str

    @property
    def several(self) -> bool:
        """Whether there is more than one, as far as is known without asking."""

    @property
    def part(self) -> Part | None:
        """See `Job.part`."""

    def need_training(self, timeout: float) -> None:
        """See `Job.need_training`."""

    def attached(self, *, timeout: float) -> Attached:
        """See `Job.attached`."""

    def open_links(self) -> list[Link]:
        """The lines to them. Raises `TargetGone` where the job is closed."""

    def ask_agents(
        self,
        method: str,
        params: Mapping[str, Any],
        timeout: float,
        build: Callable[[int, int, Any], T],
        *,
        of_rank: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> tuple[tuple[T, ...], tuple[Silent, ...]]:
        """What every rank's agent answers to the probe `method`, made into something by `build` (of rank, pid, answer), and who gave none.

        `of_rank`: what else some of them are asked with. Brings agents in. Raises why where nobody answers.
        """

    def on_each_host(
        self, look: Callable[Concatenate[Sequence[Link], P], T], timeout: float, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Mapping[str, T], tuple[Silent, ...]]:
        """What `look`, given the lines to the ranks that are on one host, sees there, on all hosts at the same time, by a name of the host;
        and who is on those that see nothing. Its arguments and what it returns are plain types and dataclasses of this package. Raises
        where no host sees anything.
        """

    def host_clocks(self, hosts: Sequence[str]) -> Mapping[str, Clock]:
        """How far the clocks of these, by the names of `on_each_host`, are ahead of ours; without those that do not tell in a second."""

    def left_steps(self, since: int, last: int) -> list[RankSteps]:
        """What is known of the ranks that have ended, where their steps were kept: those after number `since`, at most the `last` ones."""

    def steps_were_shown(self) -> None:
        """Have what is recorded kept soon, where steps are kept: what a person has seen must not be lost."""
