"""Schedulers of transformers and loaders of accelerate under the agent, which is in this very process."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from resumable_jobs import Job, Still, interrupted, resumed_losses
from scheduled_trainings import Make, is_bit_identical, prediction_comes_true, predicts_without_a_warning
from support import need
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.refused import Refused

WARMUP: dict[str, Any] = {"num_warmup_steps": 3, "num_training_steps": 20}
PARAMETERS: dict[str, dict[str, Any]] = {
    "get_constant_schedule_with_warmup": {"num_warmup_steps": 3},
    "get_inverse_sqrt_schedule": {"num_warmup_steps": 3},
    "get_reduce_on_plateau_schedule": {"factor": 0.5, "patience": 0, "threshold": 0.5},
    "get_wsd_schedule": {"num_warmup_steps": 3, "num_decay_steps": 4, "num_training_steps": 20},
    "get_constant_schedule": {},
    "get_greedy_schedule": {"patience": 0, "factor": 0.8, "cooldown": 0, "warmup": 0},
    "get_cosine_with_min_lr_schedule_with_warmup": {**WARMUP, "min_lr_rate": 0.1},
    "get_cosine_with_min_lr_schedule_with_warmup_lr_rate": {**WARMUP, "min_lr_rate": 0.1},
}


def _optimization() -> Any:
    need("transformers", importlib.util.find_spec("transformers") is not None)
    return importlib.import_module("transformers.optimization")


def _accelerate() -> Any:
    need("accelerate", importlib.util.find_spec("accelerate") is not None)
    return importlib.import_module("accelerate")


def transformers_schedules() -> dict[str, Make]:
    optimization = _optimization()
    found = {name: f for name, f in vars(optimization).items() if name.startswith("get_") and "schedule" in name}
    found = {n: f for n, f in found.items() if next(iter(inspect.signature(f).parameters)) == "optimizer"}
    assert len(found) >= 9
    found.pop("get_adafactor_schedule")  # for an optimizer without a learning rate, see below
    return {name: functools.partial(f, **PARAMETERS.get(name, WARMUP)) for name, f in found.items()}


@pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])
def test_scale_hold_release_is_bit_identical_to_explicit_learning_rates(agent: Agent, tensor: bool) -> None:
    for name, make in transformers_schedules().items():
        is_bit_identical(agent, name, make, tensor=tensor)


def test_an_optimizer_that_makes_its_own_learning_rate_is_refused(agent: Agent) -> None:
    optimization = _optimization()
    model = nn.Linear(2, 2)
    optimizer = optimization.Adafactor(model.parameters())
    schedule = optimization.get_adafactor_schedule(optimizer)
    with pytest.raises(Refused, match=r"group 0 of optimizer 0 \(Adafactor\) has no learning rate of its own"):
        agent.tuning.check({"mode": "scale", "value": 0.1})
    del schedule


@pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])
def test_the_prediction_comes_true(tensor: bool) -> None:
    prediction_comes_true(lambda o: _optimization().get_cosine_schedule_with_warmup(o, 3, 12), tensor=tensor)


def test_no_warning_reaches_the_job() -> None:
    predicts_without_a_warning({"cosine": lambda o: _optimization().get_cosine_schedule_with_warmup(o, 3, 12)})


def test_accelerate_reads_one_batch_ahead(agent: Agent) -> None:
    accelerator = _accelerate().Accelerator(cpu=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = accelerator.prepare_data_loader(DataLoader(TensorDataset(torch.rand(24, 4)), batch_size=4, shuffle=True))
    states: list[tuple[int, Any]] = []
    for taken, (x,) in enumerate(loader, 1):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        states.append((taken, agent.boundary.for_checkpoint()["loaders"][0]))
    assert [e["batches"] for _, e in states] == [taken for taken, _ in states] == [1, 2, 3, 4, 5, 6]
    assert states[0][1]["iteration"] == 0


def test_accelerates_loader_goes_on(agent: Agent, tmp_path: Path) -> None:
    """It holds a batch back, and counts its passes itself."""
    accelerator = _accelerate().Accelerator(cpu=True)

    def job(seed: int) -> Job:
        made = Job(seed=seed)
        made.loader = accelerator.prepare_data_loader(DataLoader(Still(), batch_size=4, shuffle=True))
        return made

    losses = interrupted(agent, job(0), tmp_path / "ckpt", hung_at=13)
    agent.stop()
    after, resumed = resumed_losses(tmp_path / "ckpt", job(9))
    assert ["read a batch ahead" in n for n in resumed.notes] == [True], (
        "it cannot be known that the dataset draws nothing"
    )
    assert after == losses[13:]
