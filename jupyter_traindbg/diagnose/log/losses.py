"""The losses that a log prints, each with what a rule needs to judge where it goes: its last run, the epochs, the learning rate. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ...model import LogEvidence, LogSeries
from . import trends
from .facts import Fact
from .metric_names import RATES, STEPS, is_evaluation_loss, is_main_loss, is_reinforced

__all__ = ["Loss", "evaluations", "own", "reinforced"]

_EPOCH = re.compile(r"(?i)\bepoch\W{1,4}(\d{1,6})\b(?!\.\d)")


@dataclass(frozen=True)
class Loss:
    """One printed loss."""

    evidence: LogEvidence
    series: LogSeries

    @cached_property
    def points(self) -> list[trends.Point]:
        """Those since the epochs were last counted from the start: a search over settings trains many models in one log."""
        begins = before = 0
        for number, epoch in self._epochs():
            if epoch <= 1 < before:
                begins = number
            before = epoch
        return [point for point in trends.finite(self.series) if point[0] >= begins]

    @cached_property
    def values(self) -> list[float]:
        return [value for _, value in self.points]

    @cached_property
    def epochs(self) -> int:
        """The highest epoch that the log names."""
        return max((epoch for _, epoch in self._epochs()), default=0)

    def _epochs(self) -> Iterator[tuple[int, int]]:
        for line in self.evidence.lines:
            if line.source == self.series.source and (found := _EPOCH.search(line.text)):
                yield line.number, int(found[1])

    def step_at(self, number: int) -> float | None:
        """The step that the log counted at line `number`, or last before it."""
        found = trends.value_at(self.evidence.series, STEPS, self.series.source, number)
        return None if found is None else found[1]

    def begins_again(self, before: int, after: int) -> bool:
        """Whether the step counter goes back between these lines: another run in the same log."""
        for series in self.evidence.series:
            if series.source == self.series.source and series.name in STEPS:
                early = [v for n, v in series.points if n <= before]
                late = [v for n, v in series.points if n >= after]
                if early and late and late[0] < early[-1]:
                    return True
        return False

    def told(self, name: str, at: trends.Point, more: dict[str, float | str] | None = None) -> Fact:
        """The fact `name`, which shows first at the point `at`, with what the texts of its family need."""
        lowest = min(self.points, key=lambda p: p[1])
        first, last = trends.medians(self.points)
        values: dict[str, float | str] = {
            "name": self.series.name,
            "count": self.series.count,
            "first": first,
            "last": last,
            "lowest": lowest[1],
            "lowest_line": lowest[0],
            "noise": trends.noise(self.points),
        }
        rate = trends.value_at(self.evidence.series, RATES, self.series.source, self.points[-1][0])
        if rate:
            values["lr"] = trends.plain(rate[1])
        line = trends.line_at(self.evidence, self.series.source, at[0])
        return Fact(name, line, values | (more or {}), self.series.rank)


def own(evidence: LogEvidence) -> list[Loss]:
    """What the training minimises; none where that goes up and down for good reasons, or is not a number."""
    if reinforced(evidence):
        return []
    found = (Loss(evidence, s) for s in evidence.series if s.count and is_main_loss(s.name) and not s.nonfinite)
    return [loss for loss in found if loss.points]


def evaluations(evidence: LogEvidence) -> list[Loss]:
    """The losses of evaluations."""
    if reinforced(evidence):
        return []
    found = (Loss(evidence, s) for s in evidence.series if s.count and is_evaluation_loss(s.name) and not s.nonfinite)
    return [loss for loss in found if loss.points]


def reinforced(evidence: LogEvidence) -> bool:
    """Whether the log is of reinforcement learning, or of adversaries."""
    return any(is_reinforced(s.name) for s in evidence.series)
