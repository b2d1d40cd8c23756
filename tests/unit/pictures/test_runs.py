"""Losses of several runs by their logs, and `traindbg.plot`, which takes a result, a log, or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from cases import each
from figure_texts import overlaps
from picture_scenes import gpus
from render_scenes_plan import config_preflight

import traindbg
from jupyter_traindbg.errors import BadLog, NoTarget, UsageError
from jupyter_traindbg.model import Picture


@pytest.fixture(autouse=True)
def in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def log(path: Path, losses: Sequence[float], *, first: int = 1, form: str = "step {} rank 0 loss {}") -> Path:
    path.write_text("hello\n" + "".join(form.format(first + i, loss) + "\n" for i, loss in enumerate(losses)))
    return path


def lines(picture: Picture) -> dict[str, tuple[list[float], list[float]]]:
    axes = picture.figure.axes[0]
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.lines
        if line.get_linestyle() != "None"
    }


@each(
    "form",
    ["step {} rank 0 loss {}", "{{'loss': {1}, 'step': {0}}}", "iter {}: loss {}", "global_step={} train/loss={}"],
)
def test_runs_are_drawn_over_their_steps(form: str, tmp_path: Path) -> None:
    alone = log(tmp_path / "a.log", [5.0, 4.0, 3.0, 2.0, 1.0, 0.5], form=form)
    resumed = log(tmp_path / "b.log", [2.0, 1.0, 0.5], first=4, form=form)
    picture = traindbg.plot({"alone": alone, "resumed": str(resumed)})
    assert picture.of == "runs"
    assert picture.words == (
        "alone: 0.5 at step 6; lowest 0.5 at step 6",
        "resumed: 0.5 at step 6; lowest 0.5 at step 6",
    )
    assert lines(picture) == {"alone": ([1, 2, 3, 4, 5, 6], [5, 4, 3, 2, 1, 0.5]), "resumed": ([4, 5, 6], [2, 1, 0.5])}
    assert picture.figure.axes[0].get_xlabel() == "step"
    assert overlaps(picture.figure) == []


def test_the_earlier_line_is_wider_so_that_equal_runs_are_both_seen(tmp_path: Path) -> None:
    both = {name: log(tmp_path / f"{name}.log", [3.0, 2.0, 1.0]) for name in ("one", "two", "three")}
    widths = [
        line.get_linewidth() for line in traindbg.plot(both).figure.axes[0].lines if line.get_linestyle() != "None"
    ]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3


def test_a_log_without_steps_is_drawn_over_its_lines(tmp_path: Path) -> None:
    a, b = log(tmp_path / "a.log", [3.0, 2.0, 1.0]), log(tmp_path / "b.log", [3.0, 2.0, 1.0], form="{} loss: {}")
    picture = traindbg.plot({"a": a, "b": b})
    assert picture.figure.axes[0].get_xlabel() == "line of the log"
    assert lines(picture)["a"][0] == [2, 3, 4]


def test_a_run_that_breaks_is_said_and_marked(tmp_path: Path) -> None:
    broken = log(tmp_path / "a.log", [3.0, 2.0, math.nan, math.nan])
    picture = traindbg.plot({"broken": broken, "empty": log(tmp_path / "b.log", [])})
    assert picture.words == ("broken: 2 at step 2, then not finite; lowest 2 at step 2", "empty: no loss in its log")
    (marks,) = [line for line in picture.figure.axes[0].lines if line.get_linestyle() == "None"]
    assert list(marks.get_xdata()) == [3, 4]


def test_one_log_is_its_course(tmp_path: Path) -> None:
    assert traindbg.plot(log(tmp_path / "a.log", [3.0, 2.0, 1.0])).of == "log"


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(NoTarget, match="no log tells of a loss"):
        traindbg.plot({"a": log(tmp_path / "a.log", [])})
    with pytest.raises(UsageError, match="nothing to draw was named"):
        traindbg.plot({})
    with pytest.raises(BadLog, match="nowhere"):
        traindbg.plot({"a": tmp_path / "nowhere.log"})
    with pytest.raises(UsageError, match="ConfigPreflight and Memory cannot be drawn beside each other; logs can"):
        traindbg.plot({"a": config_preflight(), "b": gpus(1)})
