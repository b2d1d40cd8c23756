"""A feed of jobs that are made up: what it asks, what it keeps, and what it tells."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
import types
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from cases import each
from feeds import BEGAN_S, Made

from jupyter_traindbg.live import Feed, Source
from jupyter_traindbg.live import feed as module
from jupyter_traindbg.live.frame import frame
from jupyter_traindbg.model import (
    Device,
    DeviceProcess,
    Diagnosis,
    Doing,
    Finding,
    GpuReport,
    NewSteps,
    NotAvailable,
)

PATIENT_S = 30.0


@pytest.fixture(autouse=True)
def in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time since the epoch that the feed sees."""
    now = [BEGAN_S + 100.0]

    clock = types.SimpleNamespace(time=lambda: now[0], monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(module, "time", clock)
    return now


def until(what: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENT_S
    while not what():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_each_round_asks_for_what_is_new_only() -> None:
    job = Made(2)
    job.step(5)
    feed = Feed(job)
    feed.round()
    job.step(3, ranks=[0])
    feed.round()
    feed.round()
    assert job.asked == [None, {0: 5, 1: 5}, {0: 8, 1: 5}]
    assert feed.last_step == 8
    assert (feed.step_of(0), feed.step_of(1)) == (8, 5)
    assert feed.ranks == (0, 1)
    assert feed.rank_names == {0: "rank 0", 1: "rank 1"}
    curve = feed.curve("loss")
    assert curve.lines[0].tolist() == [1.0 / i for i in range(1, 9)]
    assert curve.lines[1][:5].tolist() == [1.0 / i for i in range(1, 6)]
    assert np.isnan(curve.lines[1][5:]).all()


def test_only_series_with_values_are_there_and_the_schedule_is_apart_from_what_is_used() -> None:
    job = Made()
    job.step(3)
    job.step(2, lr_scheduled=[2e-3])
    feed = Feed(job)
    feed.round()
    assert [s.name for s in feed.series] == ["loss", "lr", "lr_effective", "step_s", "rss_bytes"]
    assert feed.curve("lr_effective").lines[0].tolist() == [1e-3] * 5
    assert feed.curve("lr").lines[0].tolist() == [1e-3] * 3 + [2e-3] * 2
    assert len(feed.curve("grad_norm").x) == 0
    with pytest.raises(KeyError):
        feed.curve("nonsense")


def test_a_tail_has_what_came_since_and_nothing_else() -> None:
    job = Made(2)
    job.step(100)
    feed = Feed(job)
    feed.round()
    seen = feed.version
    assert feed.tail(seen).curves == {}
    job.step(4)
    feed.round()
    tail = feed.tail(seen, names=["loss"])
    assert (tail.first, list(tail.curves)) == (101, ["loss"])
    assert tail.curves["loss"].x.tolist() == [101, 102, 103, 104]
    assert tail.version == feed.version > seen
    by_time = feed.tail(seen, names=["loss"], x="time")
    assert by_time.curves["loss"].x.tolist() == [BEGAN_S + 0.1 * (i - 1) for i in range(101, 105)]


def test_who_was_away_for_long_is_told_to_ask_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUNDS_KEPT", 4)
    job = Made()
    feed = Feed(job)
    for _ in range(10):
        job.step()
        feed.round()
    assert feed.tail(1).first is None
    assert feed.tail(feed.version - 1).first is not None


def test_a_quiet_feed_asks_for_steps_alone_until_somebody_watches(clock: list[float]) -> None:
    job = Made()
    job.step(3)
    feed = Feed(job, quiet=True)
    feed.round()
    clock[0] += 100.0
    feed.round()
    assert feed.state.code == "stalled"
    assert job.diagnoses == 0
    feed.quiet = False
    feed.round()
    until(lambda: job.diagnoses == 1)


def test_a_quiet_feed_asks_once_how_the_job_has_ended() -> None:
    job = Made()
    job.step(3)
    feed = Feed(job, quiet=True)
    feed.round()
    job.gone.add(0)
    for _ in range(3):
        feed.round()
    until(lambda: job.diagnoses == 1)
    feed.round()
    assert feed.state.code == "finished"
    assert job.diagnoses == 1


def test_the_latest_records_stay_as_they_were_told_when_a_rank_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OVERLAP", 2)
    job = Made()
    job.step(5, cuda_allocated_bytes=1)
    feed = Feed(job)
    feed.round()
    job.step(3, cuda_allocated_bytes=2)
    feed.round()
    job.gone.add(0)
    feed.round()
    track = feed.left_of(0)
    assert track is not None
    assert list(track.latest) == job.records[0], "and none of them twice"
    assert feed.left_of(1) is None


def test_of_many_ranks_fewer_records_are_kept_each() -> None:
    job = Made(300)
    job.step(200)
    feed = Feed(job)
    feed.round()
    track = feed.left_of(7)
    assert track is not None
    assert [record[0] for record in track.latest] == list(range(92, 201))


def test_who_is_in_a_hurry_does_not_wait_for_the_next_round() -> None:
    job = Made()
    feed = Feed(job, rate_hz=0.001)
    feed.start()
    until(lambda: len(job.asked) == 1)
    feed.hurry()
    until(lambda: len(job.asked) == 2)
    feed.rate_hz = 0.002
    until(lambda: len(job.asked) == 3)
    feed.stop()
    assert not feed.running


def test_a_rank_that_does_not_answer_is_told_and_does_not_hold_up_the_others() -> None:
    job = Made(3)
    answering, asked_apart = threading.Event(), threading.Event()
    plain = job.poll

    def poll(since: Mapping[int, int] | None, *, timeout: float) -> list[NewSteps]:
        if since is not None and list(since) == [1]:
            asked_apart.set()
            assert answering.wait(PATIENT_S)
            return plain(since, timeout=timeout)
        return plain(since, timeout=timeout)

    job.poll = poll  # type: ignore[method-assign]
    job.step(5)
    feed = Feed(job)
    feed.round()
    job.problems[1] = "did not answer in 1.0 s"
    feed.round()
    assert feed.silent == {1: "did not answer in 1.0 s"}
    for _ in range(3):
        job.step(1, ranks=[0, 2])
        feed.round()  # returns although the question to rank 1 does not
    assert asked_apart.is_set()
    assert (feed.step_of(0), feed.step_of(1), feed.step_of(2)) == (8, 5, 8)
    del job.problems[1]
    job.step(3, ranks=[1])
    answering.set()
    until(lambda: feed.round() or not feed.silent)
    assert feed.step_of(1) == 8


def test_a_rank_that_is_gone_is_asked_no_more() -> None:
    job = Made(2)
    job.step(5)
    feed = Feed(job)
    feed.round()
    job.gone.add(1)
    feed.round()
    feed.round()
    assert job.asked[-1] == {0: 5}
    assert [e.kind for e in feed.events] == ["lost"]


def test_figures_of_a_gpu_are_asked_for_again_until_they_are_there() -> None:
    job = Made()
    job.step(50, cuda_allocated_bytes=1, loss=math.nan)
    feed = Feed(job)
    for record in job.records[0]:
        record[5] = None  # the loss is still on its way from the GPU
    feed.round()
    assert feed.state.code != "diverged"
    for record in job.records[0]:
        record[5] = 2.5
    feed.round()
    assert job.asked[-1] == {0: 50 - module.OVERLAP}
    assert feed.curve("loss").lines[0][-module.OVERLAP :].tolist() == [2.5] * module.OVERLAP


def test_a_closed_job_ends_the_feed_and_what_it_has_stays() -> None:
    job = Made()
    job.step(5)
    feed = Feed(job, rate_hz=10)
    feed.start()
    until(lambda: feed.last_step == 5)
    job.closed = True
    until(lambda: not feed.running)
    assert feed.state.code == "detached"
    assert len(feed.curve("loss").x) == 5


def test_a_callback_comes_after_each_round_until_it_leaves_and_a_bad_one_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    job, called = Made(), threading.Semaphore(0)
    feed = Feed(job, rate_hz=10)

    def bad() -> None:
        raise ValueError("a page that is gone")

    feed.subscribe(bad)
    leave = feed.subscribe(called.release)
    with caplog.at_level(logging.ERROR):
        feed.start()
        assert called.acquire(timeout=PATIENT_S)
        assert called.acquire(timeout=PATIENT_S)
        leave()
        feed.stop()
    assert not feed.running
    assert "a subscriber of the feed of made failed" in caplog.text


def test_paused_it_asks_nothing() -> None:
    job = Made()
    feed = Feed(job, rate_hz=10)
    feed.paused = True
    feed.start()
    time.sleep(0.3)
    assert job.asked == []
    feed.paused = False
    until(lambda: job.asked)
    feed.stop()


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan])
def test_a_rate_is_positive_and_at_most_ten(rate: float) -> None:
    feed = Feed(Made(), rate_hz=100.0)
    assert feed.rate_hz == module.MOST_HZ
    with pytest.raises(ValueError, match="positive"):
        feed.rate_hz = rate


