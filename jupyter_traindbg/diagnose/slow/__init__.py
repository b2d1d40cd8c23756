"""Why the steps of a training take as long as they do: one file a family of causes, each with a ``rule(case)``, which tells what mending it
would save, and ``words(case)``, which tells what it saw where there is nothing to mend. Pure functions.

A family says in ``EXPLAINS`` which codes are merely symptoms of one of its own.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from types import ModuleType

from ...language import text
from ...model import RankWindow, Slow, SlowCause, SlowLine, SlowRank, SourceLine
from ..at_source import at_source
from .case import Case, View, by_frame, whole_case

__all__ = ["families", "judge"]

ORDER = ("data", "parallel", "garbage", "lines", "compiling", "syncs", "host", "drift")
LINES = 5
"""So many lines of a rank are told."""


def families() -> list[ModuleType]:
    """The modules here that have a ``rule``, in the order in which they are told."""
    found = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return sorted((m for m in found if hasattr(m, "rule")), key=lambda m: ORDER.index(m.__name__.rsplit(".", 1)[-1]))


def judge(windows: Sequence[RankWindow], lines: Mapping[str, SourceLine]) -> Slow:
    """Where the steps go, and the causes, in the order of what mending them would save."""
    case = whole_case(sorted(windows, key=lambda window: (window.rank, window.pid)), lines)
    told = families()
    causes = _ordered([cause for family in told for cause in family.rule(case)], told) if case.stepping else []
    findings = at_source([cause.finding for cause in causes], lines)
    return Slow(
        tuple(_rank(view) for view in case.views),
        causes=tuple(dataclasses.replace(c, finding=f) for c, f in zip(causes, findings, strict=True)),
        looked_at=_looked_at(case, told),
        window_s=max((view.window.window_s for view in case.views), default=0.0),
    )


def _ordered(causes: Sequence[SlowCause], told: Sequence[ModuleType]) -> list[SlowCause]:
    """The one that saves most first, without those that another one explains, or that blame the same line for the same time."""
    explained: dict[str, set[str]] = {}
    for family in told:
        for code, symptoms in family.EXPLAINS.items():
            explained.setdefault(code, set()).update(symptoms)
    kept: list[SlowCause] = []
    for cause in sorted(causes, key=lambda c: -c.saves_s):
        mine = cause.finding
        same = any(k.finding.where == mine.where and mine.where is not None for k in kept)
        symptom = any(mine.code in explained.get(c.finding.code, ()) for c in causes)
        if not same and not symptom:
            kept.append(cause)
    return kept


def _looked_at(case: Case, told: Sequence[ModuleType]) -> tuple[str, ...]:
    if not case.stepping:
        return ()
    return tuple(text("{topic}: {words}", topic=text(family.TOPIC), words=family.words(case)) for family in told)


def _rank(view: View) -> SlowRank:
    """What is shown of a rank."""
    window = view.window
    if not view.step_s:
        return SlowRank(
            window.rank, window.pid, 0, None, looks=len(view.slices), lines=_lines(view), worker=window.worker
        )
    parts = view.parts
    return SlowRank(
        window.rank,
        window.pid,
        len(view.steps),
        view.step_s,
        parts["data"],
        parts["forward"],
        parts["backward"],
        parts["optimizer"],
        None if window.host.cuda else parts["communication"],
        parts["rest"],
        looks=len(view.slices),
        lines=_lines(view),
        worker=window.worker,
    )


def _lines(view: View) -> tuple[SlowLine, ...]:
    """Seconds of a step; of the window's time, where there was none."""
    found = []
    for part in sorted({one.part for one in view.slices}):
        slices = view.of(part)
        for frame, _ in by_frame(slices)[:LINES]:
            here = [one for one in slices if one.frame == frame]
            idle = [one for one in here if one.idle]
            own_s = sum(one.own_s for one in here)
            seconds = view.own_seconds(here) if view.step_s else own_s
            found.append(SlowLine(frame, part, seconds, sum(one.own_s for one in idle) / own_s if own_s else 0.0))
    return tuple(sorted(found, key=lambda line: -line.seconds)[:LINES])
