"""A log that is followed: in which stage the job is, whether it has been there or silent for longer than usual, and what to look at.

Usual is what this very log shows: the earlier times that the job was in the stage, the pauses between its lines. Pure functions; what
the stages mean is data (knowledge/stages.toml).
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from ...language import text
from ...model import Finding, LogFollow, LogGrowth, LogLine, LogStage, LogWriter, Maybe, NotAvailable, things
from .advice import Advice, stage_advice

__all__ = ["CODES", "follow", "overdue"]

CODES = ("log_silent", "stage_overdue")
"""What only a log that is followed can show."""
PAUSE_TIMES, STAGE_TIMES = 3.0, 3.0
"""So many times the longest usual pause, and the median of the stage, are out of the ordinary."""
LEAST_S = 30.0
"""Nothing shorter is worth a word."""
UNKNOWN_S = 120.0
"""A pause that is worth a word in a log that has shown too little to know what is usual."""
_EVIDENCE_WRITERS = 4


def follow(target: str, growth: LogGrowth, findings: Sequence[Finding], over: str = "") -> LogFollow:
    """What to tell of a log at this moment. `findings` are those of the log's own lines, which come first. Pure."""
    evidence = growth.evidence
    stage = evidence.stages[-1] if evidence.stages else None
    seen = LogFollow(
        target=target,
        lines_read=evidence.total_lines,
        silent_s=growth.silent_s,
        usual_silence_s=_usual_pause(growth),
        stage=stage.name if stage else None,
        stage_line=stage.line if stage else None,
        in_stage_s=_in_stage(growth, stage),
        usual_stage_s=_usual_stage(evidence.stages, stage),
        visits=sum(1 for s in evidence.stages if stage is not None and s.name == stage.name),
        writers=growth.writers,
        over=over,
    )
    alive = bool(growth.writers or growth.gaps_s) and not growth.closed  # a finished log is not silent
    own = () if not alive else tuple(f for f in (_silent(seen), _long_stage(seen)) if f is not None)
    return LogFollow(**{**vars(seen), "verdict": (*findings, *own[:1])})


def overdue(growth: LogGrowth) -> bool:
    """Whether the log has been silent for so long that it is worth looking at who writes it."""
    return growth.silent_s > _patience(_usual_pause(growth))


# --- what is usual -------------------------------------------------------------------------------------------------


def _patience(usual: Maybe[float]) -> float:
    return UNKNOWN_S if isinstance(usual, NotAvailable) else max(LEAST_S, PAUSE_TIMES * usual)


def _usual_pause(growth: LogGrowth) -> Maybe[float]:
    """The second longest pause: a single long one (a checkpoint, a compilation) is an exception."""
    pauses = sorted([*growth.gaps_s, *_pauses(growth.evidence.lines)])
    if len(pauses) < 5:
        return NotAvailable("too few lines with times so far")
    return pauses[-2]


def _pauses(lines: Sequence[LogLine]) -> list[float]:
    """Between neighbouring lines of one source that both say when they were written."""
    timed = [line for line in lines if line.time_s is not None]
    return [
        b.time_s - a.time_s
        for a, b in itertools.pairwise(timed)
        if a.source == b.source and b.number - a.number <= 5 and a.time_s is not None and b.time_s is not None
        if b.time_s >= a.time_s
    ]


def _in_stage(growth: LogGrowth, stage: LogStage | None) -> Maybe[float]:
    if stage is None:
        return NotAvailable("no line of this log names a stage")
    arrived = dict(growth.arrivals).get(stage.line.number)
    if arrived is not None:
        return arrived
    last = next((x.time_s for x in reversed(growth.evidence.lines) if x.time_s is not None), None)
    if stage.line.time_s is None or last is None or last < stage.line.time_s:
        return NotAvailable("it began before we followed, and the log has no times")
    return last - stage.line.time_s + growth.silent_s


