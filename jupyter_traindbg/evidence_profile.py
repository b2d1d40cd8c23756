"""From what the probe ``profile`` answers (plain data) to a rank's profile, and to what a trace of all ranks is made of."""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Mapping
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


def seen(rank: int, pid: int, answer: Mapping[str, Any]) -> Seen:
    """25 ms a MB of its trace. Raises ValueError for a trace that is none."""
    recorded, began_s = answer["recorded"], answer["began_s"]
    steps = tuple(Step(**dict(zip(answer["fields"], record, strict=True))) for record in answer["records"])
    stacks = tuple(frames_of(stack) for stack in answer["stacks"])
    looks = tuple(look(row, began_s) for row in answer["looks"])
    packed = base64.b64decode(recorded["trace"]) if recorded.get("trace") else b""
    first, many = recorded.get("first"), recorded["steps"]
    within = (recorded["began_s"], recorded["ended_s"]) if packed else (began_s, began_s + answer["window_s"])
    its = RankTrace(rank, pid, recorded.get("thread", 0), packed, steps, looks, stacks, *within)
    timed = {s.step: s.duration_s for s in steps if s.duration_s}
    own = range(first + 1, first + many + 1) if packed else range(0)
    recorded_s = [timed[step] - recorded["start_s"] * (step == own.start) for step in own if step in timed]
    usual_s = [took for step, took in timed.items() if step not in own and step != own.stop]
    trace = kineto.read(its.written, its.ended_s) if packed else _NO_TRACE
    step_s = mean(recorded_s) if recorded_s else None
    usual = median(usual_s) if usual_s else None
    come = sums(trace, its.thread, many, on_gpu=bool(recorded.get("cuda"))) if packed else None
    profile = RankProfile(
        rank,
        pid,
        many if packed else 0,
        step_number(first, recorded["own"] if recorded["own"] is not None else _NO_OWN) if packed else None,
        step_s,
        usual,
        sum(recorded.get(name, 0.0) for name in ("start_s", "stop_s", "write_s")),
        come.operators_s if come else None,
        come.collectives_s if come else None,
        max(0.0, step_s - come.operators_s - come.collectives_s) if come and step_s is not None else None,
        come.device_s if come else None,
        trace.events,
        len(looks),
        answer["window_s"],
        come.operators if come else (),
        _lines(its, trace, step_s or usual),
        _stacks(its),
        note=recorded["note"],
    )
    return Seen(profile, its)


_NO_OWN = NotAvailable("the optimizer keeps no count")


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
    time_s: Counter[tuple[Frame, ...]] = Counter()
    for one in its.looks:
        if one.stack < len(its.stacks) and its.stacks[one.stack]:
            time_s[tuple(its.stacks[one.stack])] += one.wall_s  # type: ignore[assignment]
    whole_s = sum(time_s.values()) or 1.0
    return tuple(SampledStack(frames, spent / whole_s) for frames, spent in time_s.most_common(MOST_STACKS))
