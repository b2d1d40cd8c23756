"""One change at the same step of all ranks, or on none of them: the coordinator of `jupyter_traindbg.agent.agreed`.

All ranks are asked where they are, a step a little ahead is chosen, every rank prepares for it, and only when all have, one file (or one
key in the store of their process group, see `ballot`) says ``commit``. A rank that gets there earlier writes ``abort`` into the same place,
and the whole is tried again further ahead. Since it is written once, by whoever is first, the ranks have one answer even if this process
is killed between any two lines of this module.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..agent.agreed import ABORT, COMMIT
from ..attach.base import Link, ask_each, identified, whole_job
from ..errors import ActionRefused, StepOver, TraindbgError
from ..language import text
from ..outside import procfs
from ..words.ranks import ranks_words
from .ballot import Ballot, open_ballot
from .matching import Pace, Unmatched, margin, numbered_alike, offsets

__all__ = ["Agreement", "RankOutcome", "agree", "missing_ranks", "require_all"]

ATTEMPTS = 3
QUICK_S = 3.0
"""How long an agent may take to say where its rank is; a healthy one takes milliseconds."""
LOOK_AGAIN_S = 0.02
GONE_STATES, STOPPED_STATES = "ZX", "Tt"

Params = Mapping[str, Any] | Callable[[Link], Mapping[str, Any]]
Check = Callable[[Sequence[tuple[Link, Any]]], None]
"""Looks at what the ranks have prepared, before it is decided; raises `ActionRefused`."""


@dataclass(frozen=True)
class RankOutcome:
    """What became of it on one rank. ``at_step`` is how many steps (since the attach) were behind it when it was done.

    ``done`` is False while the rank has not come to the agreed step yet: then it will be done there. ``problem`` says why the rank, which
    had agreed, cannot tell.
    """

    rank: int
    pid: int
    prepared: Any
    after_step: int
    done: bool
    at_step: int | None
    value: Any
    problem: str = ""


@dataclass(frozen=True)
class Agreement:
    """What all ranks have agreed on. ``attempts`` tells how often a step had to be chosen."""

    ident: str
    ranks: tuple[RankOutcome, ...]
    attempts: int

    @property
    def done(self) -> bool:
        return all(rank.done for rank in self.ranks)


def agree(
    links: list[Link],
    method: str,
    params: Params,
    timeout: float,
    *,
    ident: str | None = None,
    prepare_s: float = 0.0,
    wait: bool = True,
    check: Check | None = None,
    by_number: bool = False,
    cancel: str = "abort",
) -> Agreement:
    """Have all `links` do `method` after the same optimizer step.

    `params` are the rank's parameters (or a function that gives them for a link), to which are added: ``do`` (prepare, outcome or abort),
    ``ident``, ``after_step``, ``decision`` and ``wait_s``. `prepare_s` is about how long a rank takes to prepare; `check` sees what they
    have prepared. `cancel` is said instead of abort, where that means more than to forget what was prepared. `by_number`: optimizers are
    meant by their numbers, which must then be the same on all ranks. Waits until all have done it, at most `timeout` seconds in all;
    without `wait`, only until it is decided. Raises `ActionRefused`, with the rank that was the reason, where it is done nowhere; what any
    rank refuses is refused for all.
    """
    ends = time.monotonic() + timeout
    require_all(links, timeout)
    ident = ident or uuid.uuid4().hex[:16]
    round_ = _Round(links, method, params, ident=ident, ends=ends, check=check, by_number=by_number, cancel=cancel)
    if len(links) == 1:
        round_.prepare([0], None)
        return Agreement(ident, round_.outcomes(wait), 1)
    with open_ballot(links, _paces(links, ends)[0].directory, ends) as ballot:
        for attempt in range(ATTEMPTS):
            began = time.monotonic()
            if round_.commit(ballot, attempt, prepare_s):
                outcomes = round_.outcomes(wait)
                ballot.settled = all(o.done for o in outcomes)
                return Agreement(ident, outcomes, attempt + 1)
            prepare_s = max(prepare_s, time.monotonic() - began)
            if time.monotonic() > ends:
                break
    raise ActionRefused(
        text("the ranks step too fast to agree on one step: {attempts} attempts came too late", attempts=attempt + 1),
        text("nothing was changed on any rank; try again with a longer --timeout"),
    )


class _Round:
    """The requests of one agreement to its ranks."""

    def __init__(
        self,
        links: list[Link],
        method: str,
        params: Params,
        *,
        ident: str,
        ends: float,
        check: Check | None,
        by_number: bool,
        cancel: str,
    ) -> None:
        self._links, self._method, self._params = links, method, params
        self._ident, self._ends, self._check, self._by_number = ident, ends, check, by_number
        self._cancel = cancel
        self._prepared: list[Any] = []
        self._after: Sequence[int] = []

    def commit(self, ballot: Ballot, attempt: int, prepare_s: float) -> bool:
        """Choose a step and have all ranks prepare for it: True where it is decided, False where some rank was there first."""
        paces, shift = _matched(self._links, self._ends)
        if self._by_number and not numbered_alike(paces, shift):
            raise ActionRefused(
                text(
                    "the ranks number their optimizers differently, since their agents came in the middle of an iteration"
                ),
                text("nothing was changed on any rank; detach and attach again, or change all optimizers together"),
            )
        latest = max(pace.step - by for pace, by in zip(paces, shift, strict=True))
        target = latest + margin(paces, prepare_s, attempt)
        decision = ballot.open(f"decision-{self._ident}-{attempt}")
        try:
            in_time = self.prepare([target + by for by in shift], decision)
            if in_time and ballot.cast(COMMIT) == COMMIT:
                return True
        except BaseException:
            if ballot.cast(ABORT) == ABORT:
                self._abort()
            raise
        ballot.cast(ABORT)
        self._abort()
        return False

    def prepare(self, after: Sequence[int], decision: str | None) -> bool:
        """True where all ranks have prepared, False where one was past its step. Raises what another one refuses."""
        step_of = {id(link): step for link, step in zip(self._links, after, strict=True)}

        def one(link: Link) -> Any:
            return self._call(link, "prepare", self._left(), after_step=step_of[id(link)], decision=decision)

        self._after = after
        answers = ask_each(self._links, one, self._left())
        late = [isinstance(a, StepOver) for _, a in answers]
        for (link, answer), was_late in zip(answers, late, strict=True):
            if isinstance(answer, TraindbgError) and not was_late:
                raise answer if isinstance(answer, ActionRefused) else _cannot_take_part(link, answer)
        self._prepared = [answer for _, answer in answers]
        if self._check is not None and not any(late):
            self._check(answers)
        return not any(late)

    def outcomes(self, wait: bool) -> tuple[RankOutcome, ...]:
        """What became of it everywhere, waiting until the end where `wait` is set."""

        wait_s = max(0.0, self._ends - time.monotonic()) if wait else 0.0

        def one(link: Link) -> Any:
            return self._call(link, "outcome", wait_s + QUICK_S, wait_s=wait_s)

        answers = ask_each(self._links, one, wait_s + QUICK_S)
        return tuple(self._outcome(n, link, answer) for n, (link, answer) in enumerate(answers))

    def _outcome(self, n: int, link: Link, answer: Any) -> RankOutcome:
        prepared, after = self._prepared[n], self._after[n]
        if isinstance(answer, TraindbgError):
            return RankOutcome(link.rank, link.pid, prepared, after, False, None, None, str(answer))
        # All had prepared and the decision stands, so this is a rank that cannot read it.
        problem = text("it did not find the decision, and did nothing") if answer["aborted"] else ""
        return RankOutcome(
            link.rank, link.pid, prepared, after, answer["done"], answer["at_step"], answer["value"], problem
        )

    def _abort(self) -> None:
        """Tell all ranks to forget it. One that does not hear it finds ``abort``."""
        left = max(0.5, min(QUICK_S, self._left()))
        ask_each(self._links, lambda link: self._call(link, self._cancel, left), left)

    def _call(self, link: Link, do: str, deadline_s: float, **more: Any) -> Any:
        given = self._params(link) if callable(self._params) else self._params
        return link.call(self._method, {**given, "do": do, "ident": self._ident, **more}, deadline_s)

    def _left(self) -> float:
        return max(0.05, self._ends - time.monotonic())


def require_all(links: list[Link], timeout: float) -> None:
    """Bring an agent into every rank, and raise `ActionRefused` where a rank has none or is not among `links`. Puts them in order."""
    for link, rank in identified(links, timeout):
        if not rank.agent:
            raise _cannot_take_part(link, link.problem or ActionRefused(rank.note))
    links.sort(key=lambda link: (link.rank, link.pid))
    there, missing = sorted({link.rank for link in links}), missing_ranks(links)
    if missing:
        raise ActionRefused(
            text(
                "this is only {there} of {count}: {missing} would not change, and they would drift apart",
                there=ranks_words(there),
                count=len(there) + len(missing),
                missing=ranks_words(missing),
            ),
            text(
                "nothing was changed; name the whole job, {job}, so that all ranks change at the same step",
                job=whole_job(links),
            ),
        )


def missing_ranks(links: list[Link]) -> list[int]:
    """The ranks of this job that are not among `links`, which have said who they are."""
    world_size, there = max(link.world_size for link in links), {link.rank for link in links}
    return [rank for rank in range(world_size) if rank not in there] if len(links) < world_size else []


def _cannot_take_part(link: Link, error: TraindbgError) -> ActionRefused:
    why = error.cause
    if link.here:
        process = procfs.stat(link.pid)
        if process is None or process.state in GONE_STATES:
            why = text("it has ended")
        elif process.state in STOPPED_STATES:
            why = text("it is stopped (SIGSTOP, or a debugger holds it)")
    return ActionRefused(
        text("rank {rank} (pid {pid}) cannot take part: {why}", rank=link.rank, pid=link.pid, why=why),
        text("nothing was changed on any rank; `traindbg stacks` shows from outside what that rank is doing"),
    )


def _matched(links: list[Link], ends: float) -> tuple[list[Pace], list[int]]:
    """Where the ranks are and how their step numbers differ; waits for steps that they share, half of the time left at most."""
    look_until = time.monotonic() + (ends - time.monotonic()) / 2
    for pause in _pauses():
        paces = _paces(links, ends)
        try:
            return paces, offsets(paces)
        except Unmatched as e:
            if time.monotonic() + pause > look_until:
                raise ActionRefused(
                    text("the ranks cannot agree on one step: {why}", why=e),
                    text("nothing was changed on any rank; where steps are long, give a --timeout of several steps"),
                ) from None
        time.sleep(pause)
    raise AssertionError("unreachable")


def _pauses() -> Iterator[float]:
    pause = LOOK_AGAIN_S
    while True:
        yield pause
        pause = min(0.25, pause * 1.5)


def _paces(links: list[Link], ends: float) -> list[Pace]:
    def one(link: Link) -> Pace:
        began = time.monotonic()
        told = link.call("pace", {}, max(0.05, min(QUICK_S, ends - began)))
        return Pace(
            link.rank,
            told["step"],
            told["marks"],
            told["usual_step_s"],
            told["mean_step_s"],
            told["since_last_step_s"],
            told["directory"],
            time.monotonic() - began,
        )

    paces = []
    for link, pace in ask_each(links, one, QUICK_S):
        if isinstance(pace, TraindbgError):
            raise _cannot_take_part(link, pace)
        paces.append(pace)
    return paces