def test_a_diagnosis_is_asked_for_once_a_job_stands_still_and_not_again_at_once(clock: list[float]) -> None:
    job = Made(2)
    found = Finding("lock", "critical", "Rank 1 waits for a lock")
    job.diagnosis = lambda: Diagnosis("made", "stuck", (), (), (found,))
    job.step(20)
    clock[0] = BEGAN_S + 2.0
    feed = Feed(job)
    feed.round()
    assert feed.state.code == "training"
    clock[0] += 4.0
    feed.round()
    assert (feed.state.code, job.diagnoses) == ("stalled", 0)
    clock[0] += 30.0
    until(lambda: feed.round() or feed.state.code == "hung")
    assert feed.state.words == "hung for 34 s: Rank 1 waits for a lock"
    assert feed.diagnosis is not None
    for _ in range(5):
        feed.round()
    assert job.diagnoses == 1
    assert [e.kind for e in feed.events] == ["hang"]
    job.step(1, time_s=clock[0])
    feed.round()
    assert feed.state.code == "training"


def test_a_state_that_goes_on_began_when_it_began(clock: list[float]) -> None:
    job = Made()
    job.step(20)
    clock[0] = BEGAN_S + 2.0
    feed = Feed(job)
    feed.round()
    since = feed.state.since_s
    for _ in range(3):
        clock[0] += 0.5
        job.step(5)
        feed.round()
    assert feed.state.since_s == since


