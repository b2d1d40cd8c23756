"""An agent that comes within an iteration: what it writes down at the very next boundary is right, or is said not to be."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from agents import come
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

from jupyter_traindbg.agent.boundary import AFTER_STEP, ORDER_UNKNOWN
from jupyter_traindbg.agent.safepoint import NEXT_BATCH

DATA = TensorDataset(torch.arange(24.0).reshape(6, 4))


class OwnOrder(Sampler[int]):
    """Nobody can tell from outside what it gives next."""

    def __len__(self) -> int:
        return len(DATA)

    def __iter__(self) -> Iterator[int]:
        yield from (5, 3, 1, 0, 2, 4)


class Training:
    """`comes` is called in the forward pass of the third step, or inside its optimizer step."""

    def __init__(self, comes: Callable[[], object], *, in_step: bool = False) -> None:
        self.model, self.steps = nn.Linear(4, 1), 0
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

        def third(*_: Any) -> None:
            if self.steps == 2:
                comes()

        if in_step:
            self.optimizer.register_step_pre_hook(third)
        else:
            self.model.register_forward_hook(third)

    def step(self, x: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.model(x).sum().backward()
        self.optimizer.step()
        self.steps += 1


@pytest.fixture
def late(tmp_path: Path) -> Iterator[Late]:
    gc.collect()
    gc.freeze()  # iterators of earlier tests are none of this one's
    with ExitStack() as stack:
        yield Late(stack, tmp_path)


class Late:
    """The agent, once it has come, and the boundaries since as a checkpoint would have them."""

    def __init__(self, stack: ExitStack, tmp_path: Path) -> None:
        self._stack, self._tmp_path = stack, tmp_path
        self.boundaries: list[dict[str, Any]] = []

    def comes(self) -> None:
        self.agent = self._stack.enter_context(come(self._tmp_path))
        self.agent.safepoints.at_boundary.append(
            lambda where: self.boundaries.append(self.agent.boundary.for_checkpoint())
        )


def passes(boundary: dict[str, Any]) -> list[tuple[int, bool]]:
    return [(entry["batches"], entry["trained"]) for entry in boundary["loaders"]]


@pytest.mark.parametrize("in_step", [False, True], ids=["before the step", "in the step"])
def test_the_first_boundary_is_before_the_next_batch(late: Late, in_step: bool) -> None:
    training = Training(late.comes, in_step=in_step)
    for (x,) in DataLoader(DATA):
        training.step(x)
    first = late.boundaries[0]
    assert (first["step"], first["where"], first["notes"], passes(first)) == (1, NEXT_BATCH, [], [(3, True)])


def test_an_order_that_cannot_be_known_is_told_from_the_first_boundary_on(late: Late) -> None:
    training = Training(late.comes)
    for (x,) in DataLoader(DATA, sampler=OwnOrder()):
        training.step(x)
    assert [(b["notes"], passes(b)) for b in late.boundaries[:2]] == [
        ([ORDER_UNKNOWN], [(3, True)]),
        ([ORDER_UNKNOWN], [(4, True)]),
    ]


def test_the_order_of_each_loader_that_a_step_takes_a_batch_of_counts(late: Late) -> None:
    training = Training(late.comes)
    for (x,), _ in zip(DataLoader(DATA, sampler=OwnOrder()), DataLoader(DATA), strict=True):
        training.step(x)
    assert [(b["notes"], passes(b)) for b in late.boundaries[1:3]] == [
        ([ORDER_UNKNOWN], [(4, False), (4, True)]),
        ([ORDER_UNKNOWN], [(5, False), (5, True)]),
    ]


def test_at_the_end_of_a_pass_no_order_is_left_to_know(late: Late) -> None:
    training = Training(late.comes)
    for (x,) in DataLoader(DATA, sampler=OwnOrder()):
        training.step(x)
    last = late.boundaries[-1]
    assert (last["where"], last["notes"], passes(last)) == (NEXT_BATCH, [], [(6, True)])


def test_a_pass_that_waits_for_an_evaluation_is_not_forgotten(late: Late) -> None:
    """Nothing has been fetched from it since the agent came: it is looked for."""
    training = Training(late.comes)
    validation = DataLoader(DATA)
    for (x,) in DataLoader(DATA, sampler=OwnOrder()):
        training.step(x)
        if training.steps == 3:
            next(iter(validation))
    first = late.boundaries[0]
    assert (first["where"], first["notes"], passes(first)) == (NEXT_BATCH, [ORDER_UNKNOWN], [(0, False), (3, True)])


def test_a_job_that_hangs_in_its_first_step_has_its_pass(late: Late) -> None:
    training = Training(late.comes)
    hung: list[dict[str, Any]] = []
    for (x,) in DataLoader(DATA):
        training.step(x)
        if training.steps == 3:
            hung.append(late.agent.boundary.for_checkpoint())
    assert (hung[0]["where"], passes(hung[0])) == (AFTER_STEP, [(3, True)])
