"""A small training, and what the agent's recorder wrote down of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_traindbg.agent import norms, recorder, splitting
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.recorder import FIELDS
from jupyter_traindbg.agent.splitting import PARTS

__all__ = ["PARTS", "Clock", "Training", "clock", "parts", "records"]


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


class Clock:
    """The recorder's time, which passes only where a test says so."""

    def __init__(self) -> None:
        self.now = time.perf_counter() + 100.0  # later than what the recorder has seen

    def perf_counter(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (recorder, splitting, norms):
        monkeypatch.setattr(module, "time", made)
    return made


def parts(record: dict[str, Any]) -> dict[str, float]:
    """The parts of a step in which time passed, after a look that all of them together are the step."""
    assert math.isclose(sum(record[p] or 0.0 for p in PARTS), record["duration_s"], rel_tol=1e-9)
    return {p: round(record[p], 6) for p in PARTS if abs(record[p] or 0.0) > 1e-9}
