"""What a step number means, in words, and when a rank is behind."""

from __future__ import annotations

import pytest
from cases import each

from jupyter_traindbg.model import NA, RankChange, RankGrads, StepNumber
from jupyter_traindbg.step_numbers import behind, from_step, read_after, same_step, step_title, step_words

BOTH, OWN, SINCE = StepNumber(12, 8123), StepNumber(None, 8123), StepNumber(12, None)


@each(
    ("numbers", "en", "zh"),
    [
        ((BOTH,), "step 8,123 (12 since the attach)", "第 8,123 步（attach 后第 12 步）"),
        ((SINCE,), "step 12 since the attach", "attach 后第 12 步"),
        ((OWN,), "step 8,123", "第 8,123 步"),
        (
            (BOTH, StepNumber(9, 8123)),
            "step 8,123 (9 to 12 since the attach)",
            "第 8,123 步（attach 后第 9–12 步）",
        ),
        (
            (BOTH, StepNumber(12, 8125)),
            "steps 8,123 to 8,125 (12 since the attach)",
            "第 8,123–8,125 步（attach 后第 12 步）",
        ),
        ((BOTH, SINCE), "step 12 since the attach", "attach 后第 12 步"),
        ((SINCE, StepNumber(15, None)), "steps 12 to 15 since the attach", "attach 后第 12–15 步"),
    ],
)
def test_the_own_count_is_the_number_and_the_attach_stands_beside_it(
    numbers: tuple[StepNumber, ...], en: str, zh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")
    assert step_words(*numbers) == en
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert step_words(*numbers) == zh


def test_a_title_has_no_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")
    assert step_title(BOTH) == "step 8,123 · 12 since the attach"
    assert step_title(SINCE) == "step 12 since the attach"
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert step_title(BOTH) == "第 8,123 步 · attach 后第 12 步"


def test_gradients_say_after_which_step_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")
    read = RankGrads(0, 1, "not read: no step came", True, 1.0, (), after_step=12, optimizer_step=8123)
    assert read_after(read) == "after step 8,123 (12 since the attach)"
    still = RankGrads(0, 1, "read straight away", False, 1.0, (), after_step=12, optimizer_step=8123)
    assert read_after(still) == "read straight away"
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert read_after(read) == "在第 8,123 步（attach 后第 12 步）之后"


def test_a_change_says_from_which_step_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")
    none = NA("it keeps no count")
    own = [RankChange(n, n, "verified", 12 + n, 8124, ()) for n in range(2)]
    assert from_step(own) == "from step 8,124 (13 to 14 since the attach) on"
    assert from_step([RankChange(0, 0, "verified", 12, none, ())]) == "from step 13 since the attach on"
    apart = [RankChange(n, n, "verified", 12 + n, none, ()) for n in range(2)]
    assert from_step(apart) == "from one and the same step on (13 to 14, as each rank counts since its own attach)"
    assert from_step([RankChange(0, 0, "armed", NA("none came"), none, ())]) == "from the next step on"


def test_ranks_are_at_one_step_by_their_own_counts_or_it_is_not_known() -> None:
    assert same_step([BOTH, StepNumber(3, 8123)]) is True
    assert same_step([BOTH, StepNumber(12, 8124)]) is False
    assert same_step([BOTH, SINCE]) is None
    assert same_step([BOTH, None]) is None


@each(
    ("owns", "told_s", "late"),
    [
        ((100, 100), (5.0, 5.0), {}),
        ((100, 99), (5.0, 5.0), {}),
        ((100, 98), (5.0, 5.0), {1: 2}),
        ((100, 98), (5.125, 5.0), {}),
        ((100, 97), (5.125, 5.0), {1: 3}),
        ((100, None), (5.0, 5.0), {}),
        ((100, 50), (5.0, None), {}),
        ((100, 50, 90), (5.0, 5.0, 5.0), {1: 50, 2: 10}),
    ],
)
def test_behind_is_who_is_so_by_more_than_passed_between_the_answers(
    owns: tuple[int | None, ...], told_s: tuple[float | None, ...], late: dict[int, int]
) -> None:
    assert behind(dict(enumerate(owns)), told_s, 0.125) == late
    assert behind(dict(enumerate(owns)), told_s, None) == {}, "how long a step takes is not known"
