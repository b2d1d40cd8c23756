"""A small training, and what the agent's recorder wrote down of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.recorder import FIELDS

PARTS = ("data_wait_s", "forward_s", "backward_s", "optimizer_s", "other_s")


def records(agent: Agent) -> list[dict[str, Any]]:
    return [dict(zip(FIELDS, r, strict=True)) for r in agent.recorder.since(0)]


class Training:
    def __init__(self, *, make: Callable[..., torch.optim.Optimizer] = torch.optim.SGD, **options: Any) -> None:
        self.model = nn.Linear(4, 1)
        self.optimizer = make(self.model.parameters(), **{"lr": 0.1, **options})

    def loss(self, factor: float = 1.0) -> torch.Tensor:
        return (self.model(torch.randn(2, 4)) ** 2).mean() * factor

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return loss.item()
