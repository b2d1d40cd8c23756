"""Predicted learning rates are those that the real scheduler then sets; what might have side effects is not run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import each
from scheduled_trainings import Make, prediction_comes_true, predicts_without_a_warning, run_on, two_groups
from torch import nn
from torch.optim import lr_scheduler as lrs
from torch.optim.swa_utils import SWALR

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.next_lr import SIDE_EFFECTS, upcoming

WARMUP, DECAY, TOP, BOTTOM = 3, 12, 1.0, 0.1


def nano(step: int) -> float:
    """Linear warm-up, cosine decay, from global constants."""
    if step < WARMUP:
        return TOP * (step + 1) / (WARMUP + 1)
    if step > DECAY:
        return BOTTOM
    ratio = (step - WARMUP) / (DECAY - WARMUP)
    if not 0 <= ratio <= 1:
        raise ValueError(ratio)
    coefficient = 0.5 * (1.0 + math.cos(math.pi * ratio))
    return BOTTOM + coefficient * (TOP - BOTTOM)


def closed_over(warmup: int, total: int) -> Callable[[int], float]:
    def schedule(step: int) -> float:
        factor = 1.0
        factor *= min(1.0, (step + 1) / warmup)
        return factor * max(0.0, 1 - step / total)

    return schedule


SCHEDULES: dict[str, Make] = {
    "step": lambda o: lrs.StepLR(o, 3, 0.5),
    "multistep": lambda o: lrs.MultiStepLR(o, [2, 5, 5], 0.3),
    "constant": lambda o: lrs.ConstantLR(o, 0.3, 4),
    "linear": lambda o: lrs.LinearLR(o, 0.1, 1.0, 6),
    "exponential": lambda o: lrs.ExponentialLR(o, 0.9),
    "polynomial": lambda o: lrs.PolynomialLR(o, 8, 2.0),
    "cosine": lambda o: lrs.CosineAnnealingLR(o, 5, 0.001),
    "restarts": lambda o: lrs.CosineAnnealingWarmRestarts(o, 3, 2),
    "cyclic": lambda o: lrs.CyclicLR(o, 0.01, 0.1, 3, mode="triangular2"),
    "cyclic-range": lambda o: lrs.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9),
    "cyclic-custom": lambda o: lrs.CyclicLR(o, 0.01, 0.1, 3, scale_fn=lambda x: 0.5**x),
    "onecycle": lambda o: lrs.OneCycleLR(o, 0.5, total_steps=30),
    "onecycle-linear": lambda o: lrs.OneCycleLR(o, 0.5, total_steps=30, anneal_strategy="linear", three_phase=True),
    "lambda": lambda o: lrs.LambdaLR(o, nano),
    "lambdas": lambda o: lrs.LambdaLR(o, [nano, closed_over(4, 20)]),
    "multiplicative": lambda o: lrs.MultiplicativeLR(o, lambda step: 0.95 if step % 2 else 0.9),
    "sequential": lambda o: lrs.SequentialLR(o, [lrs.LinearLR(o, 0.1, 1, 4), lrs.CosineAnnealingLR(o, 8)], [4]),
    "sequential-lambda": lambda o: lrs.SequentialLR(o, [lrs.ConstantLR(o, 0.5, 3), lrs.LambdaLR(o, nano)], [3]),
    "chained": lambda o: lrs.ChainedScheduler([lrs.ConstantLR(o, 0.1, 3), lrs.ExponentialLR(o, 0.9)]),
    "swa": lambda o: SWALR(o, 0.05, 5, "cos"),
}


# torch's CyclicLR takes no tensors
@each(("name", "tensor"), [(n, t) for n in SCHEDULES for t in (False, True) if not (t and n.startswith("cyclic"))])
def test_the_prediction_comes_true(name: str, tensor: bool) -> None:
    prediction_comes_true(SCHEDULES[name], tensor=tensor)


def test_what_cannot_be_told_says_why() -> None:
    optimizer = two_groups()
    assert "metric" in str(upcoming(lrs.ReduceLROnPlateau(optimizer), optimizer, 5))

    class Own(lrs.LRScheduler):
        def get_lr(self) -> list[float]:
            return [0.1 for _ in self.optimizer.param_groups]

    assert upcoming(Own(optimizer), optimizer, 5) == "Own is not one of torch's own schedulers"
    ending = lrs.OneCycleLR(optimizer, 0.5, total_steps=3)
    assert upcoming(ending, optimizer, 5) == "the schedule raises ValueError in 4 steps"
    run_on(optimizer, ending, 3)
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        ending.step()


CALLS: list[int] = []


class Trainer:
    def __init__(self) -> None:
        self.model = nn.Linear(1000, 1000)

    def schedule(self, step: int) -> float:
        CALLS.append(step)
        return 1.0

    def __call__(self, step: int) -> float:
        return self.schedule(step)

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError("copied")


def logging(step: int) -> float:
    CALLS.append(step)
    return 1.0


def over_a_model(trainer: Trainer) -> Callable[[int], float]:
    return lambda step: 1.0 / (1 + len(list(trainer.model.parameters())))


def test_a_function_with_side_effects_is_not_run_and_nothing_big_is_copied() -> None:
    trainer = Trainer()
    for function in (logging, trainer.schedule, trainer, over_a_model(trainer), lambda step: print(step) or 1.0):
        optimizer = two_groups()
        scheduler = lrs.LambdaLR(optimizer, function)
        CALLS.clear()
        assert upcoming(scheduler, optimizer, 5) == SIDE_EFFECTS
        assert CALLS == []
    optimizer = two_groups()
    nested = lrs.SequentialLR(optimizer, [lrs.ConstantLR(optimizer), lrs.LambdaLR(optimizer, logging)], [5])
    CALLS.clear()
    assert upcoming(nested, optimizer, 5) == SIDE_EFFECTS
    assert CALLS == []
    for thing, reason in ((trainer, SIDE_EFFECTS), (object(), "the scheduler holds a object in extra")):
        hung_on = lrs.StepLR(optimizer, 5)
        hung_on.extra = thing
        assert upcoming(hung_on, optimizer, 5) == reason


def test_no_warning_reaches_the_job() -> None:
    predicts_without_a_warning(SCHEDULES)


def test_the_lr_probe(agent: Agent) -> None:
    optimizer = torch.optim.AdamW(
        nn.Linear(3, 2).parameters(), lr=torch.tensor(0.01), weight_decay=0.1, betas=(0.8, 0.9)
    )
    scheduler = lrs.StepLR(optimizer, 1, 0.5)
    sgd = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.5, momentum=0.7)
    by_name = {o["optimizer"]: o for o in agent.call("lr", {})["optimizers"]}
    assert by_name["AdamW"] == {
        "optimizer": "AdamW",
        "step": None,
        "optimizer_step": None,
        "scheduler": "StepLR",
        "scheduler_step": 0,
        "groups": [
            {
                "index": 0,
                "lr": pytest.approx(0.01),
                "scheduled": pytest.approx(0.01),
                "effective_lr": pytest.approx(0.01),
                "weight_decay": 0.1,
                "effective_weight_decay": 0.1,
                "momentum": None,
                "betas": [0.8, 0.9],
                "parameters": 2,
                "elements": 8,
                "next_lr": [pytest.approx(0.01 * 0.5**n) for n in range(1, 6)],
            }
        ],
    }
    assert by_name["SGD"]["groups"][0]["momentum"] == 0.7
    assert by_name["SGD"]["groups"][0]["next_lr"] == "no scheduler"
    del scheduler, sgd


def test_two_schedulers_on_one_optimizer(agent: Agent) -> None:
    optimizer = two_groups()
    both = lrs.StepLR(optimizer, 2), lrs.ExponentialLR(optimizer, 0.9)
    (seen,) = agent.call("lr", {})["optimizers"]
    assert "2 schedulers act on one optimizer" in seen["groups"][0]["next_lr"]
    del both


def test_a_schedule_that_nobody_steps_has_no_next_values(agent: Agent) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        model(torch.randn(2, 3)).sum().backward()
        optimizer.step()

    def following() -> Any:
        (told,) = agent.call("lr", {})["optimizers"]
        return told["groups"][0]["next_lr"]

    step()
    step()
    scheduler = lrs.StepLR(optimizer, 2)
    made = [0.1, 0.01, 0.01, 0.001, 0.001]
    assert following() == pytest.approx(made)  # it has just been made
    step()
    assert following() == "StepLR has not been stepped so far"
    scheduler.step()
    assert following() == pytest.approx([*made[1:], 0.0001])
