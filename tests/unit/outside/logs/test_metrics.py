"""Metrics: how they are printed, and how a long series is thinned."""

from __future__ import annotations

import math

import pytest
from cases import each

from jupyter_traindbg.model import LogLine
from jupyter_traindbg.outside.logs.metrics import MOST_POINTS, SeriesBook, values


@each(
    ("line", "expected"),
    [
        ("loss: 1.25", {"loss": 1.25}),
        (
            "{'loss': 1.4, 'learning_rate': 6.5e-05, 'epoch': 0.52}",
            {"loss": 1.4, "learning_rate": 6.5e-05, "epoch": 0.52},
        ),
        ('{"actor/grad_norm": 0.5, "kl": -1}', {"actor/grad_norm": 0.5, "kl": -1.0}),
        ("step 7 | loss 2.5 | lr 1.0e-5", {"step": 7, "loss": 2.5, "lr": 1e-5}),
        (
            "iteration 5/ 100 | lm loss: 6.5E+00 | loss scale: 1.0 | grad norm: 0.5 |",
            {"iteration": 5, "lm loss": 6.5, "loss scale": 1.0, "grad norm": 0.5},
        ),
        ("|    ep_rew_mean | 12.5 |", {"ep_rew_mean": 12.5}),
        ("|    ep_rew_mean          | -1.68        |", {"ep_rew_mean": -1.68}),
        ("Pass 0, batch 100, loss [9.2125  9.2083 9.0877]", {"loss": 9.2125}),
        ("{‘loss’: 1.453, “epoch”: 0.19}", {"loss": 1.453, "epoch": 0.19}),
        ("total loss is 47.09 , training accuracy is 0.000000,", {"total loss": 47.09, "training accuracy": 0}),
        ("Epoch[2] done. Loss: 0.500 (Base: 0.250)", {"loss": 0.5, "base": 0.25}),
        (" iteration     7000/  159576 | lm loss: 6.44E+00 |", {"iteration": 7000, "lm loss": 6.44}),
        ("Batch 50/15000 | Time: 21.7s | CPU: 766.81 MB", {"time": 21.7, "memory cpu": 766.81}),
        ("Memory info of GPU:0: current: 0.18, peak: 2.55", {"memory current": 0.18, "memory peak": 2.55}),
        ("nvidia-smi GPU-0 memory (MB) 2796", {"nvidia-smi gpu-0 memory": 2796}),
        (" 1013: 66390.5, 6639.1 avg, 0.001000 rate, 64 images", {"loss": 66390.5}),
        (
            "Test: [10/1814] Data 0.336 (0.784) Batch 0.474 (1.756).",
            {"data": 0.336, "data mean": 0.784, "batch": 0.474, "batch mean": 1.756},
        ),
        (
            "Epoch: [0][20/500] Time 0.12 (0.3) Loss 6.9e+00 (7.0e+00) Acc@1 1.5 ( 0.4)",
            {"epoch": 0, "time": 0.12, "time mean": 0.3, "loss": 6.9},
        ),
        ("step:3 - actor/pg_loss:-0.1 - reward/mean:0.25", {"step": 3, "actor/pg_loss": -0.1, "reward/mean": 0.25}),
        ("INFO train loss=tensor(0.5, device='cuda:0')", {"train loss": 0.5}),
        ("acc: 45% reward=np.float64(1.5)", {"acc": 45.0, "reward": 1.5}),
        (" 4%|# | 43/1216 [00:21<09:52,  2.00it/s, loss=0.5]", {"loss": 0.5, "it/s": 2.0}),
        (" 4%|# | 43/1216 [00:21<09:52,  4.00s/it]", {"it/s": 0.25}),
        ("Loading checkpoint shards: 100%|##| 2/2", {}),
        ("at 08:10:57 from 10.0.0.2 port: 29500", {}),
        ("trainer.py:212 loss 1.5", {"loss": 1.5}),
        ("iter 100: loss 2.5, time 12.3ms", {"iter": 100, "loss": 2.5}),
        ("step 500: train loss 1.9, val loss 2.0", {"step": 500, "loss": 1.9}),
    ],
)
def test_the_numbers_of_a_line(line: str, expected: dict[str, float]) -> None:
    assert dict(values(line)) == pytest.approx(expected)


def test_nan_and_infinity_are_values() -> None:
    assert math.isnan(dict(values("iter: 20, loss: [nan]"))["loss"])
    seen = dict(values("loss=nan, grad_norm: inf, lr=-inf, info: nano"))
    assert math.isnan(seen["loss"])
    assert (seen["grad_norm"], seen["lr"]) == (math.inf, -math.inf)
    assert "info" not in seen
    assert dict(values("kl: 0.01, loss: nan-safe")) == {"kl": 0.01}


def test_a_long_series_is_thinned_and_keeps_its_ends_and_extremes() -> None:
    book = SeriesBook()
    for i in range(20_000):
        value = 99.0 if i == 7777 else -9.0 if i == 12_345 else math.nan if i == 15_001 else 1.0
        book.add(LogLine(0, i + 1, f"loss: {value}", rank=2))
    (series,) = book.series()
    points = dict(series.points)
    assert len(series.points) <= MOST_POINTS
    assert (series.name, series.rank, series.count, series.nonfinite) == ("loss", 2, 20_000, 1)
    assert {1, 20_000, 7778, 12_346} <= points.keys()
    assert math.isnan(points[15_002])
    assert series.first_nonfinite is not None
    assert series.first_nonfinite.number == 15_002
    assert [number for number, _ in series.points] == sorted(points)


def test_many_series_stay_within_bounds() -> None:
    book = SeriesBook()
    for i in range(3000):
        book.add(LogLine(0, i, f"loss_{i}: 1.0"))
    assert len(book.series()) == 2000


def test_values_of_hostile_lines_end_soon() -> None:
    for line in ("a" * 4000, "a " * 2000, "loss" * 1000, "1" * 4000, "loss: " * 700):
        list(values(line))
