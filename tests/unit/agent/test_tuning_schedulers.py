"""Every scheduler there is, scaled, held and released, against a run that had these learning rates in its own code. Bit for bit."""

from __future__ import annotations

import functools
import gc
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as lrs
from torch.optim import swa_utils

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.refused import Refused

Make = Callable[[torch.optim.Optimizer], Any]
WARM, FIRST, SECOND, LAST = 2, 5, 8, 12
"""Until `WARM` steps nothing is done; then the first action, the second until `SECOND`, and after that the schedule alone again."""
FACTOR, HELD = 0.3, 0.007


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


def transformers_schedules() -> dict[str, Make]:
    optimization = pytest.importorskip("transformers.optimization")
    found = {name: f for name, f in vars(optimization).items() if name.startswith("get_") and "schedule" in name}
    found = {n: f for n, f in found.items() if next(iter(inspect.signature(f).parameters)) == "optimizer"}
    assert len(found) >= 9
    found.pop("get_adafactor_schedule")  # for an optimizer without a learning rate, see below
    return {name: functools.partial(f, **PARAMETERS.get(name, WARMUP)) for name, f in found.items()}


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


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    gc.freeze()  # the search for the optimizers need not look at all of transformers each time
    with warnings.catch_warnings():
        # SequentialLR of torch itself warns about its own use of an epoch parameter
        warnings.filterwarnings("ignore", message="The epoch parameter in `scheduler.step")
        yield
    gc.unfreeze()


def test_every_class_of_torch_is_covered() -> None:
    there_are = {name for name in lrs.__all__ if name != "LRScheduler"}
    there_are |= {c.__name__ for c in lrs.LRScheduler.__subclasses__() if c.__module__.startswith("torch.")} - {
        "_LRScheduler"
    }
    assert there_are <= set(SCHEDULES)


@pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])
@pytest.mark.parametrize("name", [*SCHEDULES, "transformers"])
def test_scale_hold_release_is_bit_identical_to_explicit_learning_rates(agent: Agent, name: str, tensor: bool) -> None:
    for schedule, make in transformers_schedules().items() if name == "transformers" else [(name, SCHEDULES[name])]:
        for first, second, adam in (("scale", "hold", False), ("hold", "scale", True)):
            kind = {"tensor": tensor, "adam": adam}
            expected = reference(make, first, second, **kind)
            assert live(agent, make, first, second, **kind) == expected, schedule
            untouched = Training(make, **kind)
            for _ in range(LAST):
                untouched.step()
            assert untouched.result() != expected, "the actions change nothing"


def test_an_optimizer_that_makes_its_own_learning_rate_is_refused(agent: Agent) -> None:
    optimization = pytest.importorskip("transformers.optimization")
    model = nn.Linear(2, 2)
    optimizer = optimization.Adafactor(model.parameters())
    schedule = optimization.get_adafactor_schedule(optimizer)
    with pytest.raises(Refused, match=r"group 0 of optimizer 0 \(Adafactor\) has no learning rate of its own"):
        agent.tuning.check({"mode": "scale", "value": 0.1})
    del schedule
