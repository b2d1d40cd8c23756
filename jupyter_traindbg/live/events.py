"""What happened on the way: marks on the time axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..language import text
from ..model import Doing, DoingKind
from ..words.ranks import ranks_words
from .state import State
from .tracks import Track

__all__ = ["Event", "Kind", "Marks"]

Kind = DoingKind | Literal["nan", "hang", "resumed", "lost", "restarted", "finished"]
SAME_S = 0.5
"""Ranks that tell of the same change no further apart than that mean one change, at the step of the first."""
QUIET_STEPS = 50
"""A loss that becomes NaN again within so many steps is no new event."""
MOST = 1000
"""Events that are kept: what happens again and again must not fill the memory."""


@dataclass(frozen=True)
class Event:
    """``step``: the first step under it, or the last one before it, counted as in `Curve`; ``time_s``: since the epoch; ``ranks``: whom it
    is about; ``text``: what it was, in words. It may quote paths: not to be trusted as markup.
    """

    kind: Kind
    step: int
    time_s: float
    ranks: tuple[int, ...]
    text: str


class Marks:
    """Finds events in what the ranks answer. The list only grows, at its end."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._told: set[tuple[int, str, str, float]] = set()
        self._changed_s: dict[str, float] = {}
        self._bad: dict[int, int] = {}
        """By rank: where the loss was last seen to become NaN."""
        self._gone: set[int] = set()
        self._state: State | None = None

    def done(self, by_rank: Iterable[tuple[Track, Sequence[Doing]]]) -> None:
        """Changes and checkpoints that the agents tell of: one event for all ranks of which it is the same."""
        new: dict[tuple[str, str], list[tuple[Track, Doing]]] = {}
        for track, doings in by_rank:
            for doing in doings:
                told = (track.rank, doing.kind, doing.words, doing.time_s)
                if told not in self._told:  # an agent that was asked anew tells it again
                    self._told.add(told)
                    new.setdefault((doing.kind, doing.words), []).append((track, doing))
        for (kind, words), of_ranks in new.items():
            track, doing = of_ranks[0]
            if kind == "checkpoint":
                said = text("checkpoint saved: {words}", words=words)
                self._add("checkpoint", doing.step + track.offset, doing.time_s, [t.rank for t, _ in of_ranks], said)
            elif doing.time_s - self._changed_s.get(words, -math.inf) > SAME_S:  # else another rank's word for the same
                self._changed_s[words] = doing.time_s
                self._add(doing.kind, doing.step + track.offset, doing.time_s, [t.rank for t, _ in of_ranks], words)

    def seen(self, tracks: Iterable[Track], now_s: float) -> None:
        """What the new steps of the ranks show."""
        broken: dict[int, list[int]] = {}
        jumps: dict[tuple[int, float, float], list[int]] = {}
        for track in tracks:
            for step in track.bad_runs:
                if step - self._bad.get(track.rank, -QUIET_STEPS) >= QUIET_STEPS:
                    broken.setdefault(step, []).append(track.rank)
                self._bad[track.rank] = step
            track.bad_runs = []
            for jump in track.lr_jumps:
                jumps.setdefault(jump, []).append(track.rank)
            track.lr_jumps = []
            if track.restarted:
                track.restarted = False
                words = text("recording began anew")
                self._add("restarted", track.offset + 1, now_s, [track.rank], words)
        for (step, before, after), ranks in jumps.items():
            words = text("learning rate {before:.4g} to {after:.4g}, by the schedule", before=before, after=after)
            self._add("lr", step, now_s, ranks, words)
        for step, ranks in broken.items():
            who = ranks_words(ranks)
            self._add("nan", step, now_s, ranks, text("the loss is not finite ({who})", who=who))

    def judged(self, state: State, tracks: Sequence[Track], now_s: float) -> None:
        """What a new state says of the job."""
        before, self._state = self._state, state
        last = max((track.step for track in tracks), default=0)
        ranks = [track.rank for track in tracks]
        new = [track for track in tracks if track.gone and track.rank not in self._gone]
        if state.code == "finished" and (before is None or before.code != "finished"):
            self._add("finished", last, state.since_s, ranks, state.words)
        elif new and state.code != "finished":
            for track in new:
                self._add(
                    "lost",
                    track.step,
                    now_s,
                    [track.rank],
                    text("rank {rank} is gone: {problem}", rank=track.rank, problem=track.problem),
                )
        self._gone |= {track.rank for track in new}
        if state.code == "hung" and (before is None or before.code != "hung"):
            self._add("hang", last, state.since_s, ranks, state.words)
        if before is not None and before.code == "hung" and state.code in ("training", "slow", "diverged"):
            self._add("resumed", last, now_s, ranks, text("steps come again"))

    def _add(self, kind: Kind, step: int, time_s: float, ranks: Sequence[int], words: str) -> None:
        if len(self.events) < MOST or kind in ("finished", "hang", "lost"):
            self.events.append(Event(kind, step, time_s if math.isfinite(time_s) else 0.0, tuple(sorted(ranks)), words))
