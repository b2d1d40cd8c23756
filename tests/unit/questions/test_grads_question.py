"""Gradients of all ranks are read after the same step; which one, and what is done where that cannot be told. The ranks are played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from asked_ranks import AskedRanks

from jupyter_traindbg.errors import DeadlineExceeded
from jupyter_traindbg.model import Grads, NotAvailable, Silent
from jupyter_traindbg.questions import grads


class Rank:
    """A rank whose agent came after `came_after` steps of the program, `at` which it is now; `counts`: whether its optimizer does."""

    def __init__(self, came_after: int, at: int = 100, *, counts: bool = True, group: bool = True) -> None:
        self.came_after, self.at, self.counts, self.group = came_after, at, counts, group
        self.late = 0
        """So many steps after the one that it is asked for it reads, at its next reading."""
        self.still = self.silent = False
        self.asked: list[dict[str, Any]] = []

    def pace(self) -> dict[str, Any]:
        seen = range(max(self.came_after + 1, self.at - 8), self.at + 1)
        marks = [[own - self.came_after, 0, self._own(own), own * 2 if self.group else None] for own in seen]
        return {
            "step": self.at - self.came_after, "marks": marks, "usual_step_s": 0.1, "mean_step_s": 0.1,
            "since_last_step_s": 0.0, "directory": "/tmp",
        }  # fmt: skip

    def grads(self, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params)
        own = max(self.at + 1, params.get("after_step", 0) + self.came_after) + self.late
        self.late = 0
        self.at = own
        return {
            "first": None, "grads": [], "total_norm": 1.0, "note": "", "cost_s": 0.0, "at": "there", "safe_point": not self.still,
            "after_step": own - self.came_after, "optimizer_step": self._own(own),
        }  # fmt: skip

    def _own(self, own: int) -> int | None:
        return own if self.counts else None


def asking(*ranks: Rank) -> Any:
    def ask(
        method: str,
        params: Mapping[str, Any],
        timeout: float,
        build: Callable[[int, int, Any], Any],
        of_rank: Mapping[int, Mapping[str, Any]],
    ) -> Any:
        assert 0 < timeout <= 10.0
        good, silent = [], []
        for n, rank in enumerate(ranks):
            if rank.silent:
                silent.append(Silent(n, n, "no answer"))
                continue
            answer = rank.pace() if method == "pace" else rank.grads({**params, **of_rank.get(n, {})})
            good.append(build(n, n, answer))
        if not good:
            raise DeadlineExceeded("no answer")
        return tuple(good), tuple(silent)

    return ask


def read(*ranks: Rank, first_nan: int = 0) -> Grads:
    return grads.ask(AskedRanks(asking(*ranks), several=len(ranks) != 1), first_nan=first_nan, timeout=10.0)


def test_all_are_asked_for_one_step_ahead_of_all_by_the_number_that_each_gives_it() -> None:
    first, second = Rank(90), Rank(97, at=101)
    result = read(first, second)
    assert result.same_step is True
    assert first.asked[0]["after_step"] + 90 == second.asked[0]["after_step"] + 97 > 101
    assert [rank.optimizer_step for rank in result.ranks] == [first.at, first.at]
    assert [rank.after_step for rank in result.ranks] == [first.at - 90, first.at - 97]


def test_without_own_counts_the_process_group_tells_which_step_is_which() -> None:
    first, second = Rank(90, counts=False), Rank(97, counts=False)
    assert read(first, second).same_step is True
    assert first.at == second.at


def test_a_rank_that_came_too_late_is_asked_once_more_further_ahead() -> None:
    first, second = Rank(90), Rank(97)
    second.late = 2
    result = read(first, second)
    assert result.same_step is True
    assert len(first.asked) == 2
    ahead = [one["after_step"] + 97 - before for one, before in zip(second.asked, (100, 106), strict=True)]
    assert ahead[1] > ahead[0]


def test_ranks_that_share_no_step_are_read_as_they_come_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grads, "MATCH_S", 0.0)
    alone = [Rank(90, counts=False, group=False), Rank(97, counts=False, group=False)]
    result = read(*alone)
    assert isinstance(result.same_step, NotAvailable)
    assert "no step is known that all ranks share" in result.same_step.reason
    assert all("after_step" not in rank.asked[0] for rank in alone)
    apart = [Rank(50, at=60), Rank(97, at=101)]
    result = read(*apart)
    assert result.same_step is False, "by their own counts"
    assert len(result.ranks) == 2


def test_steps_that_ranks_share_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Rank(90, counts=False), Rank(100, counts=False)
    assert second.pace()["marks"] == []

    def pause(_: float) -> None:
        first.at += 1
        second.at += 1

    monkeypatch.setattr("jupyter_traindbg.questions.grads.time.sleep", pause)
    assert read(first, second).same_step is True


def test_ranks_that_stand_still_are_read_once_and_a_silent_one_holds_up_nobody() -> None:
    first, second = Rank(90), Rank(97)
    first.still = second.still = True
    result = read(first, second)
    assert isinstance(result.same_step, NotAvailable)
    assert len(first.asked) == 1
    first, second, third = Rank(90), Rank(97), Rank(95)
    third.silent = True
    result = read(first, second, third)
    assert [rank.rank for rank in result.ranks] == [0, 1]
    assert [one.rank for one in result.silent] == [2]
    assert result.same_step is True
    with pytest.raises(DeadlineExceeded):
        read(third)


def test_one_rank_and_a_watch_for_the_first_nan_wait_for_no_step_of_others() -> None:
    only = Rank(90)
    assert read(only).same_step is True
    assert "after_step" not in only.asked[0]
    first, second = Rank(90), Rank(97)
    result = read(first, second, first_nan=1)
    assert "after_step" not in first.asked[0]
    assert result.same_step is True, "both were read after one step all the same"
