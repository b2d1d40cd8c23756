"""Loss and learning rate over the steps: what the picture says, what is drawn, and that nothing lies on anything else."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from cases import each
from feeds import BEGAN_S, Made
from figure_texts import overlaps, written
from render_scenes_pictures import CHANGED, course_feed, doings, falling, picture_of_loss, picture_of_lr

from jupyter_traindbg import pictures
from jupyter_traindbg.errors import NoTarget, UsageError
from jupyter_traindbg.live import Feed
from jupyter_traindbg.model import Doing, LearningRates, Picture, RankSteps, Silent, Step, Steps
from jupyter_traindbg.pictures import course, loss


@pytest.fixture(autouse=True)
def in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def labels(picture: Picture) -> list[str]:
    return [text.get_text() for legend in picture.figure.legends for text in legend.get_texts()]


def lines_over(picture: Picture, label: str) -> Any:
    return next(line for line in picture.figure.axes[0].lines if line.get_label() == label)


# --- loss


def test_the_answer_is_what_the_loss_is_and_was() -> None:
    picture = pictures.of_feed("loss", course_feed([4.0] * 20 + [2.0] * 20))
    assert picture.title == "loss of rank 0 · steps 8,001-8,040, recorded since the attach"
    assert picture.words == ("loss 2 now (single steps); 4 at the beginning, lowest 2 about step 8,021",)


def test_steps_are_the_optimizers_own_where_it_counts() -> None:
    counted, uncounted = (pictures.of_feed("loss", course_feed([1.0, 2.0, 3.0], own=own)) for own in (41, None))
    assert "steps 42-44" in counted.title
    assert "steps 1-3" in uncounted.title
    assert counted.figure.axes[0].get_xlabel() == "optimizer step"
    assert uncounted.figure.axes[0].get_xlabel() == "optimizer steps since the attach"
    assert list(lines_over(counted, "single steps").get_xdata()) == [42, 43, 44]


@each(
    ("bad", "said"),
    [
        (range(30, 41), "the loss is not finite since step 8,030 (rank 1)"),
        (range(20, 25), "the loss is not finite in places, first at step 8,020 (rank 1)"),
    ],
)
def test_a_loss_that_is_not_finite_is_said_first_and_marked(bad: range, said: str) -> None:
    broken = [math.nan if step in bad else 1.0 for step in range(1, 41)]
    picture = pictures.of_feed("loss", course_feed({0: [1.0] * 40, 1: broken}))
    assert picture.words[0] == said
    marks = lines_over(picture, "not finite (NaN or infinite)")
    assert list(marks.get_xdata()) == [8000 + step for step in bad]
    assert marks.get_marker() == "x"


@each(("last", "said"), [(6001, "not finite since about step"), (5500, "not finite in places, first at about step")])
def test_of_a_long_job_too_it_is_told_whether_it_is_so_still(last: int, said: str) -> None:
    losses = [math.nan if 5003 <= step < last else 1.0 for step in range(1, 6001)]
    picture = pictures.of_feed("loss", course_feed({0: losses, 1: [1.0] * 6000}))
    assert picture.words[0] == f"the loss is {said} 12,993 (rank 0)"


def test_a_loss_that_never_was_finite() -> None:
    picture = pictures.of_feed("loss", course_feed([math.nan] * 5))
    assert picture.words == ("the loss is not finite since step 8,001 (rank 0)",)
    assert picture.drawn.svg("").startswith("<svg")


@each(
    ("losses", "scale"),
    [
        ([100.0, 10.0, 1.0], "log"),
        ([1e290, 1e-290], "log"),
        ([3.0, 2.0, 1.0], "linear"),
        ([100.0, 1.0, -1.0], "linear"),
        ([100.0, 1.0, 0.0], "linear"),
        ([5.0, 5.0], "linear"),
        ([0.0, 0.0], "linear"),
    ],
)
def test_the_scale_is_logarithmic_where_values_are_far_apart(losses: list[float], scale: str) -> None:
    picture = pictures.of_feed("loss", course_feed(losses))
    assert picture.drawn.svg("")
    axes = picture.figure.axes[0]
    assert axes.get_yscale() == scale
    low, high = axes.get_ylim()
    assert low < min(losses) <= max(losses) < high
    assert ("log" in axes.get_ylabel()) == (scale == "log")


def test_the_bold_line_knows_nothing_of_what_comes_later() -> None:
    losses = falling(200)
    changed = losses[:150] + [100.0] * 50
    one, other = (course.of_feed(course_feed(values)).series["loss"] for values in (losses, changed))
    assert np.array_equal(loss.smoothed(one)[:, :150], loss.smoothed(other)[:, :150], equal_nan=True)
    assert loss.smoothed(one)[0, 149] == pytest.approx(np.mean(losses[145:150]))


def test_every_step_of_a_long_job_is_within_the_pale_band() -> None:
    losses = falling(6000)
    losses[3210] = 77.0
    picture = pictures.of_feed("loss", course_feed(losses))
    assert labels(picture) == ["least to greatest", "mean of 144 steps"]
    assert picture.figure.axes[0].get_ylim()[1] > 77.0
    assert len(picture.drawn.svg("")) < 60_000


def test_a_few_ranks_have_a_line_each_with_its_name_and_many_their_median() -> None:
    few, many = picture_of_loss(4), picture_of_loss(300, 200)
    assert {f"rank {rank}" for rank in range(4)} <= set(written(few.figure))
    assert any(label.startswith("median of 300 ranks") for label in labels(many))
    assert not any(re.fullmatch(r"rank \d+", text) for text in written(many.figure))
    assert len(many.figure.axes[0].lines) < 5


@each("picture", [picture_of_loss(), picture_of_loss(4, bad=200), picture_of_loss(8, 30), picture_of_loss(300, 300)])
def test_no_text_lies_on_another(picture: Picture) -> None:
    assert overlaps(picture.figure) == []


# --- what happened


def test_what_was_done_is_flagged_and_explained_below_and_in_words() -> None:
    picture = pictures.of_feed("loss", course_feed(falling(700), doings=doings(700)))
    told = [f"1 · step 8,350: {CHANGED}", "2 · step 8,490: checkpoint saved: /data/ann/rescue"]
    assert list(picture.details) == told
    assert {"1", "2", "\n".join(told)} <= set(written(picture.figure))


def test_flags_at_one_place_share_it() -> None:
    both = [Doing("lr", BEGAN_S + i, 100 + i, f"change {i}") for i in range(2)]
    assert "1,2" in written(pictures.of_feed("loss", course_feed(falling(700), doings=both)).figure)


def test_of_many_events_the_latest_have_flags() -> None:
    many = [Doing("lr", BEGAN_S + i, 10 * i + 1, f"change {i}") for i in range(30)]
    picture = pictures.of_feed("loss", course_feed(falling(300), doings=many))
    assert len(picture.details) == 10
    assert picture.details[0] == "1 · step 8,211: change 21"
    assert picture.details[-1] == "and 21 before"


def test_a_long_word_of_an_event_is_cut() -> None:
    long = [Doing("checkpoint", BEGAN_S, 5, "/x" * 400)]
    picture = pictures.of_feed("loss", course_feed([1.0] * 10, doings=long))
    assert max(map(len, picture.details)) < 200
    assert picture.details[0].endswith("…")


# --- learning rate


def test_scheduled_and_used_where_they_differ() -> None:
    picture = picture_of_lr()
    assert labels(picture) == ["scheduled: what the program knows", "used by the steps"]
    assert picture.words == ("the steps use 1e-5 now, 0.1 x what the schedule says (1e-4)",)
    assert overlaps(picture.figure) == []


def test_one_line_where_the_steps_use_what_is_scheduled() -> None:
    picture = pictures.of_feed("lr", course_feed([1.0] * 9, lr=[0.5] * 9))
    assert labels(picture) == ["scheduled, and used by the steps"]
    assert picture.words == ("the steps use 0.5 now, as scheduled",)


def test_a_schedule_of_zero_is_no_division() -> None:
    picture = pictures.of_feed("lr", course_feed([1.0] * 3, lr=[0.1] * 3, scheduled=[0.0] * 3))
    assert picture.words == ("the steps use 0.1 now; the schedule says 0",)
    assert picture.drawn.svg("").startswith("<svg")


# --- of a result, and of nothing


def step(number: int, loss: float | None) -> Step:
    measured = dict.fromkeys(("data_wait_s", "forward_s", "backward_s", "optimizer_s", "other_s"))
    cuda = dict.fromkeys(("cuda_allocated_bytes", "cuda_reserved_bytes", "cuda_peak_bytes"))
    return Step(number, BEGAN_S, 0.1, 0, 8000 + number, loss, 1, [1e-3, 2e-3], None, 1 << 20, **cuda, **measured)


def test_the_steps_of_a_result_are_drawn_like_those_of_a_feed() -> None:
    losses = falling(50)
    of_result = Steps((RankSteps(0, 100, [step(i, value) for i, value in enumerate(losses, 1)]),)).plot()
    of_feed = pictures.of_feed("loss", course_feed(losses))
    assert (of_result.title, of_result.words) == (of_feed.title, of_feed.words)


def test_what_was_not_recorded_is_said() -> None:
    with pytest.raises(NoTarget, match="no step has been recorded"):
        pictures.of_feed("loss", Feed(Made()))
    with pytest.raises(NoTarget, match="no loss has been recorded in 5 steps"):
        pictures.of_feed("loss", course_feed([None] * 5))
    with pytest.raises(NoTarget, match="no step has been recorded"):
        Steps(()).plot()


def test_why_nobody_tells_of_steps_is_said() -> None:
    made = Made()
    made.problems[0] = "the process is stopped"
    feed = Feed(made)
    feed.round()
    with pytest.raises(NoTarget, match="no step has been recorded: rank 0: the process is stopped"):
        pictures.of_feed("loss", feed)


def test_who_is_not_in_it_is_named() -> None:
    made = Made(3)
    made.step(20)
    made.problems[1] = "no answer in 1 s"
    feed = Feed(made)
    feed.round()
    assert [(s.rank, s.reason) for s in pictures.of_feed("loss", feed).silent] == [(1, "no answer in 1 s")]
    steps = Steps((RankSteps(0, 100, [step(1, 1.0)]),), silent=(Silent(2, 102, "the GIL is held"),))
    assert "no answer · rank 2" in str(steps.plot())


def test_a_rank_that_has_ended_is_marked_and_not_called_silent() -> None:
    made = Made(2)
    made.step(20)
    feed = Feed(made)
    feed.round()
    made.gone.add(1)
    feed.round()
    picture = pictures.of_feed("loss", feed)
    assert picture.silent == ()
    assert picture.details == ("1 · step 20: rank 1 is gone: process has ended",)


def test_a_result_without_a_picture() -> None:
    with pytest.raises(UsageError, match="there is no picture of a LearningRates; there are pictures of "):
        LearningRates(()).plot()


def test_the_same_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    picture = picture_of_loss(2, 60, bad=10)
    assert picture.title == "rank 0, 1 的 loss · 第 8,001–8,060 步（attach 以来的记录）"
    assert picture.words[0] == "loss 有时不是有限值，首次在第 8,010 步（rank 1）"
