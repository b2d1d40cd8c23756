"""What the probe ``ddp`` tells of models in DistributedDataParallel."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from jupyter_traindbg.agent.core import Agent


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.vision, self.text = nn.Linear(2, 2), nn.Linear(2, 2)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)

    def forward(self, x: torch.Tensor, *, sees: bool) -> torch.Tensor:
        seen: torch.Tensor = self.text(self.frozen(x))
        return seen + self.vision(x) if sees else seen


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def test_the_parameters_without_a_gradient_are_told(agent: Agent, group: None) -> None:
    model = DistributedDataParallel(Model(), find_unused_parameters=True)
    optimizer = torch.optim.Adam(model.parameters())
    before = agent.call("ddp", {})
    model(torch.ones(1, 2), sees=False).sum().backward()
    with model.no_sync():
        (within,) = agent.call("ddp", {})["models"]
    (after,) = agent.call("ddp", {})["models"]
    optimizer.step()
    model(torch.ones(1, 2), sees=True).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    (cleared,) = agent.call("ddp", {})["models"]
    everything = ["vision.weight", "vision.bias", "text.weight", "text.bias"]
    about = {"class": "Model", "parameters": 4, "synchronises": True, "finds_unused": True, "left_out": []}
    assert before == {"models": [{**about, "without": everything}]}
    assert after == {**about, "without": everything[:2]}
    assert within == {**after, "synchronises": False}
    assert cleared == {**about, "without": everything, "left_out": everything[:2]}
    json.dumps(before)


def test_a_wrapper_that_is_still_being_made_is_left_alone(agent: Agent, group: None) -> None:
    half = DistributedDataParallel.__new__(DistributedDataParallel)
    assert agent.call("ddp", {}) == {"models": []}
    nn.Module.__init__(half)
    assert agent.call("ddp", {}) == {"models": []}


def test_without_such_a_model_there_is_none(agent: Agent) -> None:
    model = Model()
    assert agent.call("ddp", {}) == {"models": []}
    del model
