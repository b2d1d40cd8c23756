"""What was recorded over the steps, thinned out for a picture: of a feed, or of the steps that a job was asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import NoTarget
from ..language import text
from ..live import Event, Feed
from ..live.curves import Span, Thinned, thin
from ..live.history import History
from ..live.series import COLUMNS, table
from ..live.tracks import Track, ahead_of
from ..model import NewSteps, RankSteps, Step, StepNumber, Steps

__all__ = ["Course", "of_feed", "of_steps"]

BUCKETS = 400
"""More are not told apart at the width of a page."""
NAMES = ("loss", "lr", "lr_effective")
_FIELDS = [field.name for field in dataclasses.fields(Step)]


@dataclass(frozen=True)
class Course:
    """``series``: by name, what all ranks recorded, a row per rank in the order of ``ranks``. Steps are counted since the attach, from
    ``first`` to ``number``; the optimizer's own count is ``ahead`` by so many, None where it is not shown: see `Feed.ahead`.
    """

    ranks: Sequence[int]
    names: Mapping[int, str]
    number: StepNumber
    ahead: int | None
    first: int
    series: Mapping[str, Thinned]
    events: Sequence[Event] = ()
    groups: int = 1
    """So many param groups does its optimizer have; learning rates are those of the first."""

    @property
    def steps(self) -> int:
        """So many were recorded."""
        return (self.number.since_attach or 0) - self.first + 1

    @property
    def extent(self) -> str:
        """Which steps these are, in words."""
        first, last = self.shown(self.first), self.shown(self.number.since_attach or self.first)
        return text("steps {first:,.0f}-{last:,.0f}, recorded since the attach", first=first, last=last)

    def shown(self, step: float) -> float:
        """The number under which a step is shown: the optimizer's own where it keeps count."""
        return step + (self.ahead or 0)


def of_feed(feed: Feed) -> Course:
    """All steps that `feed` keeps; of a long job the oldest ones by least, greatest and mean. Raises `NoTarget` where there is none."""
    if not feed.last_step:
        first = next(iter(feed.silent.items()), None)
        raise _nothing(None if first is None else text("{who}: {what}", who=feed.rank_names[first[0]], what=first[1]))
    ranks = [rank for rank in feed.ranks if feed.step_of(rank)]
    series = _thinned(feed.history, ranks)
    return Course(
        ranks,
        feed.rank_names,
        feed.number,
        feed.ahead,
        feed.history.earliest,
        series,
        feed.events,
        max((_groups(feed, rank) for rank in ranks), default=1),
    )


def of_steps(steps: Steps) -> Course:
    """The steps of a result, without what happened on the way. Raises `NoTarget` where there is none."""
    history = History(COLUMNS)
    known = [rank for rank in steps.ranks if rank.steps]
    if not known:
        raise _nothing(None)
    tracks = [Track(rank.rank) for rank in known]
    for track, rank in zip(tracks, known, strict=True):
        rows = track.take(_told(rank), 0.0)
        numbers = np.array([number for number, _ in rows])
        history.add(np.full(len(rows), rank.rank), numbers, *table([values for _, values in rows]))
    ranks = [rank.rank for rank in known]
    latest = max((rank.steps[-1] for rank in known), key=lambda step: step.step)
    return Course(
        ranks,
        {rank: f"rank {rank}" for rank in ranks},
        latest.number,
        ahead_of(tracks),
        history.earliest,
        _thinned(history, ranks),
        groups=max((len(rank.steps[-1].lr) for rank in known), default=1),
    )


def _told(rank: RankSteps) -> NewSteps:
    """Its steps as an agent tells them."""
    records = [[getattr(step, name) for name in _FIELDS] for step in rank.steps]
    return NewSteps(rank.rank, rank.pid, _FIELDS, records, rank.steps[-1].step)


def _nothing(why: str | None) -> NoTarget:
    return NoTarget(
        text("no step has been recorded") if why is None else text("no step has been recorded: {why}", why=why),
        text("wait for a step of the training; `%diagnose` tells why none comes"),
    )


def _thinned(history: History, ranks: Sequence[int]) -> dict[str, Thinned]:
    with history.lock:
        rows = [row for rank in ranks if (row := history.row_of(rank)) is not None]
        span = Span(history.earliest, history.steps, BUCKETS)
        return {name: thin(history, name, rows, span) for name in NAMES if history.has(name)}


def _groups(feed: Feed, rank: int) -> int:
    track = feed.left_of(rank)
    if track is None or not track.latest or "lr" not in track.fields:
        return 1
    return len(track.latest[-1][track.fields.index("lr")] or ()) or 1
