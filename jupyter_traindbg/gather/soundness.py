"""Whether the training of one rank is sound, asked beside the rest of the evidence: over a line of its own, so that neither waits."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .. import evidence
from ..attach.base import Link
from ..errors import TraindbgError
from ..evidence_soundness import soundness
from ..model import Maybe, NotAvailable, RankGrads, Soundness, Step
from .watched import Plan

__all__ = ["look"]

T = TypeVar("T")

STEPS = 256
"""So many of the latest records are judged."""
ENTER_S = 0.5
LATE_S = 1.0
"""How much longer than the window the answer may take."""
USUAL_STEPS, LEAST_S, MOST_S = 2.5, 0.5, 4.0
"""How long the next step is waited for, to read gradients there: so many usual ones (or backward passes), within these bounds."""
IDLE_S = 0.25
"""So long an agent looks whether its process stands still, before it takes a backward pass in place of a step."""
RECENT_S = 2.0
_NO_STEP = NotAvailable("neither a step nor a backward pass came during the look")


def look(link: Link, plan: Plan) -> Maybe[Soundness]:
    """Watch the rank behind `link` over the plan's window, then read its gradients at its next step. Never later than the plan's end."""
    plan.opened.wait(max(0.0, plan.left_s))
    if not _entered(link, plan):
        return NotAvailable(link.problem.cause if link.problem is not None else "no agent came in in time")
    line = link.twin()
    try:
        line.enter(max(0.05, min(ENTER_S, plan.left_s)))
        return _Asked(line, plan).all()
    except TraindbgError as e:
        return NotAvailable(e.cause)
    finally:
        if line.client is not None:
            line.client.close()


def _entered(link: Link, plan: Plan) -> bool:
    """Whether its agent is there, or comes within half of the window."""
    until = min(plan.opened_at + plan.window_s / 2, plan.ends)
    while link.client is None and time.monotonic() < until:
        time.sleep(0.02)
    return link.client is not None


class _Asked:
    """One rank's answers, each with what is left of the time."""

    def __init__(self, line: Link, plan: Plan) -> None:
        self._line, self._plan = line, plan

    def all(self) -> Soundness:
        line, plan = self._line, self._plan
        window_s = max(0.1, plan.opened_at + plan.window_s - time.monotonic())
        seen = soundness(line.call("soundness", {"window_s": window_s}, min(window_s + LATE_S, max(0.05, plan.left_s))))
        recorded = self._ask(
            "steps",
            {"last": STEPS, "deadline_s": 0.0, "this_run": True},
            lambda a: evidence.steps(line.rank, line.pid, a),
        )
        steps: Sequence[Step] = () if isinstance(recorded, NotAvailable) else recorded.steps
        return dataclasses.replace(
            seen,
            steps=steps,
            run_began=1 if isinstance(recorded, NotAvailable) else recorded.run_began,
            lr=self._ask("lr", {}, lambda a: evidence.lr(line.rank, line.pid, a)),
            grads=self._grads(steps, seen),
        )

    def _grads(self, steps: Sequence[Step], seen: Soundness) -> Maybe[RankGrads]:
        """At the next step, where steps come; else at the end of a backward pass, which the agent takes after half of the time."""
        if seen.steps_in_window or _recent(steps):
            wait_s = USUAL_STEPS * _usual_s(steps, seen)
        elif seen.backwards:
            wait_s = 2 * (USUAL_STEPS * seen.window_s / seen.backwards + IDLE_S)
        else:
            return _NO_STEP
        wait_s = min(max(LEAST_S, wait_s), MOST_S, self._plan.left_s)
        if wait_s < LEAST_S / 2:
            return NotAvailable("there was no time left to wait for a step")
        return self._ask(
            "grads", {"deadline_s": wait_s * 0.9}, lambda a: evidence.grads(self._line.rank, self._line.pid, a), wait_s
        )

    def _ask(self, method: str, params: dict[str, Any], build: Callable[[Any], T], wait_s: float = LATE_S) -> Maybe[T]:
        try:
            return build(self._line.call(method, params, max(0.05, min(wait_s, self._plan.left_s))))
        except TraindbgError as e:
            return NotAvailable(e.cause)


def _recent(steps: Sequence[Step]) -> bool:
    """Whether the last step was a moment ago, as steps of this job go."""
    return bool(steps) and time.time() - steps[-1].time_s < max(RECENT_S, USUAL_STEPS * _duration_s(steps))


def _usual_s(steps: Sequence[Step], seen: Soundness) -> float:
    """How long a step takes, by its records or by how many came."""
    return max(_duration_s(steps), seen.window_s / seen.steps_in_window if seen.steps_in_window else 0.0)


def _duration_s(steps: Sequence[Step]) -> float:
    return statistics.median([s.duration_s for s in steps if s.duration_s is not None] or [0.0])
