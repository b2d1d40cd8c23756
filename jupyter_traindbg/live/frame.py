"""One moment of a feed as a result: what `traindbg watch` draws, again and again."""

from __future__ import annotations

import math

from ..language import text
from ..model import StepNumber, Watched, WatchedEvent, WatchedRank, WatchedSeries
from ..step_numbers import step_title
from .curves import spread_of
from .feed import Feed

__all__ = ["frame", "line"]

EVENTS = 200
SKETCH = 60


def frame(feed: Feed, view: str = "curves") -> Watched:
    """What `feed` knows now. A millisecond for 8 ranks, some for 300."""
    latest = feed.latest_by_rank()
    series = []
    for one in feed.series:
        if one.name in latest:
            sketch = [math.nan if v is None else v for v in feed.sparkline(one.name, SKETCH)]
            low, middle, high = spread_of(latest[one.name])
            series.append(WatchedSeries(one.name, one.label, one.unit, low, middle, high, tuple(sketch)))
    names, silent = feed.rank_names, feed.silent
    ranks = [
        WatchedRank(
            rank,
            names[rank],
            feed.step_of(rank),
            feed.step_age_s(rank),
            loss=latest.get("loss", {}).get(rank),
            step_s=latest.get("step_s", {}).get(rank),
            data_wait_s=latest.get("data_wait_s", {}).get(rank),
            rss_bytes=latest.get("rss_bytes", {}).get(rank),
            problem=silent.get(rank, ""),
            optimizer_step=feed.number_of(rank).own,
            told_s=feed.told_s(rank),
        )
        for rank in feed.ranks
    ]
    state, diagnosis, ahead = feed.state, feed.diagnosis, feed.ahead
    troubled = diagnosis is not None and state.code in ("hung", "finished", "lost")
    step_s = spread_of(latest.get("step_s", {}))[1]
    return Watched(
        target=feed.job.name,
        state=state.code,
        words=state.words,
        why=state.why,
        step=feed.last_step,
        steps_per_s=1 / step_s if step_s > 0 else None,
        series=tuple(series),
        ranks=tuple(ranks),
        events=tuple(
            WatchedEvent(e.kind, e.step, e.time_s, e.text, None if ahead is None else e.step + ahead, e.ranks)
            for e in feed.events[-EVENTS:]
        ),
        view=view,
        optimizer_step=feed.number.own,
        verdict=tuple(diagnosis.verdict) if troubled and diagnosis is not None else (),
    )


def line(seen: Watched) -> str:
    """A frame in one line, for a pipe."""
    loss = next((s for s in seen.series if s.name == "loss"), None)
    said = "" if loss is None or math.isnan(loss.middle) else text(" · loss {loss:.4g}", loss=loss.middle)
    pace = "" if seen.steps_per_s is None else text(" · {steps_per_s:.3g} steps/s", steps_per_s=seen.steps_per_s)
    return f"{step_title(StepNumber(seen.step, seen.optimizer_step))}{said}{pace} · {seen.words}"
