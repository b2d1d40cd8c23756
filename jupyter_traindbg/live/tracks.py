"""What is remembered of each rank while it is watched: enough to say what it does, in constant memory and time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model import NewSteps, StepNumber
from .series import COLUMNS, row

__all__ = ["Track", "ahead_of", "share_latest"]

TIME, LOSS, STEP_S = COLUMNS.index("time_s"), COLUMNS.index("loss"), COLUMNS.index("step_s")
LR = COLUMNS.index("lr")
WARM_UP = 2
"""The first steps compile and build: how long they take is no habit."""
LATEST, LEAST_LATEST, LATEST_IN_ALL = 2048, 64, 32768
"""So many records of a rank are kept as they were told, at most and at least, and of all ranks together."""
DAY_S = 86400.0
SKEW_S = 2.0
"""Clocks that are no further apart than that are taken to agree."""
JUMP, SUDDEN = 1.5, 5.0
"""A learning rate jumps where it is so many times another one, and changes so many times more than it did at the step before."""


@dataclass
class Track:
    """One rank. Steps are counted as in `History`, times are by our clock, in seconds since the epoch."""

    rank: int
    pid: int = 0
    began_s: float = 0.0
    """When it was first asked."""
    step: int = 0
    own_step: int | None = None
    """Its latest step by the optimizer's own count; None where that keeps none."""
    told_s: float | None = None
    """When it told of it, by the clock of its host."""
    backwards: int = 0
    """Backward passes since its latest step."""
    optimizers: set[int | None] = field(default_factory=set)
    """The numbers of the optimizers that were seen stepping: the counts of several say nothing of each other."""
    step_at_s: float | None = None
    """When its latest step ended."""
    longest_s: list[float] = field(default_factory=list)
    """The two longest steps, the longest first."""
    bad_since: int | None = None
    """The first step of those, up to the latest one, whose losses were not finite."""
    bad_since_own: int | None = None
    """The same step by the optimizer's own count."""
    bad_runs: list[int] = field(default_factory=list)
    """The first steps of such stretches, also of those that are over; emptied by who reads them."""
    last_loss: float | None = None
    problem: str = ""
    silent_since_s: float | None = None
    gone: bool = False
    between_cells: bool = False
    """It trains in a kernel's cells, and at the last answer none ran."""
    offset: int = 0
    """To be added to the number that its agent gives a step: an earlier agent had counted so many."""
    agent_step: int = 0
    lr_jumps: list[tuple[int, float, float]] = field(default_factory=list)
    """Steps at which the schedule made a jump, and the learning rates before and after; emptied by who reads them."""
    restarted: bool = False
    latest: deque[Sequence[Any]] = field(default_factory=lambda: deque(maxlen=LATEST))
    """Its latest records as its agent told them, in the order of ``fields``: what is left of it when it has ended."""
    fields: Sequence[str] = ()
    _aheads: set[int] = field(default_factory=set)
    """By how many steps the optimizer's own count was ahead of ours; of several figures two are kept."""
    _lag_s: float = math.inf
    """The least time by which a step's end, by its own clock, lay before its arrival here: clocks of hosts differ."""
    _rates: list[float] = field(default_factory=list)

    def take(self, answer: NewSteps, now_s: float) -> list[tuple[int, list[float | None]]]:
        """Take in an answer; its records as step numbers and values (see `series.row`)."""
        self.pid = answer.pid
        if answer.problem:
            self.problem, self.gone = answer.problem, answer.gone
            self.silent_since_s = self.silent_since_s or now_s
            return []
        self.problem, self.silent_since_s, self.gone = "", None, False
        self.between_cells = answer.between_cells
        if answer.last_step < self.agent_step:  # another agent, which counts from the beginning
            self.offset = self.step
            self.restarted = True
            self.latest.clear()
        self.agent_step = answer.last_step
        self.told_s, self.backwards = answer.told_s, answer.backwards
        self._keep(answer)
        rows = [row(answer.fields, record) for record in answer.records]
        rows = [(step + self.offset, values) for step, values in rows]
        for (step, values), own in zip(rows, self._owns(answer), strict=True):
            if own is not None and len(self._aheads) < 2:
                self._aheads.add(own - step)
            if step > self.step:
                self._see(step, values, own)
            elif step == self.step:  # that of a GPU's optimizer arrives later
                self.own_step = own
        if rows:
            self.step_at_s = self._by_our_clock(rows[-1][1][TIME], now_s)
        return rows

    def _keep(self, answer: NewSteps) -> None:
        """Some are told twice: the figures of a GPU arrive later."""
        if answer.records:
            self.fields = answer.fields
            at = self.fields.index("step")
            while self.latest and self.latest[-1][at] >= answer.records[0][at]:
                self.latest.pop()
            self.latest.extend(answer.records)

    def _owns(self, answer: NewSteps) -> list[int | None]:
        """The own count of each record, and which optimizers they are of."""
        at = {name: i for i, name in enumerate(answer.fields)}
        if "optimizer" in at:
            self.optimizers |= {record[at["optimizer"]] for record in answer.records}
        own = at.get("optimizer_step")
        return [None if own is None else record[own] for record in answer.records]

    @property
    def number(self) -> StepNumber:
        """Its latest step."""
        return StepNumber(self.step, self.own_step)

    @property
    def ahead(self) -> int | None:
        """By how many steps the optimizer's own count is ahead of ours. None where it keeps none, or where the two did not go on together:
        counting began anew on the way, a GradScaler had a step skipped that we counted, several optimizers step.
        """
        return next(iter(self._aheads)) if len(self._aheads) == 1 and len(self.optimizers) <= 1 else None

    def _by_our_clock(self, ended_s: float | None, now_s: float) -> float:
        """When a step that has just been told of has ended. Of a first answer the step may be old, if the clocks agree."""
        lag_s = math.inf if ended_s is None else now_s - ended_s
        first, self._lag_s = self._lag_s == math.inf, min(self._lag_s, lag_s)
        if ended_s is None or (first and not 0 <= lag_s < DAY_S):
            return now_s
        skew_s = 0.0 if first or abs(self._lag_s) <= SKEW_S else self._lag_s
        return min(now_s, ended_s + skew_s)

    def _see(self, step: int, values: Sequence[float | None], own: int | None) -> None:
        self.step, self.own_step = step, own
        took, loss, rate = values[STEP_S], values[LOSS], values[LR]
        if took is not None and step - self.offset > WARM_UP:
            self.longest_s = sorted([*self.longest_s, took], reverse=True)[:2]
        if loss is not None:
            self.last_loss = loss
            if math.isfinite(loss):
                self.bad_since = None
            elif self.bad_since is None:
                self.bad_since, self.bad_since_own = step, own
                self.bad_runs.append(step)
        if rate is not None:
            self._see_rate(step, rate)

    def _see_rate(self, step: int, rate: float) -> None:
        rates = self._rates
        if len(rates) == 2 and rates[1] > 0 and rate > 0:
            change, before = abs(rate - rates[1]), abs(rates[1] - rates[0])
            if max(rate / rates[1], rates[1] / rate) >= JUMP and change > SUDDEN * before:
                self.lr_jumps.append((step, rates[1], rate))
        self._rates = [*rates[-1:], rate]

    @property
    def usual_pause_s(self) -> float | None:
        """The longest pause between two steps that it got over before; of several the second longest, for one outlier is no habit."""
        return self.longest_s[-1] if self.longest_s else None


def ahead_of(tracks: Iterable[Track]) -> int | None:
    """The same of several ranks, each of which counts since its own attach: that of who counts longest; None where one has none."""
    told = [track.ahead for track in tracks]
    known = [ahead for ahead in told if ahead is not None]
    return min(known, default=None) if len(known) == len(told) else None


def share_latest(tracks: Sequence[Track]) -> None:
    """Have all of them together keep no more than `LATEST_IN_ALL` records."""
    each = max(LEAST_LATEST, min(LATEST, LATEST_IN_ALL // max(1, len(tracks))))
    for track in tracks:
        track.latest = deque(track.latest, maxlen=each)