def _usual_stage(stages: Sequence[LogStage], now: LogStage | None) -> Maybe[float]:
    """The median duration of the earlier visits, by the log's own clock."""
    spans = [
        b.line.time_s - a.line.time_s
        for a, b in itertools.pairwise(stages)
        if now is not None and a.name == now.name and a.line.time_s is not None and b.line.time_s is not None
        if b.line.time_s >= a.line.time_s
    ]
    return (
        statistics.median(spans)
        if spans
        else NotAvailable("it has not been in this stage before, or the log has no times")
    )


# --- findings ------------------------------------------------------------------------------------------------------


def _silent(seen: LogFollow) -> Finding | None:
    usual = seen.usual_silence_s
    if seen.silent_s <= _patience(usual):
        return None
    known = not isinstance(usual, NotAvailable)
    pause = (
        text("the longest usual pause is {usual:.0f} s", usual=usual) if known else text("what is usual is not known")
    )
    busy = next((w for w in seen.writers if w.doing), None)
    while_ = "" if busy is None else text(" while process {pid} {doing}", pid=busy.pid, doing=busy.doing)
    return Finding(
        "log_silent",
        "warning",
        text("No new line for {silent_s:.0f} s{value}", silent_s=seen.silent_s, value=while_),
        things(text("process {pid}", pid=w.pid) for w in seen.writers),
        busy.where if busy else None,
        [text("silent for {silent_s:.0f} s; {pause}", silent_s=seen.silent_s, pause=pause), *_evidence(seen)],
        _meaning(seen),
        _steps(seen),
        "docs/logs.md#following",
        "medium" if known else "low",
    )


def _long_stage(seen: LogFollow) -> Finding | None:
    now, usual = seen.in_stage_s, seen.usual_stage_s
    if isinstance(now, NotAvailable) or isinstance(usual, NotAvailable) or now <= max(LEAST_S, STAGE_TIMES * usual):
        return None
    return Finding(
        "stage_overdue",
        "warning",
        text(
            "In the stage {stage} for {now:.0f} s, which usually takes {usual:.0f} s",
            stage=seen.stage,
            now=now,
            usual=usual,
        ),
        (),
        None,
        _evidence(seen),
        _meaning(seen),
        _steps(seen),
        "docs/logs.md#following",
        "medium",
    )


def _evidence(seen: LogFollow) -> list[str]:
    lines = []
    if seen.stage_line is not None:
        at = f"{seen.target}:{seen.stage_line.number}"
        lines.append(text("stage {stage} since {at} {text}", stage=seen.stage, at=at, text=seen.stage_line.text))
    lines += [_writer(w) for w in seen.writers[:_EVIDENCE_WRITERS]]
    if len(seen.writers) > _EVIDENCE_WRITERS:
        more = len(seen.writers) - _EVIDENCE_WRITERS
        lines.append(text("and {more} more processes write to it", more=more))
    return lines


def _writer(writer: LogWriter) -> str:
    did = writer.problem or (f"{writer.doing}, {writer.where}" if writer.where else writer.doing)
    named = text("process {pid}", pid=writer.pid)
    return f"{named}: {did}" if did else f"{named}: {writer.command[:120]}"


def _advice(seen: LogFollow) -> Advice | None:
    if seen.stage is None or seen.stage_line is None:
        return None
    said = seen.stage_line.text.lower()
    return next(
        (a for a in stage_advice() if a.name == seen.stage and (not a.lines or any(x in said for x in a.lines))), None
    )


def _meaning(seen: LogFollow) -> str:
    advice = _advice(seen)
    if advice is None:
        return text("The log names no stage that is known.")
    means = advice.means.said
    return text("In this stage {means}.", means=means)


def _steps(seen: LogFollow) -> list[str]:
    advice = _advice(seen)
    pid = str(seen.writers[0].pid) if seen.writers else "PID"
    if advice is None:
        return [text("Ask the job itself: `%diagnose {pid}`", pid=pid)]
    return [look.said.replace("{pid}", pid) for look in advice.look]
