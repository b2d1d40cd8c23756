"""What is kept of a long run, against the whole of it."""

from __future__ import annotations

import numpy as np
from cases import each

from jupyter_traindbg.live.curves import FEW_RANKS, Range, Span, curve_of, thin
from jupyter_traindbg.live.history import BUCKETS, History

COLUMNS = ("time_s", "loss", "grad_norm")


class Whole:
    """The same records in plain arrays: what the history is compared with."""

    def __init__(self, ranks: int, steps: int, seed: int = 0) -> None:
        dice = np.random.default_rng(seed)
        self.values = dice.normal(size=(ranks, steps, len(COLUMNS)))
        self.values[:, :, 0] = 1000.0 + np.arange(steps) * 0.5
        self.values[:, :, 2][dice.random((ranks, steps)) < 0.7] = np.nan  # not measured at most steps
        self.bad = np.zeros(self.values.shape, bool)
        self.bad[:, :, 1] = dice.random((ranks, steps)) < 0.001
        self.values[:, :, 1][self.bad[:, :, 1]] = np.nan

    def fill(self, history: History, *, rounds: int = 40, lag: int = 3) -> None:
        """Bit by bit, later ranks a little behind, some records told twice."""
        ranks, steps, _ = self.values.shape
        edges = np.linspace(0, steps, rounds + 1).astype(int)
        done = [0] * ranks
        for edge in [*edges[1:], steps]:
            who, which = [], []
            for rank in range(ranks):
                upto = edge if edge == steps else max(done[rank], edge - lag * rank)
                again = max(0, done[rank] - 2)
                who += [rank] * (upto - again)
                which += range(again, upto)
                done[rank] = upto
            rows, at = np.array(who, dtype=np.int64), np.array(which, dtype=np.int64)
            history.add(rows, at + 1, self.values[rows, at].copy(), self.bad[rows, at].copy())


@each(("ranks", "steps"), [(1, 10), (3, 700), (2, 5000), (12, 3000)])
def test_a_curve_of_everything_has_every_spike(ranks: int, steps: int) -> None:
    whole, history = Whole(ranks, steps), History(COLUMNS)
    whole.fill(history)
    assert history.steps == steps
    for c, name in ((1, "loss"), (2, "grad_norm")):
        found = thin(history, name, list(range(ranks)), Span(1, steps, 200))
        assert len(found.step) <= max(200, BUCKETS / 2)
        finite = np.where(whole.bad[:, :, c], np.nan, whole.values[:, :, c])
        starts = found.step.astype(int) - 1
        np.testing.assert_array_equal(found.low, np.fmin.reduceat(finite, starts, axis=1))
        np.testing.assert_array_equal(found.high, np.fmax.reduceat(finite, starts, axis=1))
        np.testing.assert_array_equal(found.bad, np.logical_or.reduceat(whole.bad[:, :, c], starts, axis=1))
        counted = np.add.reduceat(~np.isnan(finite), starts, axis=1)
        total = np.add.reduceat(np.nan_to_num(finite), starts, axis=1)
        if found.width <= history.width:  # of coarser ones it is a mean of means
            with np.errstate(invalid="ignore"):
                np.testing.assert_allclose(found.mean, total / counted, equal_nan=True)


def test_a_part_is_as_fine_as_the_single_steps() -> None:
    whole, history = Whole(2, 4000), History(COLUMNS)
    whole.fill(history)
    curve = curve_of(history, "loss", Range(1001, 1200, 600), ranks=None)
    assert curve.per_point == 1
    assert curve.complete
    np.testing.assert_array_equal(curve.x, np.arange(1001, 1201))
    for rank in (0, 1):
        np.testing.assert_array_equal(curve.lines[rank], whole.values[rank, 1000:1200, 1])
    middling = curve_of(history, "loss", Range(1001, 2000, 100), ranks=[1])
    assert 50 <= len(middling.x) <= 102
    part = whole.values[1, 1000:2000, 1]
    assert np.nanmax(middling.lines[1]) == np.nanmax(part)
    assert np.nanmin(middling.lines[1]) == np.nanmin(part)


