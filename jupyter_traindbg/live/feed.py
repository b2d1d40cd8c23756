"""`Feed`: asks a running job a few times a second what is new, keeps it, and says what it means. What is drawn live is drawn from it."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from ..errors import TargetGone, TraindbgError
from ..language import text
from ..model import Diagnosis, GpuReport, NewSteps, NotAvailable, StepNumber
from ..step_numbers import step_title
from .aside import Aside
from .curves import Curve, Range, curve_of, latest_of, sparkline_of, spread_of
from .events import Event, Marks
from .history import Bools, Floats, History, Ints
from .pace import Pace, pace_of
from .series import COLUMNS, MEASURED_ASIDE, SERIES, Series, table
from .state import State, judge, needs_diagnosis
from .tracks import Track, ahead_of, share_latest

__all__ = ["Feed", "Source", "Tail"]

RATE_HZ, MOST_HZ = 2.0, 10.0
FIRST_S = 10.0
"""How long agents may take to be brought in."""
ROUND_S = 1.0
"""How long a rank that has answered so far may take; then it is asked apart from the others, with `APART_S`."""
APART_S = 5.0
OVERLAP = 32
"""Figures of a GPU arrive some steps after their record: so many are asked for again."""
ROUNDS_KEPT = 512
LEAST_PAUSE_S = 0.02
PACE_EVERY_S, GPU_EVERY_S = 2.0, 5.0
DIAGNOSE_S, DIAGNOSE_EVERY_S = 10.0, 30.0
SAME_S = 1.0
"""A state that begins no further from the one before is the same one."""


class Source(Protocol):
    """What a feed needs of a job. `jupyter_traindbg.Job` has it."""

    name: str

    @property
    def who(self) -> Mapping[int, str]:
        """What each rank is called."""

    def poll(self, since: Mapping[int, int] | None, *, timeout: float) -> list[NewSteps]:
        """The steps of each rank named after the number given; None: all steps of all that train. Raises `TargetGone` where the job is
        closed.
        """

    def diagnose(self, *, timeout: float) -> Diagnosis:
        """See `jupyter_traindbg.Job.diagnose`."""

    def gpu(self, *, timeout: float) -> GpuReport:
        """See `jupyter_traindbg.Job.gpu`."""


@dataclass(frozen=True)
class Tail:
    """What is new since an earlier version: drop what you have from step ``first`` on, and append ``curves``. Where ``first`` is None,
    there are none, and everything has to be asked for anew. ``events``: all of them.
    """

    version: int
    first: int | None
    curves: Mapping[str, Curve]
    events: tuple[Event, ...]


class Feed:
    """What one job does, kept while it does it. A daemon thread asks; it never touches the training thread.

    A round costs the kernel about 0.3 ms a rank, the trainee's agent the same, the training thread nothing. Memory is bounded
    (`history.BUDGET_BYTES`). Survives ranks that die or do not answer, and the end of the job.
    """

    def __init__(self, job: Source, *, rate_hz: float = RATE_HZ, quiet: bool = False) -> None:
        """`quiet`: nobody watches, and the job is asked for its steps alone, until somebody sets that to False."""
        self.job = job
        self._wake = threading.Event()
        self.rate_hz = rate_hz
        self.quiet = quiet
        self.paused = False
        self.history = History(COLUMNS)
        self.version = 0
        self._marks = Marks()
        self._events: tuple[Event, ...] = ()
        self._state = State("waiting", text("waiting for the first answer"), time.time())
        self._tracks: dict[int, Track] = {}
        self._names: Mapping[int, str] = {}
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._tickets = 0
        self._touched: deque[tuple[int, int]] = deque(maxlen=ROUNDS_KEPT)
        """By version: the first step that it brought."""
        self._apart: Aside[list[NewSteps]] = Aside("apart", self._ask_apart, 0.0)
        self._diagnosing: Aside[Diagnosis] = Aside("diagnosing", self._diagnose, DIAGNOSE_EVERY_S)
        self._gpu: Aside[GpuReport] = Aside("gpu", lambda: self.job.gpu(timeout=APART_S), GPU_EVERY_S)
        self._diagnosis: tuple[float, Diagnosis] | None = None
        """The latest, and when it was begun, in seconds since the epoch."""
        self._rounds = 0
        self.problem: TraindbgError | None = None
        """Why the last round got no answer from anybody."""
        self._ended = False
        """Whether it was asked how the job has ended."""
        self._pace: Pace | None = None
        self._pace_at_s = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()

    # --- running ----------------------------------------------------------------------------------------------------

    @property
    def rate_hz(self) -> float:
        """Rounds a second, at most `MOST_HZ`."""
        return self._rate_hz

    @rate_hz.setter
    def rate_hz(self, value: float) -> None:
        if not value > 0:
            raise ValueError("a rate is a positive number of rounds a second")
        self._rate_hz = min(MOST_HZ, value)
        self._wake.set()

    def start(self) -> None:
        """Begin to ask. A feed that runs goes on."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._stop.clear()
                self._thread = threading.Thread(target=self._run, name="traindbg-feed", daemon=True)
                self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ask no more; what was kept can still be read."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def hurry(self) -> None:
        """Ask now, and not only when it is time to."""
        self._wake.set()

    def detach(self) -> None:
        """The job is being closed: stop, and say so to who still looks, unless it has ended by itself."""
        self.stop()
        if self._state.code != "finished":
            self._put_state(State("detached", text("no longer attached"), time.time()))
        self._tell()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called from the feed's thread after each round, until the function that is returned is called."""
        with self._lock:
            self._tickets += 1
            ticket = self._tickets
            self._callbacks[ticket] = callback

        def leave() -> None:
            with self._lock:
                self._callbacks.pop(ticket, None)

        return leave

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self._wake.clear()
            if not self.paused:
                self.round()
                self._tell()
                if self._state.code == "detached":
                    return
            self._stop.wait(LEAST_PAUSE_S)
            self._wake.wait(max(0.0, 1 / self.rate_hz - (time.monotonic() - began)))

    def _tell(self) -> None:
        with self._lock:
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            try:
                callback()
            except Exception:  # a front end that fails must not end the others' feed
                logging.getLogger(__name__).exception("a subscriber of the feed of %s failed", self.job.name)

    # --- one round --------------------------------------------------------------------------------------------------

    def round(self) -> None:
        """Ask once, and judge. `start` has this done again and again. Raises nothing but programming errors."""
        began_s = time.time()
        try:
            answers = self._ask(began_s)
        except TargetGone as e:
            self.problem = e
            self._put_state(State("detached", text("no longer attached: {cause}", cause=e.cause), began_s))
            return
        except TraindbgError as e:  # a Ray job without trainers yet, hosts that do not answer
            self.problem = e
            if not self._tracks:
                self._put_state(State("waiting", text("waiting: {cause}", cause=e.cause), self._state.since_s))
                return
            answers = []
        else:
            self.problem = None
        self._take(answers)
        self._judge(time.time())
        self._rounds += 1

    def _ask(self, now_s: float) -> list[NewSteps]:
        """All ranks that have been answering, and what has come from the others meanwhile."""
        if not self._tracks:
            answers = self.job.poll(None, timeout=FIRST_S)
            self._tracks = {a.rank: Track(a.rank, a.pid, now_s) for a in sorted(answers, key=lambda a: a.rank)}
            share_latest(list(self._tracks.values()))
            self._names = self.job.who
            return answers
        late = self._apart.take() or []
        there = {track.rank: self._since(track) for track in self._tracks.values() if not track.problem}
        if quiet := {t.rank: self._since(t) for t in self._tracks.values() if t.problem and not t.gone}:
            self._apart.ask(quiet)
        return [*late, *(self.job.poll(there, timeout=ROUND_S) if there else ())]

    def _ask_apart(self, quiet: Mapping[int, int]) -> list[NewSteps]:
        return self.job.poll(quiet, timeout=APART_S)

    def _since(self, track: Track) -> int:
        overlap = OVERLAP if self.history.has("cuda_allocated_bytes") else 0
        return max(0, track.agent_step - overlap)

    def _take(self, answers: Sequence[NewSteps]) -> None:
        now_s = time.time()
        ranks: list[int] = []
        steps: list[int] = []
        values: list[list[float | None]] = []
        for answer in answers:
            for step, figures in self._tracks[answer.rank].take(answer, now_s):
                ranks.append(answer.rank)
                steps.append(step)
                values.append(figures)
        self._marks.done((self._tracks[a.rank], a.doings) for a in answers)
        self._marks.seen(self._tracks.values(), now_s)
        if steps:
            self._add(np.array(ranks), np.array(steps), *table(values))

    def _add(self, ranks: Ints, steps: Ints, table: Floats, bad: Bools) -> None:
        self.history.add(ranks, steps, table, bad)
        with self._lock:
            self.version += 1
            self._touched.append((self.version, int(steps.min())))

    def _judge(self, now_s: float) -> None:
        tracks = list(self._tracks.values())
        self._look_aside(tracks, now_s)
        if now_s - self._pace_at_s >= PACE_EVERY_S:
            self._pace, self._pace_at_s = pace_of(self.history, self._pace, now_s), now_s
        state = judge(tracks, now_s, pace=self._pace, diagnosis=self._fresh_diagnosis(tracks))
        if state.code == self._state.code and abs(state.since_s - self._state.since_s) < SAME_S:
            state = dataclasses.replace(state, since_s=self._state.since_s)
        self._marks.judged(state, tracks, now_s)
        self._put_state(state)

    def _put_state(self, state: State) -> None:
        with self._lock:
            events = tuple(self._marks.events) if len(self._marks.events) != len(self._events) else self._events
            if state != self._state or events is not self._events:
                self._state, self._events = state, events
                self.version += 1

    # --- what is asked now and then ---------------------------------------------------------------------------------

    def _look_aside(self, tracks: Sequence[Track], now_s: float) -> None:
        if (found := self._diagnosing.take()) is not None:
            self._diagnosis = (now_s - (time.monotonic() - (self._diagnosing.asked_s or 0.0)), found)
        ended = bool(tracks) and all(track.gone for track in tracks)
        if ended and not self._ended:
            self._ended = self._diagnosing.ask(again=True)  # once: what ended stays as it is
        if self.quiet:
            return
        if not ended and needs_diagnosis(tracks, now_s):
            self._diagnosing.ask()
        if (report := self._gpu.take()) is not None:
            self._take_gpu(report)
        if self.history.has("cuda_allocated_bytes") and not all(track.gone for track in tracks):
            self._gpu.ask()

    def _diagnose(self) -> Diagnosis:
        return self.job.diagnose(timeout=DIAGNOSE_S)

    def _fresh_diagnosis(self, tracks: Sequence[Track]) -> Diagnosis | None:
        """The latest, unless a step has come since it was begun."""
        if self._diagnosis is None:
            return None
        began_s, diagnosis = self._diagnosis
        last_s = max((t.step_at_s for t in tracks if t.step_at_s is not None), default=0.0)
        return diagnosis if last_s < began_s else None

    def _take_gpu(self, report: GpuReport) -> None:
        """Utilisation belongs to the ranks that have memory on the device; the greatest, where a rank has several."""
        busy: dict[int, float] = {}
        for device in report.devices:
            if isinstance(device.utilization_percent, NotAvailable) or isinstance(device.processes, NotAvailable):
                continue
            for process in device.processes:
                if process.ours is not None and process.ours in self._tracks:
                    busy[process.ours] = max(busy.get(process.ours, 0.0), float(device.utilization_percent))
        known = {rank: value for rank, value in busy.items() if self._tracks[rank].step}
        if known:
            values = np.full((len(known), len(COLUMNS)), np.nan)
            values[:, COLUMNS.index(MEASURED_ASIDE)] = list(known.values())
            steps = np.array([self._tracks[rank].step for rank in known])
            self._add(np.array(list(known)), steps, values, np.zeros(values.shape, bool))

    # --- reading ----------------------------------------------------------------------------------------------------

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks, in order."""
        return tuple(self._tracks)

    @property
    def rank_names(self) -> Mapping[int, str]:
        """What each rank is called: ``"rank 3"``, or in Ray ``"Collector[0]"``."""
        return {rank: self._names.get(rank, f"rank {rank}") for rank in self._tracks}

    @property
    def silent(self) -> Mapping[int, str]:
        """Why a rank gives no answer, by those that give none."""
        return {track.rank: track.problem for track in list(self._tracks.values()) if track.problem}

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The latest, where the state has asked for one."""
        return None if self._diagnosis is None else self._diagnosis[1]

    @property
    def series(self) -> tuple[Series, ...]:
        """The series that this job has given a value for, in the order in which they are shown."""
        return tuple(s for s in SERIES if s.name in COLUMNS and self.history.has(s.name))

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened, oldest first."""
        return self._events

    @property
    def state(self) -> State:
        """What the job does, in words."""
        return self._state

    @property
    def last_step(self) -> int:
        """The latest step of any rank, counted since the attach; 0 before the first."""
        return self.history.steps

    def curve(
        self,
        name: str,
        *,
        ranks: Sequence[int] | None = None,
        first: float | None = None,
        last: float | None = None,
        points: int = 600,
        x: Literal["step", "time"] = "step",
    ) -> Curve:
        """Series `name` from `first` to `last` (steps, or seconds since the epoch, as `x` says; default: all) in about `points` points.

        A line for each of `ranks`, or for all where they are `FEW_RANKS` at most, else a band over all. Takes a millisecond for 8 ranks, a
        few for 300, however long the range is. Raises `KeyError` for a series that there cannot be.
        """
        if name not in COLUMNS[1:]:
            raise KeyError(name)
        return curve_of(self.history, name, Range(first, last, points, x), ranks=ranks)

    def tail(
        self,
        since: int,
        *,
        names: Sequence[str] | None = None,
        ranks: Sequence[int] | None = None,
        points: int = 600,
        x: Literal["step", "time"] = "step",
    ) -> Tail:
        """What has come after version `since`, of series `names` (default: all), one by one where that is at most `points`."""
        with self._lock:
            version, touched, events = self.version, list(self._touched), self._events
        if touched and since < touched[0][0] - 1:
            return Tail(version, None, {}, events)
        newer = [step for at, step in touched if at > since]
        if not newer:
            return Tail(version, self.last_step + 1, {}, events)
        first = min(newer)
        with self.history.lock:
            wanted = [s.name for s in self.series] if names is None else names
            part = Range(self.history.x_of(first, x), None, points, x)
            curves = {name: curve_of(self.history, name, part, ranks=ranks) for name in wanted}
        return Tail(version, first, curves, events)

    def snapshot(self) -> dict[str, Any]:
        """The state in a few figures, as plain JSON: for lists of many jobs, and for one line at a terminal. A millisecond."""
        state, tracks = self.state, list(self._tracks.values())
        latest = self.latest()
        return {
            "job": self.job.name,
            "state": {"code": state.code, "words": state.words, "since_s": state.since_s, "why": list(state.why)},
            "step": self.last_step,
            "own_step": self.number.own,
            "at": step_title(self.number),
            "ranks": len(tracks),
            "silent": {str(rank): why for rank, why in self.silent.items()},
            "loss": self.sparkline("loss"),
            "latest": {name: [_plain(v) for v in values] for name, values in latest.items()},
            "events": [{"kind": e.kind, "step": e.step, "time_s": e.time_s, "text": e.text} for e in self.events[-5:]],
            "version": self.version,
        }

    def latest(self) -> dict[str, tuple[float, float, float]]:
        """Least, median and greatest over the ranks of the latest value of each series; NaN where none is finite."""
        return {name: spread_of(values) for name, values in self.latest_by_rank().items()}

    def latest_by_rank(self) -> dict[str, dict[int, float]]:
        """By series and rank the latest value within the last steps, of times their median. 0.1 ms a series."""
        return latest_of(self.history, [s.name for s in self.series])

    def step_of(self, rank: int) -> int:
        """The latest step of a rank; 0 before its first."""
        return self._tracks[rank].step

    def number_of(self, rank: int) -> StepNumber:
        """The latest step of a rank, by the optimizer's own count, too, where it keeps one and is the only one."""
        track = self._tracks[rank]
        return track.number if len(track.optimizers) <= 1 else StepNumber(track.step, None)

    @property
    def number(self) -> StepNumber:
        """The latest step of any rank."""
        numbers = [self.number_of(rank) for rank in self.ranks]
        owns = [number.own for number in numbers if number.own is not None]
        return StepNumber(self.last_step, max(owns) if owns and len(owns) == len(numbers) else None)

    @property
    def ahead(self) -> int | None:
        """To be added to a step counted since the attach for the number under which it is shown, the optimizer's own; None where that
        keeps none, or began to count anew on the way. May become known, or change, with every round.
        """
        return ahead_of(list(self._tracks.values()))

    def left_of(self, rank: int) -> Track | None:
        """What is remembered of a rank, also when it has ended."""
        return self._tracks.get(rank)

    def told_s(self, rank: int) -> float | None:
        """When a rank told of its latest step, by its host's clock."""
        return self._tracks[rank].told_s

    def step_age_s(self, rank: int) -> float | None:
        """How long the latest step of a rank is ago; None before its first."""
        at_s = self._tracks[rank].step_at_s
        return None if at_s is None else max(0.0, time.time() - at_s)

    def refresh(self, timeout: float = 10.0) -> None:
        """Have one more round behind us than now: waits for the next one, or makes it where the feed does not run."""
        if not self.running:
            self.round()
            return
        seen, ends = self._rounds, time.monotonic() + timeout
        while self._rounds < seen + 2 and self.running and not self.paused and time.monotonic() < ends:
            self.hurry()
            time.sleep(0.01)

    def sparkline(self, name: str, values: int = 60, *, rank: int | None = None) -> list[float | None]:
        """Series `name` of one rank (default: the first) over all steps, one mean per value; None where one was not finite."""
        return sparkline_of(self.history, name, values, rank)


def _plain(value: float) -> float | None:
    """JSON has no NaN."""
    return value if np.isfinite(value) else None
