"""Where the time of a step goes, by a clock that passes only where a test says so."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from recorded import PARTS, Clock, Training, parts, records
from torch.utils.data import DataLoader, TensorDataset

from jupyter_traindbg.agent import norms
from jupyter_traindbg.agent.core import Agent


def test_parts_sum_to_the_duration_and_name_what_was_slow(agent: Agent, clock: Clock) -> None:
    training = Training()

    class Slow(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> torch.Tensor:
            clock.passes(0.1 if i >= 3 else 0)
            return torch.randn(4)

    for i, x in enumerate(DataLoader(Slow(), batch_size=1)):
        loss = training.model(x).sum()
        if i == 1:
            clock.passes(0.2)  # between loader and backward: forward
        loss.backward()
        if i == 2:
            clock.passes(0.3)  # between backward and optimizer
        training.optimizer.step()
    seen = records(agent)
    assert all(r is None for r in (seen[0][p] for p in (*PARTS, "duration_s")))
    assert list(map(parts, seen[1:])) == [{"forward_s": 0.2}, {"other_s": 0.3}, *[{"data_wait_s": 0.1}] * 3]


def test_by_the_real_clock_parts_sum_to_the_duration_too(agent: Agent) -> None:
    training = Training()
    for (x,) in DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2):
        training.model(x).sum().backward()
        training.optimizer.step()
    for record in records(agent)[1:]:
        assert set(parts(record)) >= {"data_wait_s", "forward_s", "backward_s", "optimizer_s"}, record


def test_a_slow_backward_and_a_slow_optimizer_are_told_apart(agent: Agent, clock: Clock) -> None:
    class SlowStep(torch.optim.SGD):
        def step(self, closure=None):
            clock.passes(0.02)
            return super().step(closure)

    training = Training(make=SlowStep)
    training.step()
    training.step()
    weight = training.model.weight
    weight.register_hook(lambda grad: clock.passes(0.05))
    training.step()
    seen = records(agent)
    assert parts(seen[1]) == {"optimizer_s": 0.02}
    assert parts(seen[2]) == {"backward_s": 0.05, "optimizer_s": 0.02}


def test_our_own_time_is_in_no_part_but_other(agent: Agent, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training()
    training.step()
    monkeypatch.setattr(agent.recorder.norms, "_sample", lambda *_: clock.passes(0.03))
    training.step()
    training.step()
    assert parts(records(agent)[-1]) == {"other_s": 0.03}


def test_forward_and_backward_inside_a_closure(agent: Agent, clock: Clock) -> None:
    training = Training()

    def closure() -> torch.Tensor:
        training.optimizer.zero_grad()
        loss = training.loss()
        clock.passes(0.02)
        loss.backward()
        return loss

    for _ in range(2):
        loss = training.optimizer.step(closure)
    last = records(agent)[-1]
    assert last["loss"] == loss.item()
    assert parts(last) == {"forward_s": 0.02}


def test_the_norm_is_sampled_within_its_budget(agent: Agent, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of our own: a step takes 0.1 s, a norm 0.0095 s (not 0.01: then rounding would decide between ten steps and eleven), so
    one in ten steps may have one. The first one, and one that another process held up, say nothing of the next.
    """
    real = norms.grads_norm
    costs = iter([20.0, 0.0095, 0.0095, 5.0, *[0.0095] * 20])

    def costly(*args: Any) -> Any:
        clock.passes(next(costs))
        return real(*args)

    monkeypatch.setattr(norms, "NORM_SHARE", 0.01)
    monkeypatch.setattr(norms, "grads_norm", costly)
    training = Training()
    for _ in range(101):
        clock.passes(0.1)
        training.step()
    sampled = [r["step"] for r in records(agent) if r["grad_norm"] is not None]
    assert sampled[:2] == [1, 2]
    assert len(sampled) == 11
    assert {b - a for a, b in itertools.pairwise(sampled[1:])} == {10}, "0.0095 s of 1.0095"


def test_a_cheap_norm_of_one_optimizer_does_not_make_those_of_another_frequent(
    agent: Agent, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two in turns, as in a GAN. Both are sampled, and all of it stays within the budget."""
    small, large = Training(), Training()
    real, spent = norms.grads_norm, []

    def costly(torch: Any, grads: list[Any]) -> Any:
        spent.append(0.0001 if grads[0] is small.model.weight.grad else 0.095)
        clock.passes(spent[-1])
        return real(torch, grads)

    monkeypatch.setattr(norms, "NORM_SHARE", 0.01)
    monkeypatch.setattr(norms, "grads_norm", costly)
    for _ in range(1000):
        for training in (small, large):
            clock.passes(0.1)
            training.step()
    assert set(spent) == {0.0001, 0.095}
    assert sum(spent) <= 0.0105 * 200
