"""One Chrome trace of all ranks (Trace Event Format, JSON object), for Perfetto: what each rank recorded, its steps, its program's lines.

Clocks: a rank's times are its host's; how far that is ahead of the first rank's is known (`RankProfile.clock_ahead_s`) and taken off.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from ..complete_file import completed, need_folder
from ..errors import NoTarget, UsageError
from ..frames.whose import line_of, short_path
from ..language import text
from ..model import Frame
from .kineto import parsed
from .of_rank import Seen

__all__ = ["Traces", "check"]

ENDINGS = (".json", ".json.gz")
PROCESSES = 100
"""Numbers of processes that each rank has for itself: one, and one for each device."""
FLOWS = 1_000_000_000
"""Numbers of flows, likewise."""
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
"""What Kineto calls that which a GPU does."""
STEPS_THREAD, LINES_THREAD = -2, -1
NOTE = "ranks on several hosts: clocks were compared by round trips; clock_error_us says how well"


def check(path: str) -> None:
    """Raises `UsageError` for an ending that says no format, or a directory that is not there, before anything is recorded."""
    if not path.endswith(ENDINGS):
        raise UsageError(
            text("{path} has no ending that says what to write", path=path), text("use trace.json or trace.json.gz")
        )
    need_folder(path)


class Traces:
    """What the ranks of a job have recorded; see `jupyter_traindbg.model.RecordedTraces`."""

    def __init__(self, target: str, ranks: Sequence[Seen]) -> None:
        self._target, self._ranks = target, ranks

    def write(self, path: str) -> str:
        """Write it to `path`: complete or not at all; a file of that name is replaced. 50 ms a MB. Raises as `Profile.save_trace` does."""
        check(path)
        if not self._ranks:
            raise NoTarget(text("no step was recorded, so there is no trace"), text("`%profile --steps 1` records one"))
        with completed(path) as (partial, where):
            zipped = path.endswith(".gz")
            out: IO[str]
            with gzip.open(partial, "wt", compresslevel=4) if zipped else open(partial, "w", encoding="utf-8") as out:
                self._write(out)
        return where

    def _write(self, out: IO[str]) -> None:
        begin_s = min((_begins(one) for one in self._ranks), default=0.0)
        about = {
            "target": self._target,
            "begin_s": begin_s,
            "ranks": [
                {
                    "rank": one.profile.rank,
                    "pid": one.profile.pid,
                    "clock_ahead_us": one.profile.clock_ahead_s * 1e6,
                    "clock_error_us": one.profile.clock_error_s * 1e6,
                }
                for one in self._ranks
            ],
            "note": NOTE,
        }
        out.write(
            f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(about, ensure_ascii=False)}, "traceEvents": [\n'
        )
        separator = ""
        for place, one in enumerate(self._ranks):
            for event in _of_rank(one, place, begin_s):
                out.write(separator + json.dumps(event, ensure_ascii=False))
                separator = ",\n"
        out.write("\n]}\n")


def _begins(one: Seen) -> float:
    return one.trace.began_s - one.profile.clock_ahead_s


def _of_rank(one: Seen, place: int, begin_s: float) -> Iterator[dict[str, Any]]:
    process = place * PROCESSES
    own = {"pid": process}
    yield from _process(process, f"{_who(one)} (pid {one.profile.pid})")
    yield from _thread(process, STEPS_THREAD, "steps")
    yield from _thread(process, LINES_THREAD, "lines of the program (sampled)")
    ahead_s = one.profile.clock_ahead_s

    def us(moment_s: float) -> float:
        return round((moment_s - ahead_s - begin_s) * 1e6, 3)

    yield from ({**event, **own} for event in _steps(one, us))
    yield from ({**event, **own} for event in _lines(one, us))
    yield from _recorded(one, place, begin_s)


def _who(one: Seen) -> str:
    return one.profile.worker or f"rank {one.profile.rank}"


def _process(process: int, name: str) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}


def _thread(process: int, thread: int, name: str) -> Iterator[dict[str, Any]]:
    common = {"ph": "M", "pid": process, "tid": thread}
    yield {**common, "name": "thread_name", "args": {"name": name}}
    yield {**common, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _steps(one: Seen, us: Any) -> Iterator[dict[str, Any]]:
    """Those that lie in what was recorded."""
    trace = one.trace
    until = trace.began_s
    for step in trace.steps:
        if step.duration_s and until < step.time_s <= trace.ended_s:
            began_s, until = max(until, step.time_s - step.duration_s), step.time_s
            number = step.optimizer_step if step.optimizer_step is not None else step.step
            yield {
                "ph": "X", "cat": "step", "name": f"step {number}", "tid": STEPS_THREAD, "ts": us(began_s),
                "dur": round((step.time_s - began_s) * 1e6, 3), "args": {"loss": _finite(step.loss)},
            }  # fmt: skip


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _lines(one: Seen, us: Any) -> Iterator[dict[str, Any]]:
    """The stacks that were seen, as slices: what two looks in a row saw alike, from the outside on, is one."""
    trace = one.trace
    open_: list[tuple[Frame, float]] = []
    until = trace.began_s
    for look in trace.looks:
        began_s = max(trace.began_s, look.at_s - look.wall_s)
        if began_s >= trace.ended_s or look.at_s <= trace.began_s:
            continue
        stack = list(reversed(trace.stacks[look.stack])) if look.stack < len(trace.stacks) else []
        alike = 0
        while alike < min(len(stack), len(open_)) and open_[alike][0] == stack[alike]:
            alike += 1
        yield from (_line(frame, since, began_s, us) for frame, since in open_[alike:])
        open_ = [*open_[:alike], *((frame, began_s) for frame in stack[alike:])]
        until = min(look.at_s, trace.ended_s)
    yield from (_line(frame, since, until, us) for frame, since in open_)


def _line(frame: Frame, began_s: float, ended_s: float, us: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "line", "name": f"{frame.function} ({line_of(frame, short_path(frame, name_only=True))})",
        "tid": LINES_THREAD, "ts": us(began_s), "dur": round(max(0.0, ended_s - began_s) * 1e6, 3), "args": {"file": frame.file},
    }  # fmt: skip


# --- what torch's profiler has written ------------------------------------------------------------------------------------


def _recorded(one: Seen, place: int, begin_s: float) -> Iterator[dict[str, Any]]:
    """Kineto's own events, on the common clock, in the processes that are this rank's."""
    if not one.trace.packed:
        return
    told = parsed(one.trace.written)
    # Kineto's times are microseconds since a moment of its own, which is in nanoseconds: together they have more digits than a float.
    shift_us = (told.get("baseTimeNanoseconds", 0) - int(begin_s * 1e9)) / 1e3 - one.profile.clock_ahead_s * 1e6
    devices: dict[int, int] = {}
    for event in told["traceEvents"]:
        if event.get("cat") == "Trace" or event["ph"] == "i" or not isinstance(event.get("pid"), int):
            continue  # Kineto's marks of itself
        if event["ph"] == "M" and event["name"] != "thread_name":
            continue  # we have names of our own for processes
        process = place * PROCESSES
        if _of_device(event, one):
            if event["pid"] not in devices:
                devices[event["pid"]] = process + 1 + len(devices)
                yield from _process(devices[event["pid"]], f"{_who(one)}, device {event['pid']}")
            process = devices[event["pid"]]
        yield _moved(event, one, process, shift_us)


def _moved(event: Mapping[str, Any], one: Seen, process: int, shift_us: float) -> dict[str, Any]:
    """On the common clock, and in its process; without what others may have, too."""
    out = {**event, "pid": process}
    if event["ph"] != "M":
        out["ts"] = round(event["ts"] + shift_us, 3)
    elif process % PROCESSES == 0 and event["tid"] == one.trace.thread:
        out["args"] = {"name": "training thread"}
    if isinstance(event.get("id"), int):
        out["id"] += process // PROCESSES * FLOWS
    return out


def _of_device(event: Mapping[str, Any], one: Seen) -> bool:
    """Whether its ``pid`` is the number of a GPU. In a container a process may have such a number, too."""
    if event["ph"] == "M":
        return str(event["args"].get("name", "")).startswith("stream ")
    launched = event.get("cat") == "ac2g" and event["ph"] == "f"
    return event["pid"] != one.trace.pid or event.get("cat") in DEVICE_CATEGORIES or launched
