"""What is said where steps do not come, or are no optimizer's: the words, in both languages, and when they are said."""

from __future__ import annotations

import math

import pytest
from cases import each
from render_scenes import step

from jupyter_traindbg.model import Meanwhile, RankSteps, Steps
from jupyter_traindbg.no_step import by_hand, by_hand_words, lasts, seen, why

CASES = [
    (
        Meanwhile(5.0, 90, 0.25, stepping="LBFGS", evaluations=90),
        "a loss of 0.25",
        "LBFGS.step() is under way, and evaluates its closure",
    ),
    (Meanwhile(5.0, 8, 0.5, stepping="Adam", evaluations=1), "8 backward passes", "Adam.step() is under way"),
    (Meanwhile(5.0, 0, stepping="AdamW"), "no backward pass either", "AdamW.step() is under way"),
    (Meanwhile(5.0, 1, math.nan, 40, 40), "1 backward pass, the last with a loss of NaN", "has skipped every one"),
    (Meanwhile(5.0, 1200, math.inf, 40, 3), "1,200 backward passes, the last with a loss of Inf", "being accumulated"),
    (Meanwhile(5.0, optimizers=("AdamW", "AdamW")), "no optimizer step for 5.0 s", "there is an optimizer (AdamW)"),
    (Meanwhile(5.0), "no backward pass either", "no optimizer was found"),
]


@each("meanwhile, came, because", CASES)
def test_what_came_instead_is_told_with_what_explains_it(meanwhile: Meanwhile, came: str, because: str) -> None:
    assert came in seen(meanwhile)
    (words,) = why(meanwhile)
    assert because in words
    told = str(Steps((RankSteps(0, 1000, (), meanwhile=meanwhile),)))
    assert because in " ".join(told.split())


def test_it_is_told_in_chinese_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    for meanwhile, _, _ in CASES:
        for words in (seen(meanwhile), *why(meanwhile), by_hand_words()):
            assert any("\u4e00" <= character <= "\u9fff" for character in words), words


def test_a_step_is_missed_after_several_usual_ones() -> None:
    assert lasts(Meanwhile(6.0), None)
    assert not lasts(Meanwhile(4.0), 0.1)
    assert lasts(Meanwhile(6.0), 0.1)
    assert not lasts(Meanwhile(60.0), 20.0)
    steps = tuple(step(n) for n in range(1, 9))
    assert "no optimizer step for" not in str(Steps((RankSteps(0, 1000, steps, meanwhile=Meanwhile(0.1, 0)),)))
    assert "no optimizer step for 90.0 s" in str(Steps((RankSteps(0, 1000, steps, meanwhile=Meanwhile(90.0, 7)),)))


def test_many_ranks_are_told_once() -> None:
    ranks = tuple(RankSteps(n, 1000 + n, (), meanwhile=Meanwhile(5.0, 40 + n, 0.5)) for n in range(300))
    told = str(Steps(ranks))
    assert told.count("being accumulated") == 1
    assert "ranks 0-299" in told


def test_backward_passes_that_count_as_steps_are_told_as_such() -> None:
    steps = [step(n, optimizer=None, optimizer_step=None, lr=()) for n in range(1, 9)]
    assert by_hand(steps)
    assert not by_hand([step(1)])
    assert not by_hand([])
    told = " ".join(str(Steps((RankSteps(0, 1000, steps),))).split())
    assert "each backward pass counts as a step" in told
