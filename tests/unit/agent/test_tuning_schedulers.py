"""Every scheduler there is, scaled, held and released, against a run that had these learning rates in its own code. Bit for bit."""

from __future__ import annotations

import pytest
from scheduled_trainings import Make, is_bit_identical
from torch.optim import lr_scheduler as lrs
from torch.optim import swa_utils

from jupyter_traindbg.agent.core import Agent


def closed(step: int) -> float:
    return 0.95**step


SCHEDULES: dict[str, Make] = {
    "LambdaLR": lambda o: lrs.LambdaLR(o, [closed, lambda step: 1 / (1 + step)]),
    "MultiplicativeLR": lambda o: lrs.MultiplicativeLR(o, lambda step: 0.95 if step % 2 else 0.9),
    "StepLR": lambda o: lrs.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda o: lrs.MultiStepLR(o, [2, 5, 5, 7], 0.3),
    "ConstantLR": lambda o: lrs.ConstantLR(o, 0.3, 4),
    "LinearLR": lambda o: lrs.LinearLR(o, 0.1, 1.0, 6),
    "ExponentialLR": lambda o: lrs.ExponentialLR(o, 0.9),
    "SequentialLR": lambda o: lrs.SequentialLR(o, [lrs.LinearLR(o, 0.1, 1, 4), lrs.CosineAnnealingLR(o, 8)], [4]),
    "PolynomialLR": lambda o: lrs.PolynomialLR(o, 10, 2.0),
    "CosineAnnealingLR": lambda o: lrs.CosineAnnealingLR(o, 5, 0.001),
    "ChainedScheduler": lambda o: lrs.ChainedScheduler([lrs.ConstantLR(o, 0.1, 3), lrs.ExponentialLR(o, 0.9)]),
    "ReduceLROnPlateau": lambda o: lrs.ReduceLROnPlateau(o, factor=0.5, patience=0, threshold=0.5),
    "CyclicLR": lambda o: lrs.CyclicLR(o, 0.01, 0.1, 3, mode="triangular2"),
    "CosineAnnealingWarmRestarts": lambda o: lrs.CosineAnnealingWarmRestarts(o, 3, 2),
    "OneCycleLR": lambda o: lrs.OneCycleLR(o, 0.5, total_steps=30),
    "SWALR": lambda o: swa_utils.SWALR(o, 0.05, 5, "cos"),
}


def test_every_class_of_torch_is_covered() -> None:
    there_are = {name for name in lrs.__all__ if name != "LRScheduler"}
    there_are |= {c.__name__ for c in lrs.LRScheduler.__subclasses__() if c.__module__.startswith("torch.")} - {
        "_LRScheduler"
    }
    assert there_are <= set(SCHEDULES)


# SequentialLR of torch itself warns about its own use of an epoch parameter
@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step")
@pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_scale_hold_release_is_bit_identical_to_explicit_learning_rates(agent: Agent, name: str, tensor: bool) -> None:
    is_bit_identical(agent, name, SCHEDULES[name], tensor=tensor)
