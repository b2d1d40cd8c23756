"""`Job`: one attached training job, its ranks and what can be asked of them. Every question has a deadline and names who did not answer."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from . import evidence
from .attach import only_candidate, resolve
from .attach.base import Link
from .errors import DeadlineExceeded, NotPermitted, ProbeFailed, TargetGone, TraindbgError
from .model import (
    Attached,
    Child,
    GpuReport,
    Grads,
    LearningRates,
    Memory,
    ProcessStacks,
    Rank,
    RankMemory,
    Silent,
    Stacks,
    Steps,
)

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["DEADLINE_S", "Job", "attach"]

DEADLINE_S = 10.0
AT_ONCE = 512
"""Ranks asked at the same time: with fewer threads than stuck ranks, their deadlines would add up."""
QUICK_S = 1.0
"""How long an agent may take for stacks before we look from outside."""

T = TypeVar("T")


def attach(target: str | int | None = None, *, timeout: float = DEADLINE_S) -> Job:
    """Attach to a running training job and return it, its processes entered.

    `target` is a pid, ``"kernel:ID_OR_CONNECTION_FILE"``, ``"torchrun:PID"``, the path of an agent's socket or ``"self"``; without
    one, the only candidate there is. Costs 0.1 to 1 s where an agent has to be brought in, 5 ms where one runs. A rank that cannot
    be entered is still a rank: its stacks come from outside. Raises a `TraindbgError` where no rank at all can be had.
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
    return Job(name, resolve(name, timeout))


def gpu_report(timeout: float, **about_the_job: Any) -> GpuReport:
    """This host's GPUs with the verdict on them; `about_the_job` as for `jupyter_traindbg.outside.gpu.report`."""
    from .diagnose import gpu as rules
    from .outside import gpu

    report = gpu.report(timeout, **about_the_job)
    return dataclasses.replace(report, verdict=tuple(rules.findings(report)))


class Job:
    """The ranks of one training job. A context manager: leaving it detaches."""

    def __init__(self, name: str, links: list[Link]) -> None:
        self.name = name
        self.attach_s = 0.0
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

    def enter(self, timeout: float = DEADLINE_S) -> None:
        """Bring an agent into every rank that has none. Raises only where there is no way to look at any of them."""
        began = time.monotonic()
        found = list(_each(self._open_links(), lambda link: link.identify(timeout)))
        self._links = [link for link, _ in sorted(found, key=lambda f: (f[0].rank, f[0].pid))]
        answers = {id(link): answer for link, answer in found}
        self._ranks = [a for link in self._links if isinstance(a := answers[id(link)], Rank)]
        self.attach_s = time.monotonic() - began
        problems = [link.problem for link in self._links]
        if all(isinstance(p, (NotPermitted, TargetGone)) for p in problems) and problems[0] is not None:
            raise problems[0]

    def attached(self) -> Attached:
        """The ranks as a result that can be shown."""
        ranks = self.ranks
        silent = [Silent(r.rank, r.pid, r.note, "") for r in ranks if not r.agent]
        return Attached(self.name, tuple(ranks), self.attach_s, tuple(silent))

    def stacks(self, *, children: bool = True, timeout: float = DEADLINE_S) -> Stacks:
        """What every thread of every rank is doing, with DataLoader workers and other child processes.

        From the agent where one runs (5 ms), else from outside through py-spy (about 20 ms a process), which also answers while the
        GIL is held or the process is stopped. Never brings an agent in.
        """
        began = time.monotonic()
        answers = _each(self._open_links(), lambda link: _process_stacks(link, children, timeout))
        good, silent = _sort_out(answers)
        return Stacks(tuple(p for many in good for p in many), silent, time.monotonic() - began)

    def steps(self, *, since: int = 0, last: int = 0, timeout: float = DEADLINE_S) -> Steps:
        """The optimizer steps recorded since the attach: those after number `since`, at most the `last` ones (0: all, up to 8192)."""
        params = {"since": since, "last": last, "deadline_s": timeout * 0.9}
        return Steps(*self._ask("steps", params, timeout, evidence.steps))

    def grads(self, *, detail: bool = False, first_nan: bool = False, timeout: float = DEADLINE_S) -> Grads:
        """Every parameter's gradient, read at the next safe point, or straight away (and said so) where the job does not step.

        Norms of all; counts, greatest value and zeros of those that are not finite, or of all with `detail`. `first_nan` arms one
        step and names the first module whose output is not finite. Costs the training thread one pass over the gradients.
        """
        from .diagnose import gradients

        params = {"deadline_s": timeout * 0.9, "detail": detail, "first_nan": first_nan}
        ranks, silent = self._ask("grads", params, timeout, evidence.grads)
        return Grads(ranks, silent, tuple(gradients.findings(ranks)))

    def lr(self, *, timeout: float = DEADLINE_S) -> LearningRates:
        """Learning rate, weight decay, momentum or betas of every param group, with the scheduler and its next values."""
        return LearningRates(*self._ask("lr", {}, timeout, evidence.lr))

    def memory(self, *, timeout: float = DEADLINE_S) -> Memory:
        """Memory of every rank: resident set, CUDA allocator, who holds what, the curve over the recorded steps and its verdict."""
        from .diagnose import memory_growth
        from .outside import procfs

        def build(rank: int, pid: int, answer: Any) -> tuple[RankMemory, memory_growth.Growth]:
            growth = memory_growth.verdict([p[1] for p in answer["curve"]], answer["first_step"])
            below = [Child(c.pid, c.comm, procfs.rss_bytes(c.pid)) for c in procfs.descendants(pid)]
            return evidence.memory(rank, pid, answer, below, growth.words), growth

        judged, silent = self._ask("memory", {"deadline_s": min(4.0, timeout / 2)}, timeout, build)
        return Memory(tuple(rank for rank, _ in judged), silent, tuple(memory_growth.findings(judged)))

    def gpu(self, *, timeout: float = DEADLINE_S) -> GpuReport:
        """This host's GPUs, with this job's processes marked and numbered as the job sees them."""
        from .outside import procfs

        links = self._open_links()
        environ = procfs.environ(links[0].pid)
        return gpu_report(
            timeout,
            visible=environ.get("CUDA_VISIBLE_DEVICES"),
            device_order=environ.get("CUDA_DEVICE_ORDER"),
            ours={link.pid: link.rank for link in links},
        )

    def keep(self, *, timeout: float = DEADLINE_S) -> None:
        """Let the agents stay when this job is closed, until `detach`."""
        self._ask("keep", {}, timeout, lambda rank, pid, answer: answer)

    def close(self) -> None:
        """Say goodbye. An agent whose last client leaves takes itself out of its process, hooks, threads and files; see `keep`."""
        links, self._links = self._links, []
        for _ in _each(links, lambda link: link.leave()):
            pass

    def detach(self) -> int:
        """Take the agents out now, also from under other clients and although they were to be kept; how many left."""
        links, self._links = self._links, []
        for link in links:
            link.answering()
        left = list(_each(links, lambda link: link.leave(force=True)))
        return sum(1 for _, stopped in left if stopped is True)

    def _open_links(self) -> list[Link]:
        if not self._links:
            raise TargetGone(f"this job ({self.name}) is closed", "attach to it again")
        return self._links

    def _ask(
        self, method: str, params: dict[str, Any], timeout: float, build: Callable[[int, int, Any], T]
    ) -> tuple[tuple[T, ...], tuple[Silent, ...]]:
        """Ask every rank's agent at once; the answers, and who gave none."""

        def one(link: Link) -> T:
            return build(link.rank, link.pid, link.call(method, params, timeout))

        return _sort_out(_each(self._open_links(), one))


