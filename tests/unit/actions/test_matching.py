"""Which step of one rank is which of another, and how far ahead to agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.actions.matching import Pace, Unmatched, margin, numbered_alike, offsets


def pace(marks: Sequence[tuple[Any, ...]], rank: int = 0, **changes: Any) -> Pace:
    settings: dict[str, Any] = {
        "rank": rank, "step": marks[-1][0] if marks else 0, "marks": marks, "usual_step_s": 0.1, "mean_step_s": 0.1,
        "since_last_step_s": 0.0, "directory": "/tmp", "round_trip_s": 0.01, **changes,
    }  # fmt: skip
    return Pace(**settings)


def adam(steps: range, came_after: int, collectives: int = 2) -> list[tuple[Any, ...]]:
    """The marks of one AdamW whose own count is `steps`, of an agent that came after so many; some collectives a step."""
    return [(own - came_after, 0, own, own * collectives) for own in steps]


def sgd(steps: range, came_after: int) -> list[tuple[Any, ...]]:
    return [(own - came_after, 0, None, own * 3) for own in steps]


def gan(steps: range, came_after: float) -> list[tuple[Any, ...]]:
    """Two optimizers a step with a collective before each. An agent that came at a half saw the second one first, and numbers it 0."""
    second_first = came_after % 1 == 0.5
    all_marks = [(own, 0, own, own * 4) for own in steps], [(own, 1, own, own * 4 + 1) for own in steps]
    events = sorted(mark for marks in all_marks for mark in marks)
    seen = [
        (index ^ second_first, own, number) for own, index, _, number in events if own + index / 2 > came_after + 0.4
    ]
    return [(n, index, own, number) for n, (index, own, number) in enumerate(seen, 1)]


def test_the_optimizers_own_count_tells_steps_apart() -> None:
    assert offsets([pace(adam(range(101, 120), 100)), pace(adam(range(105, 119), 104), 1)]) == [0, -4]


def test_one_shared_step_is_enough_where_numbers_agree() -> None:
    assert offsets([pace(adam(range(101, 102), 100)), pace(adam(range(101, 102), 98), 1)]) == [0, 2]


def test_without_an_own_count_the_process_group_tells_them_apart() -> None:
    assert offsets([pace(sgd(range(11, 20), 10)), pace(sgd(range(14, 20), 13), 1)]) == [0, -3]


def test_two_optimizers_are_told_apart_by_the_process_group_although_their_counts_look_alike() -> None:
    whole, half = gan(range(10, 20), 9), gan(range(10, 20), 11.5)
    shift = offsets([pace(whole), pace(half, 1)])
    number = {mark[0]: mark[3] for mark in whole}
    assert [number[mark[0] - shift[1]] for mark in half] == [mark[3] for mark in half]
    assert not numbered_alike([pace(whole), pace(half, 1)], shift)
    later = gan(range(10, 20), 12)
    assert numbered_alike([pace(whole), pace(later, 1)], offsets([pace(whole), pace(later, 1)]))


def test_two_optimizers_in_a_row_share_a_number_and_the_newest_may_be_incomplete() -> None:
    def marks(first: int, last: int) -> list[tuple[Any, ...]]:
        return [(n - first + 1, n % 2, n // 2, n // 2 * 5) for n in range(first, last + 1)]

    assert offsets([pace(marks(10, 21)), pace(marks(12, 20), 1)]) == [0, -2]


def test_pipelines_whose_numbers_differ_are_matched_by_count_once_that_is_sure() -> None:
    here, there = adam(range(101, 110), 100, 2), adam(range(103, 110), 102, 7)
    assert offsets([pace(here), pace(there, 1)]) == [0, -2]
    with pytest.raises(Unmatched, match="no step is known"):
        offsets([pace(here[-1:]), pace(there[-1:], 1)])


def test_no_step_yet_is_said_of_the_rank_that_has_none() -> None:
    with pytest.raises(Unmatched, match="no optimizer step was seen yet on ranks 1, 2"):
        offsets([pace(adam(range(1, 5), 0)), pace([], 1), pace([], 2)])


def test_ranks_that_went_apart_are_not_matched() -> None:
    with pytest.raises(Unmatched, match="no step is known"):
        offsets([pace(adam(range(1, 257), 0)), pace(adam(range(900, 1100), 0), 1)])
    with pytest.raises(Unmatched, match="not step in parallel"):
        offsets([pace([(1, 0, 1, 9), (2, 0, 2, 10)]), pace([(1, 0, 1, 9), (5, 0, 2, 10)], 1)])


def test_one_rank_needs_no_marks() -> None:
    assert offsets([pace([])]) == [0]


@each(("step_s", "at_most_s"), [(0.001, 0.2), (0.1, 0.3), (60.0, 60.0)], ids=["1 ms", "100 ms", "a minute"])
def test_the_margin_is_long_enough_to_tell_everybody_and_no_longer(step_s: float, at_most_s: float) -> None:
    paces = [pace([], mean_step_s=step_s, usual_step_s=step_s, round_trip_s=0.02)]
    ahead = margin(paces, 0.0, 0) * step_s
    assert 0.1 <= ahead <= at_most_s
    assert margin(paces, 0.0, 0) >= 1
    assert margin(paces, 0.5, 0) * step_s >= 0.5
    assert margin(paces, 0.0, 1) > margin(paces, 0.0, 0) or step_s == 60.0


def test_uneven_steps_do_not_put_it_far_off() -> None:
    """A GAN: a millisecond between its two optimizers, then ten seconds."""
    paces = [pace([], mean_step_s=5.0, usual_step_s=0.001)]
    assert margin(paces, 0.0, 0) == 1
    assert margin(paces, 0.0, 1) > 100


def test_one_step_tells_nothing_about_the_next() -> None:
    paces = [pace([], mean_step_s=None, usual_step_s=None, since_last_step_s=0.001)]
    assert [margin(paces, 0.0, attempt) for attempt in range(3)] == [1, 4, 16]