def test_least_and_greatest_come_in_the_order_in_which_they_were() -> None:
    history = History(COLUMNS)
    values = np.zeros((400, 3))
    values[:, 1] = np.where(np.arange(400) % 16 == 3, 5.0, np.where(np.arange(400) % 16 == 11, -5.0, 0.0))
    for part in np.split(np.arange(400), 8):
        history.add(np.zeros(50, np.int64), part + 1, values[part], np.zeros((50, 3), bool))
    line = curve_of(history, "loss", Range(None, None, 50), ranks=None).lines[0]
    assert line.tolist() == [5.0, -5.0] * 25  # each bucket of 16 steps goes up first, then down


def test_the_order_survives_when_buckets_become_one() -> None:
    history = History(COLUMNS)
    steps = 8 * BUCKETS
    values = np.zeros((steps, 3))
    values[:, 1] = np.where(np.arange(steps) % 8 == 1, 5.0, np.where(np.arange(steps) % 8 == 6, -5.0, 0.0))
    for part in np.split(np.arange(steps), 64):
        history.add(np.zeros(len(part), np.int64), part + 1, values[part], np.zeros((len(part), 3), bool))
    assert history.width == 8
    line = curve_of(history, "loss", Range(None, None, 2 * BUCKETS), ranks=None).lines[0]
    assert line.tolist() == [5.0, -5.0] * BUCKETS


def test_what_is_not_finite_is_told_apart_from_what_was_not_measured() -> None:
    history = History(COLUMNS)
    values, bad = np.full((5000, 3), np.nan), np.zeros((5000, 3), bool)
    values[:, 0], values[:, 1] = np.arange(5000.0), 1.0
    values[2500, 1], bad[2500, 1] = np.inf, True
    history.add(np.zeros(5000, np.int64), np.arange(1, 5001), values, bad)
    assert not history.has("grad_norm")
    curve = curve_of(history, "loss", Range(None, None, 100), ranks=None)
    assert np.nanmax(curve.lines[0]) == 1.0
    (at,) = curve.nonfinite[0]
    assert at <= 2501 < at + curve.per_point
    by_time = curve_of(history, "loss", Range(None, None, 100, "time"), ranks=None)
    assert by_time.nonfinite[0][0] == at - 1  # step 1 ended at second 0


