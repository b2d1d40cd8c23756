"""`Job`: one attached training job, its ranks and what can be asked of them. Every question has a deadline and names who did not answer."""

from __future__ import annotations

import dataclasses
import glob
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from . import questions
from .attach import only_candidate, parsed, resolve
from .attach.base import ANSWERING_S, LEAVE_S, Link, Part, ask_all, ask_each, identified, introduce
from .errors import NotPermitted, ProbeFailed, TargetGone
from .gather.clocks import Clock
from .language import text
from .model import (
    Attached,
    Changed,
    Checkpoint,
    CheckpointPlan,
    Compared,
    Detached,
    Diagnosis,
    Freed,
    LogEvidence,
    Rank,
    Report,
    Result,
    Silent,
    named_launcher,
)
from .questions.base import DEADLINE_S
from .tunable import Tunable
from .watching import Watchable

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["DEADLINE_S", "Job", "attach"]

_OF_TRAINING = ("steps", "grads", "lr")
"""What is asked of an agent about a training."""

T = TypeVar("T")
P = ParamSpec("P")


def attach(target: str | int | None = None, *, timeout: float = DEADLINE_S) -> Job:
    """Attach to a running training job and return it, its processes entered.

    `target` is a pid, ``"kernel:ID_OR_CONNECTION_FILE"``, ``"torchrun:PID"``, ``"ray:JOB@ADDRESS"``, ``"ssh:HOST,HOST:TARGET"``,
    ``"slurm:JOB"``, the path of an agent's socket or ``"self"``; without one, the only candidate there is. Costs 0.1 to 1 s where an agent
    has to be brought in, 5 ms where one runs; on other hosts also what connecting to them takes. A rank that cannot be entered is still a
    rank: its stacks come from outside. Raises a `TraindbgError` where no rank at all can be had.
    """
    job = connect(target, timeout=timeout)
    try:
        job.enter(timeout)
    except BaseException:
        job.close()
        raise
    return job


def connect(target: str | int | None = None, *, timeout: float = DEADLINE_S) -> Job:
    """Like `attach`, but a process is entered only when a question needs it."""
    name = only_candidate() if target is None else str(target)
    named = parsed(name)
    if named.kind == "ray":
        from .ray.job import connect as connect_ray

        return connect_ray(name, timeout)
    if named.remote:
        from .spread.remote import connect as connect_hosts

        return connect_hosts(named, timeout)
    return Job(name, resolve(named, timeout))


