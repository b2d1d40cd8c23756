"""The loss of a record is the one that the training prints, whatever it was divided by before backward."""

from __future__ import annotations

import math
import types
from typing import Any

import pytest
import torch
from recorded import Training, records

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.losses import TRAINER
from jupyter_traindbg.agent.scaling import divisors_of


def accumulate(training: Training, batches: int, divided: Any, scale: Any = lambda loss: loss) -> list[float]:
    """One step of so many micro-batches; returns their own losses."""
    own = []
    training.optimizer.zero_grad()
    for _ in range(batches):
        loss = training.loss()
        own.append(loss.item())
        scale(divided(loss)).backward()
    return own


@pytest.mark.parametrize(
    "divided",
    [
        lambda loss: loss / 4,
        lambda loss: loss * 0.25,
        lambda loss: loss / 4 / 1,  # accelerate divides by one after a program that divides by itself
        lambda loss: loss.div_(torch.tensor(4)),
        lambda loss: loss * 3 / 3 / 4,
    ],
)
def test_a_division_by_the_micro_batches_is_undone(agent: Agent, divided: Any) -> None:
    training = Training()
    own = accumulate(training, 4, divided)
    training.optimizer.step()
    (record,) = records(agent)
    assert record["loss"] == pytest.approx(sum(own) / 4)
    assert record["loss_last"] == pytest.approx(own[-1])
    assert (record["loss_kind"], record["micro_batches"]) == ("whole", 4)


def test_a_last_step_with_fewer_micro_batches_is_divided_by_the_same_number(agent: Agent) -> None:
    training = Training()
    for batches in (4, 3, 1):
        own = accumulate(training, batches, lambda loss: loss / 4)
        training.optimizer.step()
    seen = records(agent)
    assert [r["loss_kind"] for r in seen] == ["whole"] * 3
    assert seen[-1]["loss"] == pytest.approx(own[0])
    assert seen[-1]["loss_last"] is None


def test_the_loss_of_a_first_step_that_was_seen_in_part_is_not_known(agent: Agent) -> None:
    training = Training()
    for batches in (2, 4):
        accumulate(training, batches, lambda loss: loss / 4)
        training.optimizer.step()
        assert records(agent)[0]["loss"] is not None or batches == 4
    assert [r["loss"] is None for r in records(agent)] == [True, False]


def test_without_a_division_it_is_told_as_it_was_given(agent: Agent) -> None:
    training = Training()
    for divided in (lambda loss: loss, lambda loss: loss / 7):
        own = accumulate(training, 3, divided)
        training.optimizer.step()
    plain, by_seven = records(agent)
    assert plain["loss_kind"] == by_seven["loss_kind"] == "given"
    assert by_seven["loss"] == pytest.approx(sum(own) / 3 / 7)


def test_the_division_before_a_grad_scaler_is_seen(agent: Agent) -> None:
    training = Training()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    own = accumulate(training, 2, lambda loss: loss / 2, scaler.scale)
    scaler.step(training.optimizer)
    (record,) = records(agent)
    assert (record["loss"], record["loss_kind"]) == (pytest.approx(sum(own) / 2), "whole")


def test_losses_of_a_step_that_a_scaler_skips_are_not_those_of_the_next(agent: Agent) -> None:
    training = Training()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for factor in (math.inf, 1.0):
        training.optimizer.zero_grad()
        loss = training.loss(factor)
        scaler.scale(loss).backward()
        assert agent.recorder.losses.last(4)[-1] == loss.item()
        scaler.step(training.optimizer)
        scaler.update()
    (record,) = records(agent)
    assert (record["loss"], record["micro_batches"]) == (loss.item(), 1)


def test_in_a_trainer_the_losses_of_a_step_add_up_to_it(agent: Agent) -> None:
    """The Trainer divides by the tokens of all micro-batches, which no division by their number shows."""
    training = Training()
    trainer = types.ModuleType(TRAINER)
    exec("def step(optimizer): optimizer.step()", trainer.__dict__)
    own = accumulate(training, 2, lambda loss: loss / 57)
    trainer.step(training.optimizer)
    (record,) = records(agent)
    assert (record["loss"], record["loss_kind"]) == (pytest.approx(sum(own) / 57), "whole")


def test_two_backward_passes_with_losses_of_different_kinds(agent: Agent) -> None:
    training = Training()
    (training.loss() / 2).backward()
    training.loss().backward()
    training.optimizer.step()
    assert records(agent)[0]["loss_kind"] == "given"


def test_what_a_loss_was_divided_by() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    assert divisors_of(x.sin()) == divisors_of(x) == divisors_of(torch.tensor(1.0)) == ()
    assert divisors_of(x.sin() / 1000 / 4) == (4.0, 4000.0)
    assert divisors_of(0.125 * x.sin()) == (8.0,)
    assert divisors_of((x * x) / 2) == (2.0,), "what has gradients itself is no number"
    assert divisors_of(x * 0.0) == ()
    halved = x.sin() / 2
    halved.backward()
    assert divisors_of(halved) == (), "its graph is gone"