def test_many_ranks_are_a_band_and_chosen_ones_are_lines() -> None:
    ranks, steps = FEW_RANKS + 3, 300
    whole, history = Whole(ranks, steps), History(COLUMNS)
    whole.fill(history, lag=0)
    curve = curve_of(history, "loss", Range(), ranks=None)
    assert curve.lines == {}
    assert curve.band is not None
    low, middle, high = curve.band
    finite = np.where(whole.bad[:, :, 1], np.nan, whole.values[:, :, 1])
    np.testing.assert_array_equal(low, np.fmin.reduce(finite, axis=0))
    np.testing.assert_array_equal(high, np.fmax.reduce(finite, axis=0))
    ordered = np.sort(finite, axis=0)
    known = (~np.isnan(finite)).sum(axis=0)
    np.testing.assert_array_equal(middle, ordered[(known - 1) // 2, np.arange(steps)])
    assert sorted(curve_of(history, "loss", Range(), ranks=[2, 9]).lines) == [2, 9]
    assert curve_of(history, "loss", Range(), ranks=[99]).lines == {}


def test_memory_is_bounded_and_what_is_old_is_thinned() -> None:
    history = History(COLUMNS, budget_bytes=4096 * 4 * 3 * 9)
    whole = Whole(4, 60_000)
    whole.fill(history, rounds=120)
    assert history.memory_bytes < 2_000_000
    assert history.oldest_raw > 40_000
    curve = curve_of(history, "loss", Range(1, 60_000, 600), ranks=None)
    assert not curve.complete
    for rank in range(4):
        assert np.nanmax(curve.lines[rank]) == np.nanmax(whole.values[rank, :, 1])
    old = curve_of(history, "loss", Range(1, 1000, 600), ranks=[0])
    assert old.per_point == history.width
    assert len(old.x) >= 2 * 1000 // history.width


def test_time_and_steps_lead_to_each_other() -> None:
    whole, history = Whole(2, 3000), History(COLUMNS)
    whole.values[:, 1500:, 0] += 400.0  # a pause
    whole.fill(history)
    for step in (1, 2, 1499, 1500, 1501, 2999, 3000):
        time_s = whole.values[0, step - 1, 0]
        assert history.times(np.array([float(step)]))[0] == time_s
        assert history.step_at(time_s) == step
    assert history.step_at(999.0) == 0
    assert history.step_at(1900.0) == 1500
    curve = curve_of(history, "loss", Range(1700.0, 2200.0, 600, "time"), ranks=[0])
    assert set(curve.x) <= set(whole.values[0, :, 0])
    assert (np.diff(curve.x) > 0).all()


def test_a_rank_that_missed_steps_shows_a_gap_and_not_what_was_there_before() -> None:
    history = History(COLUMNS, budget_bytes=1)
    ring = 4096
    values = np.ones((ring, 3))
    history.add(np.zeros(ring, np.int64), np.arange(1, ring + 1), values, np.zeros(values.shape, bool))
    later = np.array([ring + 100])
    history.add(np.zeros(1, np.int64), later, 7 * np.ones((1, 3)), np.zeros((1, 3), bool))
    seen = history.raw("loss", [0], ring + 1, ring + 100)[0][0]
    assert np.isnan(seen[:-1]).all()
    assert seen[-1] == 7


def test_figures_that_arrive_later_are_put_in_and_counted_once() -> None:
    history = History(COLUMNS)
    first = np.array([[0.0, np.nan, np.nan], [1.0, 2.0, np.nan]])
    history.add(np.zeros(2, np.int64), np.array([1, 2]), first, np.zeros((2, 3), bool))
    again = np.array([[0.0, 4.0, 3.0], [1.0, np.nan, np.nan]])
    history.add(np.zeros(2, np.int64), np.array([1, 2]), again, np.zeros((2, 3), bool))
    assert history.raw("loss", [0], 1, 2)[0][0].tolist() == [4.0, 2.0]
    low, high, mean, _, _ = history.buckets("loss", [0], 0, 1)
    assert (low[0].tolist(), high[0].tolist(), mean[0].tolist()) == ([4.0, 2.0], [4.0, 2.0], [4.0, 2.0])


def test_nothing_yet_is_an_empty_curve() -> None:
    curve = curve_of(History(COLUMNS), "loss", Range(), ranks=None)
    assert len(curve.x) == 0
    assert curve.lines == {}
    assert curve.complete


def test_the_same_points_come_again_as_a_curve_grows() -> None:
    whole, history = Whole(1, 3000), History(COLUMNS)
    zeros = np.zeros(2000, np.int64)
    history.add(zeros, np.arange(1, 2001), whole.values[0, :2000].copy(), whole.bad[0, :2000].copy())
    before = curve_of(history, "loss", Range(None, None, 300), ranks=None)
    history.add(zeros[:50], np.arange(2001, 2051), whole.values[0, 2000:2050].copy(), whole.bad[0, 2000:2050].copy())
    after = curve_of(history, "loss", Range(None, None, 300), ranks=None)
    assert after.per_point == before.per_point
    settled = len(before.x) - 2
    np.testing.assert_array_equal(before.x[:settled], after.x[:settled])
    np.testing.assert_array_equal(before.lines[0][:settled], after.lines[0][:settled])
