"""From what the probe ``profile`` answers (plain data) to a rank's profile, and to what a trace of all ranks is made of."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean, median
from typing import Any

from .evidence_slow import look
from .frames.whose import frames_of, user_frame
from .model import Frame, NotAvailable, ProfiledLine, RankProfile, SampledStack, Step, TimedLook, step_number
from .traces import kineto
from .traces.kineto import Thread, Trace
from .traces.of_rank import RankTrace, Seen
from .traces.summing import innermost, sums

__all__ = ["seen"]

MOST_LINES, MOST_STACKS = 30, 400
LEAST_SHARE = 0.001
FEWEST_LOOKS = 3
"""At a line, at recorded steps: fewer do not tell what runs there."""
_NO_TRACE = Trace(0.0, {}, {}, 0)
_NO_OWN = NotAvailable("the optimizer keeps no count")


def seen(rank: int, pid: int, answer: Mapping[str, Any]) -> Seen:
    """25 ms a MB of its trace."""
    recorded, began_s = answer["recorded"], answer["began_s"]
    packed = base64.b64decode(recorded["trace"]) if recorded.get("trace") else b""
    its = RankTrace(
        recorded.get("pid", pid),
        recorded.get("thread", 0),
        packed,
        tuple(Step(**dict(zip(answer["fields"], record, strict=True))) for record in answer["records"]),
        tuple(look(row, began_s) for row in answer["looks"]),
        tuple(frames_of(stack) for stack in answer["stacks"]),
        recorded.get("began_s", began_s),
        recorded.get("ended_s", began_s),
    )
    step_s, usual_s = _steps_s(its, recorded)
    profile = RankProfile(
        rank,
        pid,
        step_s=step_s,
        usual_step_s=usual_s,
        stood_still_s=sum(recorded.get(name, 0.0) for name in ("start_s", "stop_s", "write_s")),
        looks=len(its.looks),
        window_s=answer["window_s"],
        stacks=_stacks(its),
        note=recorded["note"],
    )
    if not packed:
        return Seen(replace(profile, lines=_lines(its, _NO_TRACE, usual_s)), its)
    try:
        trace = kineto.read(its.written, its.ended_s)
    except ValueError as e:
        note = f"what torch's profiler wrote could not be read: {e}"
        return Seen(replace(profile, lines=_lines(its, _NO_TRACE, usual_s), note=note), replace(its, packed=b""))
    return Seen(_with_trace(profile, its, trace, recorded), its)


def _with_trace(profile: RankProfile, its: RankTrace, trace: Trace, recorded: Mapping[str, Any]) -> RankProfile:
    own = recorded["own"] if recorded["own"] is not None else _NO_OWN
    come = sums(trace, its.thread, recorded["steps"], on_gpu=bool(recorded["cuda"]))
    neither_s = None
    if profile.step_s is not None:
        neither_s = max(0.0, profile.step_s - come.operators_s - come.collectives_s)
    return replace(
        profile,
        steps=recorded["steps"],
        first_step=step_number(recorded["first"], own),
        operators_s=come.operators_s,
        collectives_s=come.collectives_s,
        python_s=neither_s,
        gpu_busy_s=come.device_s,
        events=trace.events,
        operators=come.operators,
        lines=_lines(its, trace, profile.step_s or profile.usual_step_s),
    )


def _steps_s(its: RankTrace, recorded: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """How long a recorded step took, without the start of the profiler, which is in the first one; and how long a usual one takes, without
    the one behind, which has its end, or any where it was not out yet. None where there was none.
    """
    first, many = recorded.get("first"), recorded["steps"]
    timed = {step.step: step.duration_s for step in its.steps if step.duration_s}
    if first is None:
        return None, median(timed.values()) if timed else None
    own = range(first + 1, first + many + 1)
    recorded_s = [timed[step] - recorded["start_s"] * (step == own.start) for step in own if step in timed]
    usual_s = [took for step, took in timed.items() if step <= first or (many and step > own.stop)]
    return mean(recorded_s) if recorded_s else None, median(usual_s) if usual_s else None


def _lines(its: RankTrace, trace: Trace, step_s: float | None) -> tuple[ProfiledLine, ...]:
    """The user's lines, and which operator ran there in those looks that fell into recorded steps."""
    thread = trace.threads.get(its.thread, Thread())
    at: dict[Frame, list[TimedLook]] = defaultdict(list)
    for one in its.looks:
        frame = user_frame(its.stacks[one.stack]) if one.stack < len(its.stacks) else None
        if frame is not None:
            at[frame].append(one)
    whole_s = sum(one.wall_s for one in its.looks) or 1.0
    told = []
    for frame, there in at.items():
        share = sum(one.wall_s for one in there) / whole_s
        moments = [one.at_s - trace.base_s for one in there if its.packed and its.began_s <= one.at_s <= its.ended_s]
        ran = innermost(thread, moments).most_common(1) if len(moments) >= FEWEST_LOOKS else []
        name, often = ran[0] if ran else ("", 0)
        told.append(
            ProfiledLine(
                frame, share, None if step_s is None else share * step_s, name, often / len(moments) if name else 0.0
            )
        )
    told.sort(key=lambda line: -line.share)
    return tuple(line for line in told[:MOST_LINES] if line.share >= LEAST_SHARE)


def _stacks(its: RankTrace) -> tuple[SampledStack, ...]:
    """By share; the same stack in different system calls is one."""
    time_s: dict[Sequence[Frame], float] = defaultdict(float)
    for one in its.looks:
        if one.stack < len(its.stacks) and its.stacks[one.stack]:
            time_s[its.stacks[one.stack]] += one.wall_s
    whole_s = sum(time_s.values()) or 1.0
    longest = sorted(time_s.items(), key=lambda stack: -stack[1])[:MOST_STACKS]
    return tuple(SampledStack(frames, spent / whole_s) for frames, spent in longest)