def test_the_use_of_a_gpu_is_put_onto_the_step_that_is_the_latest() -> None:
    job = Made(2)
    job.step(5, cuda_allocated_bytes=1)
    na = NotAvailable("not here")
    devices = [
        Device(i, f"GPU-{i}", na, na, na, 40 + i, na, na, na, na, na, na, na, na, (DeviceProcess(100 + i, na, 1, i),))
        for i in (0, 1)
    ]
    job.report = GpuReport(devices, na, na)
    feed = Feed(job)
    feed.round()
    until(lambda: feed.round() or feed.history.has("gpu_utilisation"))
    curve = feed.curve("gpu_utilisation")
    assert (curve.lines[0][-1], curve.lines[1][-1]) == (40.0, 41.0)
    assert feed.curve("loss").lines[0][-1] == 0.2  # the other figures of that step are as they were


def test_three_hundred_ranks_are_a_band_and_their_state_one_line() -> None:
    job = Made(300)
    job.step(50)
    job.step(1, ranks=[7], loss=math.nan)
    feed = Feed(job)
    feed.round()
    curve = feed.curve("loss", points=600)
    assert curve.band is not None
    assert curve.lines == {}
    assert list(curve.nonfinite) == [7]
    latest = feed.latest()
    assert latest["loss"] == (0.02, 0.02, 0.02)
    assert "rank 7" in feed.state.words or feed.state.code == "stalled"


def test_a_million_steps_fit_and_every_range_is_a_few_points() -> None:
    job = Made(2)
    feed = Feed(job)
    feed.round()
    ranks = np.repeat([0, 1], 50_000)
    columns = len(module.COLUMNS)
    for begin in range(0, 1_000_000, 50_000):
        steps = np.tile(np.arange(begin + 1, begin + 50_001), 2)
        table = np.full((100_000, columns), np.nan)
        table[:, 0], table[:, 1] = BEGAN_S + 0.1 * steps, steps % 1000
        table[:, 1][steps == 123_456] = 5000.0
        feed.history.add(ranks, steps, table, np.zeros(table.shape, bool))
    for first, last in ((None, None), (1, 500_000), (100_000, 200_000), (123_000, 124_000), (999_000, None)):
        curve = feed.curve("loss", first=first, last=last)
        assert 100 < len(curve.x) <= 1024
        spiked = first is None or first <= 123_456 <= (last or 1_000_000)
        assert (np.nanmax(curve.lines[0]) == 5000.0) == spiked
    assert feed.history.memory_bytes < 300e6


def test_a_snapshot_is_plain_json() -> None:
    job = Made(2)
    job.step(5)
    job.step(1, loss=math.nan)
    job.problems[1] = "did not answer"
    feed = Feed(job)
    assert json.loads(json.dumps(feed.snapshot(), allow_nan=False))["state"]["code"] == "waiting"
    feed.round()
    seen = json.loads(json.dumps(feed.snapshot(), allow_nan=False))
    assert (seen["job"], seen["step"], seen["ranks"]) == ("made", 6, 2)
    assert seen["loss"] == [1.0, 0.5, 1 / 3, 0.25, 0.2, None]
    assert seen["latest"]["loss"] == [None, None, None]
    assert seen["silent"] == {"1": "did not answer"}


@each(("ahead", "own"), [(628, 633), (None, None)])
def test_events_of_a_frame_are_told_by_the_optimizers_own_count_where_it_keeps_one(
    ahead: int | None, own: int | None
) -> None:
    job = Made()
    for step in range(1, 7):
        job.step(optimizer_step=None if ahead is None else ahead + step)
    job.doings[0] = [Doing("weight_decay", BEGAN_S, 5, "weight decay released")]
    feed = Feed(job)
    feed.round()
    (event,) = frame(feed).events
    assert (feed.ahead, event.kind, event.step, event.optimizer_step) == (ahead, "weight_decay", 5, own)


def test_what_is_not_measured_at_every_step_is_drawn_without_gaps() -> None:
    job = Made()
    for i in range(10):
        job.step(1, grad_norm=float(i) if i % 3 == 0 else None)
    feed = Feed(job)
    feed.round()
    assert feed.sparkline("grad_norm") == [0.0, 3.0, 6.0, 9.0]


def test_the_job_itself_is_a_source() -> None:
    from jupyter_traindbg.job import Job

    def takes(source: Source) -> None: ...

    takes(Job("made", []))
    for name in ("poll", "diagnose", "gpu", "who"):
        assert hasattr(Job, name)
