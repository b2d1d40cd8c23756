"""What changes where a run is resumed in the same log: the learning rate starts again (``learning_rate_restarted``), the loss jumps
(``loss_jump_after_resume``). Needs figures on both sides of the resume."""

from __future__ import annotations

import re
from statistics import median

from ....model import LogEvidence, LogLine, LogSeries
from .. import trends
from ..metric_names import is_learning_rate, is_main_loss
from . import Fact

__all__ = ["facts"]

_RESUME = re.compile(
    r"(?i)\bresum(?:ing|ed)\b.{0,60}(?:from|training|checkpoint|step|epoch)|"
    r"(?:loaded|loading|restored|restoring) (?:from )?(?:the )?checkpoint|successfully loaded checkpoint|Continuing training from"
)
_WORDS = ("esum", "heckpoint", "ontinuing")
"""One of them is in whatever matches; looked for first because that is fast."""
AROUND = 5


def facts(evidence: LogEvidence) -> list[Fact]:
    for line in evidence.lines:
        if any(w in line.text for w in _WORDS) and _RESUME.search(line.text):
            found = [*_rate(evidence, line), *_loss(evidence, line)]
            if found:
                return found
    return []


def _sides(series: LogSeries, line: LogLine) -> tuple[list[trends.Point], list[trends.Point]]:
    points = trends.finite(series)
    return [p for p in points if p[0] < line.number][-20:], [p for p in points if p[0] > line.number][:20]


def _rate(evidence: LogEvidence, line: LogLine) -> list[Fact]:
    for s in evidence.series:
        before, after = _sides(s, line)
        if s.source != line.source or not is_learning_rate(s.name) or len(before) < AROUND or len(after) < AROUND:
            continue
        old, new = median([v for _, v in before[-3:]]), after[0][1]  # a setting may be printed between
        if old > 0 and not 0.3 < new / old < 3 and _goes_on(evidence, line):
            values: dict[str, float | str] = {
                "lr_before": trends.plain(old),
                "lr_after": trends.plain(new),
                "lr_line": after[0][0],
            }
            return [Fact("learning_rate_restarted", trends.line_at(evidence, s.source, after[0][0]), values, s.rank)]
    return []


def _loss(evidence: LogEvidence, line: LogLine) -> list[Fact]:
    for s in evidence.series:
        before, after = _sides(s, line)
        if s.source != line.source or not is_main_loss(s.name) or len(before) < AROUND or len(after) < AROUND:
            continue
        old, new = (median([v for _, v in part[:AROUND]]) for part in (before[-AROUND:], after))
        if old > 0 and new > 1.3 * old and new - old > 5 * trends.noise(before) and _goes_on(evidence, line):
            values: dict[str, float | str] = {
                "name": s.name,
                "loss_before": old,
                "loss_after": new,
                "loss_line": after[0][0],
            }
            return [Fact("loss_jump_after_resume", trends.line_at(evidence, s.source, after[0][0]), values, s.rank)]
    return []


def _goes_on(evidence: LogEvidence, line: LogLine) -> bool:
    """Whether the step counter goes on across the resume; another run that begins at 0 in the same file is no resume."""
    for name in ("global_step", "step", "iteration", "iter", "epoch"):
        for s in evidence.series:
            before, after = _sides(s, line)
            if s.source == line.source and s.name == name and before and after:
                return after[0][1] >= 0.5 * before[-1][1] > 0
    return False
