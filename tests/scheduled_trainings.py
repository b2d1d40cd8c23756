"""Trainings with a schedule: scaled and held by the agent, by their own code, and left alone; and whether predictions come true."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as lrs

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.next_lr import upcoming

Make = Callable[[torch.optim.Optimizer], Any]
WARM, FIRST, SECOND, LAST = 2, 5, 8, 12
"""Until `WARM` steps nothing is done; then the first action, the second until `SECOND`, and after that the schedule alone again."""
FACTOR, HELD = 0.3, 0.007


class Training:
    """A small training whose every number follows from its seed. Two groups, with momentum, which OneCycle and Cyclic change, too."""

    def __init__(self, make: Make, *, tensor: bool, adam: bool) -> None:
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        first, second = (torch.tensor(0.1), torch.tensor(0.02)) if tensor else (0.1, 0.02)
        groups = [
            {"params": self.model[0].parameters(), "lr": first},
            {"params": self.model[2].parameters(), "lr": second},
        ]
        cls: Any = torch.optim.AdamW if adam else torch.optim.SGD
        self.optimizer = cls(groups, lr=0.1, weight_decay=0.1, **({} if adam else {"momentum": 0.9}))
        self.scheduler = make(self.optimizer)
        self.plateau = "metrics" in inspect.signature(self.scheduler.step).parameters
        self.saved: list[Any] = []

    def gradients(self) -> None:
        self.optimizer.zero_grad()
        self.loss = self.model(torch.randn(8, 3)).square().mean()
        self.loss.backward()

    def schedule(self) -> None:
        if self.plateau:
            self.scheduler.step(1.0)
        else:
            self.scheduler.step()

    def step(self, explicit: Callable[[Any], Any] | None = None) -> None:
        """One iteration. With `explicit`, the training's own code sets the learning rate of its step, and puts it back."""
        self.gradients()
        if explicit is None:
            self.optimizer.step()
        else:
            kept = [g["lr"] for g in self.optimizer.param_groups]
            for group in self.optimizer.param_groups:
                group["lr"] = explicit(group["lr"])
            self.optimizer.step()
            for group, lr in zip(self.optimizer.param_groups, kept, strict=True):
                group["lr"] = lr
        self.schedule()
        self.saved.append(plain([self.scheduler.state_dict(), self.optimizer.state_dict()["param_groups"]]))

    def result(self) -> list[Any]:
        state = self.optimizer.state_dict()
        return [plain([list(self.model.parameters()), state, self.scheduler.state_dict()]), self.saved]


def plain(value: Any) -> Any:
    """Tensors as bytes, so that ``==`` means the same bits; functions left out."""
    if isinstance(value, torch.Tensor):
        return ("tensor", str(value.dtype), value.detach().numpy().tobytes())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, lrs.LRScheduler):
        return plain(value.state_dict())
    return None if callable(value) else value


def hold(lr: Any) -> Any:
    return torch.full_like(lr, HELD) if isinstance(lr, torch.Tensor) else HELD


ACTIONS: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "scale": ({"mode": "scale", "value": FACTOR, "force": True}, lambda lr: lr * FACTOR),
    "hold": ({"mode": "hold", "value": HELD, "force": True}, hold),
}


def reference(make: Make, first: str, second: str, **kind: bool) -> list[Any]:
    training = Training(make, **kind)
    for step in range(LAST):
        wanted = None if step < WARM else first if step < FIRST else second if step < SECOND else None
        training.step(None if wanted is None else ACTIONS[wanted][1])
    return training.result()


def live(agent: Agent, make: Make, first: str, second: str, **kind: bool) -> list[Any]:
    training = Training(make, **kind)
    identities = [id(g["lr"]) for g in training.optimizer.param_groups if isinstance(g["lr"], torch.Tensor)]
    changes = {WARM: ACTIONS[first][0], FIRST: ACTIONS[second][0], SECOND: {"mode": "release", "setting": None}}
    for step in range(LAST):
        if step in changes:
            number = next(i for i, o in enumerate(agent.objects.find().optimizers()) if o is training.optimizer)
            rows = agent.tuning.apply({**changes[step], "optimizers": [number]})
            assert len(rows) == 2
        training.step()
        assert agent.tuning.active == (WARM <= step < SECOND)
    if type(training.scheduler).__name__ != "GreedyLR":  # it puts floats there
        assert identities == [id(g["lr"]) for g in training.optimizer.param_groups if isinstance(g["lr"], torch.Tensor)]
    return training.result()


def is_bit_identical(agent: Agent, name: str, make: Make, *, tensor: bool) -> None:
    """Scaled, held and released: as if the training's own code had set these learning rates."""
    for first, second, adam in (("scale", "hold", False), ("hold", "scale", True)):
        kind = {"tensor": tensor, "adam": adam}
        expected = reference(make, first, second, **kind)
        assert live(agent, make, first, second, **kind) == expected, (name, kind)
        untouched = Training(make, **kind)
        for _ in range(LAST):
            untouched.step()
        assert untouched.result() != expected, f"{name}: the actions change nothing"


def two_groups(lr: Any = 0.1) -> torch.optim.Optimizer:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    groups = [{"params": model[0].parameters(), "lr": lr}, {"params": model[1].parameters(), "lr": lr * 2}]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def run_on(optimizer: torch.optim.Optimizer, scheduler: Any, count: int) -> list[list[float]]:
    """The learning rates of the groups after each of the next `count` steps."""
    out = []
    for _ in range(count):
        optimizer.step()
        scheduler.step()
        out.append([float(g["lr"]) for g in optimizer.param_groups])
    return out


def prediction_comes_true(make: Make, *, tensor: bool) -> None:
    """At several places of a schedule; asking changes nothing."""
    optimizer = two_groups(torch.tensor(0.1) if tensor else 0.1)
    scheduler = make(optimizer)
    for done in (0, 1, 2, 4, 6):
        run_on(optimizer, scheduler, done)
        before = {k: v for k, v in scheduler.state_dict().items() if isinstance(v, (int, float))}
        rates = [float(g["lr"]) for g in optimizer.param_groups]
        predicted = upcoming(scheduler, optimizer, 5)
        assert before == {k: v for k, v in scheduler.state_dict().items() if isinstance(v, (int, float))}
        assert rates == [float(g["lr"]) for g in optimizer.param_groups]
        if done == 6:
            break
        assert isinstance(predicted, list), predicted
        real = run_on(optimizer, scheduler, 1)
        assert predicted[0] == pytest.approx(real[0], rel=1e-6, abs=1e-12)
    assert isinstance(predicted, list)
    assert predicted == [pytest.approx(r, rel=1e-5, abs=1e-12) for r in run_on(optimizer, scheduler, 5)]


def predicts_without_a_warning(makes: dict[str, Make]) -> None:
    """What scheduler and optimizer warn of when they step is the job's own; our look adds nothing."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        optimizer = two_groups()
        for name, make in makes.items():
            scheduler = make(optimizer)
            seen.clear()
            upcoming(scheduler, optimizer, 8)
            assert [str(w.message) for w in seen] == [], name