def _process_stacks(link: Link, children: bool, deadline_s: float) -> list[ProcessStacks]:
    from .outside import stacks as outside

    ends = time.monotonic() + deadline_s
    client = link.answering()
    if client is not None:
        try:
            inside = evidence.stacks(link.rank, link.pid, client.call("stacks", {}, min(QUICK_S, deadline_s)))
        except (DeadlineExceeded, ProbeFailed):
            pass  # the GIL is held, or our own probe failed: the view from outside, below, is an answer all the same
        else:
            below = outside.below(link.pid, link.rank, deadline_s=ends - time.monotonic()) if children else []
            return [inside, *below]
    return outside.dump(link.pid, link.rank, deadline_s=max(0.5, ends - time.monotonic()), children=children)


def _each(links: list[Link], ask: Callable[[Link], T]) -> Iterable[tuple[Link, T | TraindbgError]]:
    """Ask all links, many at once; each with its answer or why there is none. `ask` keeps the deadline itself."""

    def careful(link: Link) -> T | TraindbgError:
        try:
            return ask(link)
        except TraindbgError as e:
            return e

    if len(links) <= 1:  # no threads for one: a whole `traindbg stacks PID` is to be quick
        return [(link, careful(link)) for link in links]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(AT_ONCE, len(links)), thread_name_prefix="traindbg-ask") as pool:
        return list(zip(links, pool.map(careful, links), strict=True))


def _sort_out(answers: Iterable[tuple[Link, T | TraindbgError]]) -> tuple[tuple[T, ...], tuple[Silent, ...]]:
    """Answers apart from silences; where nobody answered, the first one's reason is raised."""
    good: list[T] = []
    silent: list[Silent] = []
    errors: list[TraindbgError] = []
    for link, answer in answers:
        if isinstance(answer, TraindbgError):
            errors.append(answer)
            silent.append(Silent(link.rank, link.pid, answer.cause, answer.next_step))
        else:
            good.append(answer)
    if errors and not good:
        raise errors[0]
    return tuple(good), tuple(silent)
