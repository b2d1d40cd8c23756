"""Which optimizers an earlier run left, and where this run began, from who stepped when: no agent, no training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from jupyter_traindbg.agent.runs import FEW_STEPS, LONG, ROUNDS, Standing, Turn, began, left_over, turns


def adam(size: int = 3) -> Any:
    return torch.optim.Adam([nn.Parameter(torch.zeros(size))])


def history(*parts: tuple[str, int]) -> list[tuple[int, int]]:
    """``("ab", 3)``: optimizers 0 and 1 in turns, three times."""
    order = [name for names, times in parts for name in names * times]
    return [(step, ord(name) - ord("a")) for step, name in enumerate(order, 1)]


def standing(optimizer: Any, turn: Turn | None, *, near: bool = True, kin: bool = False) -> Standing:
    return Standing(optimizer, turn, near=near, kin=kin, known=True)


def judged(*parts: tuple[str, int], near: str = "", kin: str = "", sizes: dict[str, int] | None = None) -> str:
    """The letters of those that are left over."""
    steps = history(*parts)
    found = turns(steps)
    letters = sorted({name for names, _ in parts for name in names})
    optimizers = {name: adam((sizes or {}).get(name, 3)) for name in letters}
    all_of = [standing(o, found[ord(n) - ord("a")], near=n in near, kin=n in kin) for n, o in optimizers.items()]
    left = left_over(all_of, len(steps))
    return "".join(name for name, o in optimizers.items() if any(o is one for one in left))


def test_turns() -> None:
    assert turns(history(("aab", 2), ("a", 1))) == {0: Turn(1, 7, 2), 1: Turn(3, 6, 3)}
    assert turns([]) == {}


@pytest.mark.parametrize(
    ("parts", "given", "left"),
    [
        ([("a", 60), ("b", 60)], {}, "a"),  # a cell run again; what it replaced is garbage
        ([("a", 60), ("b", 2)], {}, ""),  # too early
        ([("a", 60), ("b", 3)], {}, "a"),
        ([("a", 60), ("b", 60)], {"near": "ab"}, "a"),  # a sweep that keeps its results: the same model again
        ([("a", 60), ("b", 60)], {"near": "ab", "sizes": {"b": 5}}, ""),  # another one, kept: a GAN's that pauses
        ([("a", 60), ("b", 60)], {"sizes": {"b": 5}}, "a"),
        ([("a", 60), ("b", 60)], {"kin": "a", "sizes": {"b": 5}}, ""),  # deep in a trainer, of the same model
        ([("aab", 20)], {"near": "", "sizes": {"b": 5}}, ""),  # a GAN
        ([("a" * 100 + "b", 3), ("a", 100)], {}, ""),  # whose critic takes a hundred steps for each of the generator's
        ([("a", 60), ("b", 60), ("c", 60)], {"near": "abc"}, "ab"),
        (
            [("a" * 50 + "b" * 50, 2), ("a", 50)],
            {"near": "ab"},
            "",
        ),  # clients in turns: one came back, so may the other
        ([("a", 1), ("b", FEW_STEPS)], {}, ""),
        ([("a", 1), ("b", FEW_STEPS + 1)], {}, "a"),
    ],
)
def test_left_over(parts: list[tuple[str, int]], given: dict[str, Any], left: str) -> None:
    assert judged(*parts, **given) == left


def test_another_optimizer_of_the_same_parameters_takes_over() -> None:
    model = nn.Linear(2, 2)
    first, second = torch.optim.SGD(model.parameters()), torch.optim.Adam(model.parameters())
    found = turns(history(("a", 50), ("b", 50)))
    forgotten = [standing(first, found[0], near=False, kin=True), standing(second, found[1], kin=True)]
    assert left_over(forgotten, 100) == [first]
    kept = [standing(first, found[0], kin=True), standing(second, found[1], kin=True)]
    assert left_over(kept, 100) == [], "a program that holds both may go back"


def test_one_that_was_never_seen_stepping() -> None:
    stepping, waiting = adam(), adam()
    turn = Turn(1, LONG, 1)
    assert left_over([standing(stepping, turn), standing(waiting, None)], LONG) == [], "it may begin"
    assert left_over([standing(stepping, turn), standing(waiting, None, near=False)], LONG) == [waiting]
    assert left_over([standing(waiting, None, near=False)], LONG) == [], "nothing steps: nobody knows"
    waiting.param_groups[0]["params"][0].grad = torch.ones(3)
    waiting.step()  # before we came
    assert left_over([standing(stepping, turn), standing(waiting, None)], LONG) == [waiting]
    assert left_over([standing(stepping, turn), standing(waiting, None)], LONG - 1) == []


def test_the_run_that_stepped_last_may_be_gone() -> None:
    """A function that trained has returned; the one before it was broken off, and its traceback keeps its objects."""
    broken, kept, unseen = adam(), adam(), adam()
    all_of = [standing(broken, Turn(1, 50, 1), near=False), standing(kept, Turn(51, 60, 1)), standing(unseen, None)]
    assert left_over(all_of, 90, last_is_gone=True) == [broken]
    assert left_over(all_of, 90) == []


@pytest.mark.parametrize(
    ("parts", "over", "first"),
    [
        ([("a", 60), ("b", 60)], {0}, 61),
        ([("a", 60), ("b", 60)], {0, 1}, 61),  # both are gone: the last one's steps are still shown
        ([("a", 60)], {0}, 0),
        ([("a", 30), ("b", 30), ("c", 30)], {0, 1}, 61),
        ([("ab", 30), ("c", 30)], {0, 1}, 61),
        ([("ab", 30), ("ac", 30)], {1}, 0),  # an optimizer for each task, within a training that goes on
        ([("a", 60), ("b", 60)], set(), 0),
        ([(chr(ord("a") + i), 5) for i in range(ROUNDS + 2)], set(range(ROUNDS + 1)), 0),  # rounds of one program
    ],
)
def test_began(parts: list[tuple[str, int]], over: set[int], first: int) -> None:
    assert began(turns(history(*parts)), over) == first
