"""Trainings of a few numbers that tests step in this very process, and what they ask of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from agents import Ask
from torch import nn

from jupyter_traindbg.agent.core import Agent

SCALE = {"mode": "scale", "value": 0.5}


def make(cls: Any = torch.optim.SGD, lr: Any = 0.1, **more: Any) -> torch.optim.Optimizer:
    torch.manual_seed(0)
    parameter = nn.Parameter(torch.randn(4))
    parameter.grad = torch.randn(4)
    optimizer: torch.optim.Optimizer = cls([parameter], lr=lr, **more)
    return optimizer


def index_of(agent: Agent, optimizer: torch.optim.Optimizer) -> list[int]:
    return [next(i for i, o in enumerate(agent.objects.find().optimizers()) if o is optimizer)]


def lr_of(optimizer: torch.optim.Optimizer) -> float:
    return float(optimizer.param_groups[0]["lr"])


def bits(optimizer: torch.optim.Optimizer) -> list[bytes]:
    return [p.detach().cpu().numpy().tobytes() for g in optimizer.param_groups for p in g["params"]]


class Log(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x * 0)


class Job:
    def __init__(self, model: nn.Module, batch: torch.Tensor | None = None) -> None:
        self.model = model
        self.called: Callable[..., torch.Tensor] = model
        self.batch = torch.ones(2, 4) if batch is None else batch
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.called(self.batch).sum().backward()
        self.optimizer.zero_grad()  # else the first step spoils all weights
        self.optimizer.step()

    def no_hook_is_left(self) -> bool:
        kinds = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
        return not any(vars(m)[kind] for m in self.model.modules() for kind in kinds)


def first(job: Job, agent: Agent, ask_while: Ask) -> dict[str, Any]:
    job.step()
    hooks = list(agent.safepoints.after)
    answer = ask_while(job.step, "grads", deadline_s=20.0, first_nan=True)["first"]
    assert job.no_hook_is_left()
    assert agent.safepoints.after == hooks
    assert isinstance(answer, dict)
    return answer


def layers(*third: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), *third, nn.Linear(4, 4), nn.Linear(4, 1))


class Training:
    def __init__(self, width: int = 4) -> None:
        self.model = nn.Linear(width, width)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.randn(3, self.model.in_features)).sum().backward()
        self.optimizer.step()
