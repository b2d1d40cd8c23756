"""Record a few steps of all ranks by torch's profiler, without a line of code: operators, lines, one trace of all ranks for Perfetto."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import evidence_profile
from ..actions.matching import Matched, match
from ..attach.base import end_calls
from ..errors import UsageError
from ..gather.clocks import clocks
from ..language import text
from ..model import Maybe, NotAvailable, Profile, Silent
from ..progress import SecondsBar
from ..tasks import Task
from ..traces.merged import Traces, check
from ..traces.of_rank import Seen
from ..words.durations import duration
from .base import Ranks, Whom

WHOM = Whom.AGENTS
STEPS, SECONDS = 5, 30.0
LEAST_S = 2.0
"""The training thread is looked at for so long at least, whatever its steps take."""
AROUND_S = 20.0
"""So much longer than the window it may take as a whole, where nothing else is said: a trace has to be written, and read."""
LEAST_AROUND_S, SHARE = 4.0, 0.6
"""What entering the ranks and reading their traces may take of a shorter `timeout`; at most that share of the time less."""
MATCH_S, PREPARE_S, CLOCKS_S = 2.5, 0.2, 2.0
TICK_S = 0.1
LATE_S = 1.0
"""The asking keeps its deadline itself; so much later nobody waits for it any more."""


def deadline_s(*, seconds: float = SECONDS, **_: object) -> float:
    """What all of it may take where no `timeout` is given."""
    return seconds + AROUND_S


def ask(
    job: Ranks,
    *,
    steps: int = STEPS,
    seconds: float = SECONDS,
    sample: bool = False,
    trace: str | None = None,
    timeout: float | None = None,
) -> Profile:
    """What `steps` whole steps of each rank consist of: operators, kernels, the lines of the program, and what recording them cost.

    torch's own profiler is started behind one step and stopped behind another, the same on all ranks where it can be told which that is,
    and it comes out whatever happens: where steps do not come in `seconds`, at the end of the one under way. It is not started where the
    program profiles itself, and makes way where that begins to. The training thread is looked at meanwhile, for 2 s at least, from outside
    of its code (1 to 3 % of its time). `sample`: that alone, for 2 s, and torch's profiler stays out; `steps` then play no part.
    `trace`: the file to write one Chrome trace of all ranks to; `Profile.save_trace` does it afterwards.

    Costs 0.5 to 1 us an operator, and a pause of some 20 ms for each MB of trace. Raises `UsageError` for what cannot be recorded, or
    written, before anything is; why, where no rank can be asked.
    """
    if trace is not None:
        check(trace)
        if sample:
            raise UsageError(
                text("only what torch's profiler records makes a trace"), text("leave out `--sample`, or `--trace`")
            )
    began = time.monotonic()
    timeout = deadline_s(seconds=seconds) if timeout is None else timeout
    ends, window_s = began + timeout, min(seconds, max(SHARE * timeout, timeout - LEAST_AROUND_S))
    job.need_training(timeout)
    behind: Mapping[int, Mapping[str, int]] | None = None
    if not sample:
        matched = _matched(job, min(ends, began + MATCH_S) if job.several else began)
        if not isinstance(matched, NotAvailable):
            _need_time(matched, steps, window_s)
            behind = matched.target(prepare_s=PREPARE_S) if len(matched.paces) > 1 else None
    params = {"steps": 0 if sample else steps, "least_s": min(LEAST_S, window_s), "window_s": window_s}
    seen, silent = _watch(job, params, behind, ends)
    seen = _placed(job, seen, min(CLOCKS_S, max(0.1, ends - time.monotonic())))
    traces = Traces(job.name, [one for one in seen if one.trace.packed])
    told = Profile(tuple(one.profile for one in seen), silent, _recorded=traces)
    if trace is not None:
        told = replace(told, trace=traces.write(trace) if told.recorded else NotAvailable(text("no step was recorded")))
    return replace(told, taken_s=time.monotonic() - began)


def _watch(
    job: Ranks, params: Mapping[str, Any], behind: Mapping[int, Mapping[str, int]] | None, ends: float
) -> tuple[Sequence[Seen], tuple[Silent, ...]]:
    """With a bar where it takes more than a moment: when that is full the window is over."""
    began, left_s = time.monotonic(), max(0.1, ends - time.monotonic())
    asking = Task(lambda: job.ask_agents("profile", params, left_s, evidence_profile.seen, of_rank=behind), "profile")
    title = text("recording steps") if params["steps"] else text("watching lines")
    try:
        with SecondsBar(title, params["window_s"] if params["steps"] else params["least_s"]) as bar:
            while not asking.wait(min(ends, time.monotonic() + TICK_S)) and time.monotonic() < ends:
                bar(time.monotonic() - began)
        return asking.result(ends + LATE_S)
    except KeyboardInterrupt:
        end_calls(job.open_links())
        raise


def _matched(job: Ranks, until: float) -> Maybe[Matched]:
    """Where all ranks are, and how long a step of each takes: what has just been attached to has not seen two of them yet."""
    while True:
        matched = match(job.ask_agents, until + LATE_S, max(0.0, until - time.monotonic()))
        known = isinstance(matched, NotAvailable) or all(pace.usual_step_s for pace in matched.paces)
        if known or time.monotonic() + TICK_S > until:
            return matched
        time.sleep(TICK_S)


def _need_time(matched: Matched, steps: int, window_s: float) -> None:
    """Raises `UsageError` where so many steps take longer than may be watched, as far as that is known."""
    step_s = max((pace.usual_step_s for pace in matched.paces if pace.usual_step_s), default=0.0)
    needed_s = (steps + 2) * step_s
    if needed_s > window_s:
        raise UsageError(
            text(
                "a step takes {step_s}: {steps} of them, and the one under way, are not over in {window_s}",
                step_s=duration(step_s),
                steps=steps,
                window_s=duration(window_s),
            ),
            text("`%profile --steps 1 --seconds {seconds}`; or `%profile --sample`", seconds=math.ceil(3.5 * step_s)),
        )


def _placed(job: Ranks, seen: Sequence[Seen], deadline_s: float) -> list[Seen]:
    """With how far each rank's clock is ahead of the first one's, and what a Ray cluster calls it."""
    links = {(link.rank, link.pid): link for link in job.open_links()}
    ours = [links.get((one.profile.rank, one.profile.pid)) for one in seen]
    told = clocks([link for link in ours if link is not None], deadline_s) if len(seen) > 1 else {}
    first = next(iter(told.values()), None)
    placed = []
    for one, link in zip(seen, ours, strict=True):
        about: dict[str, Any] = {} if link is None else {"worker": link.worker}
        clock = None if link is None else told.get(link)
        if clock is not None and first is not None and clock is not first:
            about["clock_ahead_s"] = clock.ahead_s - first.ahead_s
            about["clock_error_s"] = clock.error_s + first.error_s
        placed.append(replace(one, profile=replace(one.profile, **about)))
    return placed
