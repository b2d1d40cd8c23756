"""What a job does, in words: by the rules of `jupyter_traindbg.diagnose` and the times at which its steps came. Pure: no clock, no I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..diagnose.hang.stuck import allowed_s
from ..language import text
from ..model import Diagnosis, StepNumber
from ..step_numbers import step_words
from ..words.durations import time_words
from ..words.ranks import ranks_words
from .pace import Pace
from .tracks import Track

__all__ = ["Code", "State", "judge", "needs_diagnosis", "overdue_s"]

Code = Literal["waiting", "training", "slow", "stalled", "hung", "diverged", "lost", "finished", "detached"]

LONG_S = 8.0
"""So long without a step is worth a look at all ranks."""
WITHOUT_HISTORY_S = 10.0
"""Without a pause to compare with, so long without a step is too long."""


@dataclass(frozen=True)
class State:
    """``code`` for a program, ``words`` for people, in the reader's language; ``since_s``: when it began, in seconds since the epoch;
    ``why``: by what it was judged.
    """

    code: Code
    words: str
    since_s: float
    why: tuple[str, ...] = ()


def judge(
    tracks: Sequence[Track], now_s: float, *, pace: Pace | None = None, diagnosis: Diagnosis | None = None
) -> State:
    """What the job does at `now_s`. `diagnosis`: one that was made since the last step came, where there is one."""
    if tracks and all(track.gone for track in tracks):
        return _finished(tracks, now_s, diagnosis)
    if lost := [track for track in tracks if track.gone]:
        return _lost(tracks, lost, now_s)
    if not any(track.step for track in tracks):
        return _waiting(tracks, now_s, diagnosis)
    if late := [track for track in tracks if overdue_s(track, now_s) > 0]:
        return _stalled(tracks, late, now_s, diagnosis)
    return _going(tracks, now_s, pace)


def _going(tracks: Sequence[Track], now_s: float, pace: Pace | None) -> State:
    if broken := [track for track in tracks if track.bad_since is not None]:
        return _diverged(broken, now_s)
    if pace is not None and pace.slow:
        return State("slow", text("slow: {words}", words=pace.words), pace.since_s, ())
    return State("training", text("training"), min((t.began_s for t in tracks), default=now_s))


def overdue_s(track: Track, now_s: float) -> float:
    """For how long the next step of a rank has been due, beyond what is usual for it; not positive where it is not."""
    if track.step_at_s is None or not track.step:
        return 0.0
    usual_s = track.usual_pause_s
    allowed = WITHOUT_HISTORY_S if usual_s is None else max(2.0, allowed_s(usual_s))
    return now_s - track.step_at_s - allowed


def needs_diagnosis(tracks: Sequence[Track], now_s: float) -> bool:
    """Whether what the job does cannot be told from its steps: it makes none for long, or has ended."""
    if not tracks:
        return False
    if all(track.gone for track in tracks):
        return True
    if not any(track.step for track in tracks):
        return now_s - min(track.began_s for track in tracks) > LONG_S
    left = [track for track in tracks if not track.gone]
    if all(track.between_cells for track in left):
        return False
    return all(overdue_s(track, now_s) > 0 and now_s - (track.step_at_s or now_s) > LONG_S for track in left)


def _since(tracks: Sequence[Track], now_s: float) -> float:
    """When the last step of any of them came."""
    return max((t.step_at_s for t in tracks if t.step_at_s is not None), default=now_s)


def _finished(tracks: Sequence[Track], now_s: float, diagnosis: Diagnosis | None) -> State:
    since_s = _since(tracks, min((t.silent_since_s or now_s) for t in tracks))
    last = step_words(max((track.number for track in tracks), key=lambda number: number.since_attach or 0))
    many = len(tracks) > 1
    who = text("all processes have ended") if many else text("the process has ended")
    words = text("finished: {who}, after {last}", who=who, last=last)
    failed = [f for f in diagnosis.verdict if f.severity == "critical"] if diagnosis is not None else []
    if failed:
        words = text("finished, not well: {title}", title=failed[0].title)
    return State("finished", words, since_s, tuple(failed[0].evidence[:3]) if failed else ())


def _lost(tracks: Sequence[Track], lost: Sequence[Track], now_s: float) -> State:
    left = [track for track in tracks if not track.gone]
    since_s = min((t.silent_since_s or now_s) for t in lost)
    words = ranks_words(track.rank for track in lost)
    going = [
        track
        for track in left
        if overdue_s(track, now_s) <= 0 and track.step_at_s is not None and track.step_at_s > since_s
    ]
    rest = text("the others go on") if going else text("the others make no steps")
    said = text("lost {words}: {rest}", words=words, rest=rest)
    return State("lost", said, since_s, tuple(dict.fromkeys(track.problem for track in lost[:3])))


def _waiting(tracks: Sequence[Track], now_s: float, diagnosis: Diagnosis | None) -> State:
    since_s = min((t.began_s for t in tracks), default=now_s)
    why = _problems(tracks)
    if diagnosis is not None and diagnosis.state == "stuck":
        return _hung(diagnosis, since_s, now_s)
    for_s = time_words(max(0.0, now_s - since_s))
    passes = max((t.backwards for t in tracks), default=0)
    came = text("; {passes:,} backward passes meanwhile", passes=passes) if passes else ""
    doing = came + _doing(diagnosis)
    return State(
        "waiting",
        text("waiting for a step, for {for_s}{doing}", for_s=for_s, doing=doing),
        since_s,
        why,
    )


def _stalled(tracks: Sequence[Track], late: Sequence[Track], now_s: float, diagnosis: Diagnosis | None) -> State:
    alone = len(late) < len(tracks)
    since_s = _since(late, now_s)
    if not alone and all(track.between_cells for track in late):
        return _between_cells(since_s, now_s)
    if not alone and diagnosis is not None and diagnosis.state in ("stuck", "failed"):
        return _hung(diagnosis, since_s, now_s)
    for_s = time_words(max(0.0, now_s - since_s))
    if not alone and diagnosis is not None and diagnosis.state == "idle":
        return _between_cells(since_s, now_s)
    usual = max((t.usual_pause_s for t in late if t.usual_pause_s is not None), default=None)
    before = () if usual is None else (text("its longest pause before: {usual}", usual=time_words(usual)),)
    if alone:
        who = ranks_words(track.rank for track in late)
        words = text("{who} stalled for {for_s}; the others go on", who=who, for_s=for_s)
        return State("stalled", words, since_s, (*before, *_problems(late)))
    doing = _doing(diagnosis)
    return State(
        "stalled",
        text("stalled for {for_s}: no step came{doing}", for_s=for_s, doing=doing),
        since_s,
        (*before, *_problems(late), *(diagnosis.why if diagnosis is not None else ())),
    )


def _between_cells(since_s: float, now_s: float) -> State:
    for_s = time_words(max(0.0, now_s - since_s))
    words = text("nothing trains now: the kernel runs no cell, for {for_s}", for_s=for_s)
    return State("waiting", words, since_s)


def _hung(diagnosis: Diagnosis, since_s: float, now_s: float) -> State:
    for_s = time_words(max(0.0, now_s - since_s))
    found = diagnosis.verdict[0].title if diagnosis.verdict else text("see the diagnosis")
    why = tuple(diagnosis.verdict[0].evidence[:3]) if diagnosis.verdict else tuple(diagnosis.why)
    return State("hung", text("hung for {for_s}: {found}", for_s=for_s, found=found), since_s, why)


def _doing(diagnosis: Diagnosis | None) -> str:
    """What the first rank does instead, where a diagnosis says that nothing is wrong."""
    states = [s for s in diagnosis.ranks if s.doing] if diagnosis is not None else []
    return text("; rank {rank}: {doing}", rank=states[0].rank, doing=states[0].doing) if states else ""


def _problems(tracks: Sequence[Track]) -> tuple[str, ...]:
    silent = [track for track in tracks if track.problem]
    if not silent:
        return ()
    who = ranks_words(track.rank for track in silent)
    return (text("no answer from {who}: {problem}", who=who, problem=silent[0].problem),)


def _diverged(broken: Sequence[Track], now_s: float) -> State:
    earliest = min(broken, key=lambda track: track.bad_since or 0)
    first = step_words(StepNumber(earliest.bad_since, earliest.bad_since_own))
    who = ranks_words(track.rank for track in broken)
    loss = broken[0].last_loss
    value = "NaN" if loss is None or math.isnan(loss) else text("infinite")
    words = text("diverged: the loss is {value} since {first} ({who})", value=value, first=first, who=who)
    return State("diverged", words, _since(broken, now_s))
