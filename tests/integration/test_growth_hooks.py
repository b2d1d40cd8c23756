"""Hooks of a tensor that pile up, looked at within a process that has nothing else in it.

Behind thousands of unit tests in one process, whose objects are looked through as well, the answer had no such row once in a few runs.
"""

from __future__ import annotations

import torch
from agents import Ask, agent, ask_while  # noqa: F401 - fixtures
from torch import nn

from jupyter_traindbg.agent.core import Agent


def test_hooks_of_a_tensor_are_known_as_hooks(agent: Agent, ask_while: Ask) -> None:  # noqa: F811 - the fixtures
    model = nn.Linear(7, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        x = torch.ones(64, 7)
        model(x).sum().backward()
        optimizer.step()
        model.weight.register_hook(lambda g, x=x: g * x.mean())  # type: ignore[no-untyped-call]

    step()
    answer = ask_while(step, "growth", always=True, watch_s=20.0, deadline_s=40.0)
    row = next(row for row in answer["held"] if row["hooks"])
    assert [label for _, label in row["path"]["steps"]][-2:] == ["['weight']", "._backward_hooks"]
    assert row["lines"][0][1] == step.__code__.co_firstlineno + 4