class Job(Tunable, Watchable):
    """The ranks of one training job. A context manager: leaving it detaches.

    What it can be asked (``stacks()``, ``steps()``, ``memory()``, ``diagnose()`` ...) is in `jupyter_traindbg.questions`, one file each.
    """

    def __init__(self, name: str, links: list[Link]) -> None:
        super().__init__()
        self.name = name
        self.attach_s = 0.0
        introduce(links)
        self._links = links
        self._ranks: list[Rank] | None = None

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if not self._links else f"{len(self._links)} rank{'s' * (len(self._links) != 1)}"
        return f"<Job {self.name}: {state}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.attached()._repr_mimebundle_() if self._links else {"text/plain": repr(self)}

    @property
    def ranks(self) -> list[Rank]:
        """The ranks, in order. Taken when attached; `enter` takes them anew."""
        if self._ranks is None:
            self.enter(DEADLINE_S)
        assert self._ranks is not None
        return list(self._ranks)

    @property
    def part(self) -> Part | None:
        """What this job is of a larger one, where it is one process alone: a rank of a launcher, the driver or a worker of a Ray job."""
        return self._links[0].part if len(self._links) == 1 else None

    def need_training(self, timeout: float = DEADLINE_S) -> None:
        """Raise `NoTarget`, which names the whole job, where this is the driver of a Ray job that leaves the training to its workers."""
        part = self.part
        if part is not None and part.what == "driver":
            from .ray.of_process import need_training

            need_training(self._links[0], part, timeout)

    def enter(self, timeout: float = DEADLINE_S) -> None:
        """Bring an agent into every rank that has none. Raises only where there is no way to look at any of them."""
        began = time.monotonic()
        found = sorted(identified(self.open_links(), timeout), key=lambda one: (one[0].rank, one[0].pid))
        self._links = [link for link, _ in found]
        self._ranks = [rank for _, rank in found]
        if (part := self.part) is not None and part.of_ray:
            notes = (part.words, *(rank.note for rank in self._ranks if rank.note))
            self._ranks = [dataclasses.replace(rank, note="; ".join(notes)) for rank in self._ranks]
        self.attach_s = time.monotonic() - began
        problems = [link.problem for link in self._links]
        if all(isinstance(p, (NotPermitted, TargetGone)) for p in problems) and problems[0] is not None:
            raise problems[0]

    def attached(self, *, timeout: float = DEADLINE_S) -> Attached:
        """The ranks as a result that can be shown: entered within `timeout`, where they have not been; those that cannot be say why."""
        if self._ranks is None:
            self.enter(timeout)
        ranks = self.ranks
        silent = [Silent(r.rank, r.pid, r.note, "") for r in ranks if not r.agent]
        return Attached(self.name, tuple(ranks), self.attach_s, tuple(silent))

    def _change(self, wanted: Mapping[str, Any], timeout: float) -> Changed:
        from .actions import tuning

        self.need_training(timeout)
        return tuning.change(self.name, self.open_links(), dict(wanted), timeout)

    def free_memory(self, *, zero_grad: bool = False, timeout: float = DEADLINE_S) -> Freed:
        """Collect garbage and empty the CUDA cache between two steps; with `zero_grad`, drop the gradients as well."""
        from .actions import free

        return free.free_memory(self.open_links(), zero_grad=zero_grad, timeout=timeout)

    def report(
        self,
        path: str,
        *,
        logs: Sequence[str] = (),
        configs: Sequence[str] = (),
        force: bool = False,
        timeout: float = DEADLINE_S,
    ) -> Report:
        """Write one zip with what a maintainer would ask for: findings, stacks, steps, memory, logs, GPUs, versions, configuration ...

        Secrets are taken out of all of it, and listed. `logs` (files, directories, patterns) instead of those that the job writes;
        `configs` besides those that its command lines name; `force` overwrites. Of a job on several hosts each is read there. Takes what
        `diagnose` takes and a second more, three times `timeout` at most, also where ranks are stopped or gone. Raises `UsageError` for a
        path that cannot be written.
        """
        from .report import Subject, write

        launcher = named_launcher(self.name)
        subject = Subject(self.name, self._pids_here(), launcher, self._questions(), left_logs=self._left_logs())
        return write(path, subject, logs=logs, configs=configs, force=force, timeout=timeout)

    def diagnose_ranks(self, *, timeout: float = DEADLINE_S) -> Diagnosis:
        """`diagnose` of these processes alone, whatever they belong to."""
        from .questions.diagnose import of_ranks

        return of_ranks(self, timeout=timeout)

    def _questions(self) -> dict[str, Callable[[float], Result]]:
        """What a report asks, each with a time to answer in."""
        asked = {name: partial(self._ask_for_report, name) for name in questions.names()}
        return {"enter": lambda s: self.attached(timeout=s), **asked, **self._questions_of_ray()}

    def _ask_for_report(self, name: str, timeout: float) -> Result:
        in_report = getattr(questions.load(name), "IN_REPORT", None)
        answer: Result = getattr(self, name)(**(in_report.keywords if in_report else {}), timeout=timeout)
        return answer

    def _questions_of_ray(self) -> dict[str, Callable[[float], Result]]:
        """A process of a Ray job is reported together with the workers of that job."""
        part = self.part
        if part is None or not part.of_ray:
            return {}
        from .ray.report import gather

        return {"ray workers": lambda s: gather(part.whole, timeout=s)[1]}

    def _pids_here(self) -> dict[int, int]:
        """The processes of the ranks that are on this machine, and run."""
        return {link.rank: link.pid for link in self.open_links() if link.ended() is None}

    def log_lines(self, *, timeout: float = DEADLINE_S) -> LogEvidence:
        """The lines of the logs that this job's processes on this machine write; see `jupyter_traindbg.log_lines.read`."""
        from . import log_lines

        return log_lines.read(self._pids_here(), named_launcher(self.name), self._left_logs(), timeout)

    def _left_logs(self) -> Sequence[str]:
        """Patterns of the logs that processes of the job leave behind on this machine."""
        dead = [link for link in self._links if link.ended() is not None]
        return list(dict.fromkeys(glob.escape(log) for link in dead for log in link.noted.logs))

    def checkpoint(
        self,
        directory: str,
        *,
        overwrite: bool = False,
        allow_mixed: bool = False,
        progress: Callable[[int, int], None] | None = None,
        timeout: float = DEADLINE_S,
    ) -> Checkpoint:
        """Save everything that the training needs to go on to `directory`, also of a job that hangs; see `traindbg.resume`.

        The training stands still for one copy of its state in memory, on all ranks at the same step; a hung job is saved as it stands.
        `overwrite`: the directory may exist, and is replaced once the new one is complete. `allow_mixed`: also where the ranks are at
        different steps. `progress` is called with the bytes written and to be written, in place of a bar. `timeout` bounds every step but
        the writing, which goes on as long as bytes move. Raises `ActionRefused` and other `TraindbgError`; then nothing is left of the
        attempt, and an older checkpoint is as it was.
        """
        from .progress import BytesBar

        options: dict[str, Any] = {"overwrite": overwrite, "allow_mixed": allow_mixed, "timeout": timeout}
        if progress is not None:
            return self._checkpoint(directory, progress=progress, **options)
        with BytesBar("checkpoint") as bar:
            return self._checkpoint(directory, progress=bar, **options)

    def checkpoint_plan(self, directory: str, *, timeout: float = DEADLINE_S) -> CheckpointPlan:
        """What `checkpoint` would write there, and what is against it; changes nothing. Raises what `checkpoint` would refuse with."""
        from .actions.checkpoint.planning import plan

        self.need_training(timeout)
        if self._ranks is None:
            self.enter(timeout)
        return plan(self.open_links(), directory, timeout)

    def _checkpoint(
        self,
        directory: str,
        *,
        overwrite: bool,
        allow_mixed: bool,
        timeout: float,
        progress: Callable[[int, int], None],
    ) -> Checkpoint:
        from .actions.checkpoint import save

        self.need_training(timeout)
        if self._ranks is None:
            self.enter(timeout)
        links = self.open_links()
        made = save(links, directory, overwrite=overwrite, allow_mixed=allow_mixed, timeout=timeout, progress=progress)
        if not made.missing_ranks or self.part is None:
            return made
        return dataclasses.replace(
            made, notes=(*made.notes, f"only this process was asked; {self.part.whole} names all of its job")
        )

    def compare(self, path: str, *, timeout: float = DEADLINE_S) -> Compared:
        """The keys of the checkpoint at `path` against this job's model (of several, the one that it fits best), with the likely reasons.

        Executes nothing of the checkpoint. Raises `UsageError` or `BadCheckpoint` for a file that has no model's keys.
        """
        from . import checkpoints

        answers, _ = self.ask_agents("keys", {}, timeout, lambda rank, pid, answer: answer)
        models: list[Any] = next((answer["models"] for answer in answers if answer["models"]), [])
        if not models:
            raise ProbeFailed(
                text("there is nothing to compare with: {why}", why=answers[0]["note"]),
                text("name another job, or a checkpoint"),
            )
        found = [checkpoints.compare(path, m["keys"], right_name=f"{m['class']} of {self.name}") for m in models]
        return max(found, key=lambda compared: compared.same)

    def keep(self, *, timeout: float = DEADLINE_S) -> None:
        """Let the agents stay when this job is closed, until `detach`."""
        self.ask_agents("keep", {}, timeout, lambda rank, pid, answer: answer)

    def close(self) -> None:
        """Say goodbye. An agent whose last client leaves takes itself out of its process, hooks, threads and files; see `keep`."""
        self._end_watching()
        links, self._links = self._links, []
        ask_each(links, lambda link: link.leave(), LEAVE_S)

    def detach(self, *, force: bool = False) -> int:
        """Take the agents out now, also from under other clients and although they were to be kept; how many left. See `detached`."""
        return self.detached(force=force).processes

    def detached(self, *, force: bool = False, timeout: float = DEADLINE_S) -> Detached:
        """`detach`, as a result that can be shown.

        What `set_lr` and the like have put in force ends: released at the same step of all ranks first, where they step. Raises
        `ActionRefused` where it would end on some ranks of the job alone, unless `force`.
        """
        from .actions import tuning

        self._end_watching()
        ask_each(self._links, lambda link: link.answering(), ANSWERING_S)
        there = [link for link in self._links if link.client is not None]
        ended, note = tuning.end_all(there, timeout, force=force)
        links, self._links = self._links, []
        left = ask_each(links, lambda link: link.leave(force=True), LEAVE_S)
        return Detached(self.name, sum(1 for _, stopped in left if stopped is True), tuple(ended), note)

    def _ended(self) -> Mapping[int, str]:
        """The ranks on this machine whose process has ended, and how."""
        return {link.rank: gone.cause for link in self._links if (gone := link.ended()) is not None}

    @property
    def several(self) -> bool:
        """Whether it has more than one rank, as far as is known without asking."""
        return len(self._links) > 1

    def open_links(self) -> list[Link]:
        """The lines to its ranks, for questions and actions. Raises `TargetGone` where this job is closed."""
        if not self._links:
            raise TargetGone.job_closed(self.name)
        return self._links

    def ask_agents(
        self,
        method: str,
        params: Mapping[str, Any],
        timeout: float,
        build: Callable[[int, int, Any], T],
        *,
        of_rank: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> tuple[tuple[T, ...], tuple[Silent, ...]]:
        """See `jupyter_traindbg.questions.base.Ranks`."""
        if method in _OF_TRAINING:
            self.need_training(timeout)

        def one(link: Link) -> T:
            asked = {**params, **(of_rank or {}).get(link.rank, {})}
            answer = link.call(method, asked, timeout)  # which may tell the rank
            return build(link.rank, link.pid, answer)

        asked = ask_all(self.open_links(), one, timeout).need_one()
        return tuple(answer for _, answer in asked.answers), asked.silent

    def on_each_host(
        self, look: Callable[Concatenate[Sequence[Link], P], T], timeout: float, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Mapping[str, T], tuple[Silent, ...]]:
        """See `jupyter_traindbg.questions.base.Ranks`: all of them are here."""
        return {"": look(self.open_links(), *args, **kwargs)}, ()

    def host_clocks(self, hosts: Sequence[str]) -> Mapping[str, Clock]:
        """See `jupyter_traindbg.questions.base.Ranks`."""
        return dict.fromkeys(hosts, Clock())
