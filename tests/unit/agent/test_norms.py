"""The gradient norm of a record is the one before clipping, with what it was clipped at."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recorded import Training, records
from torch import nn

from jupyter_traindbg.agent import norms
from jupyter_traindbg.agent.core import Agent


@pytest.fixture(autouse=True)
def _sampled_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norms, "NORM_SHARE", 1e9)


def backward(training: Training, factor: float = 100.0) -> None:
    training.optimizer.zero_grad()
    training.loss(factor).backward()


@pytest.mark.parametrize("kept", [False, True], ids=["looked up", "imported before we came"])
def test_clip_grad_norms_own_result_is_noted(agent: Agent, kept: bool) -> None:
    clip = EARLIER if kept and hasattr(nn.utils.clip_grad, "_clip_grads_with_norm_") else nn.utils.clip_grad_norm_
    training = Training()
    for most in (1e-3, 1e9):
        backward(training)
        norm = clip(training.model.parameters(), most)
        training.optimizer.step()
        last = records(agent)[-1]
        assert (last["grad_norm"], last["clip_norm"]) == (norm.item(), most)


EARLIER = nn.utils.clip_grad_norm_


def test_without_clipping_it_is_what_the_optimizer_saw(agent: Agent) -> None:
    training = Training()
    backward(training)
    training.optimizer.step()
    (record,) = records(agent)
    expected = torch.cat([p.grad.flatten() for p in training.model.parameters() if p.grad is not None]).norm()
    assert (record["grad_norm"], record["clip_norm"]) == (pytest.approx(expected.item()), None)


def test_a_norm_of_another_order_or_without_an_end_is_not_taken_for_one(agent: Agent) -> None:
    training = Training()
    for options in ({"norm_type": "inf", "max_norm": 1.0}, {"max_norm": float("inf")}):
        backward(training)
        nn.utils.clip_grad_norm_(training.model.parameters(), **options)
        training.optimizer.step()
    assert [r["clip_norm"] for r in records(agent)] == [None, None]
    assert records(agent)[-1]["grad_norm"] is not None


def test_clipped_before_a_scaler_unscales_it_is_told_without_the_factor(agent: Agent) -> None:
    training = Training()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    training.optimizer.zero_grad()
    scaler.scale(training.loss()).backward()
    norm = nn.utils.clip_grad_norm_(training.model.parameters(), 1e-2)
    scaler.step(training.optimizer)
    (record,) = records(agent)
    assert (record["grad_norm"], record["clip_norm"]) == (pytest.approx(norm.item() / 1024), None)


def test_the_sample_of_a_fused_optimizer_under_a_scaler_is_without_the_factor(agent: Agent) -> None:
    training = Training(make=torch.optim.Adam, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(training.loss()).backward()
    scaled = torch.cat([p.grad.flatten() for p in training.model.parameters() if p.grad is not None]).norm()
    scaler.step(training.optimizer)
    assert records(agent)[0]["grad_norm"] == pytest.approx(scaled.item() / 1024), "its step divides the gradients"


def test_clipped_in_parts_and_clipped_twice(agent: Agent) -> None:
    training = Training()
    backward(training)
    parts = [nn.utils.clip_grad_norm_(p, 0.5).item() for p in training.model.parameters()]
    training.optimizer.step()
    backward(training)
    first = nn.utils.clip_grad_norm_(training.model.parameters(), 2.0).item()
    nn.utils.clip_grad_norm_(training.model.parameters(), 0.5)
    training.optimizer.step()
    in_parts, twice = records(agent)
    assert (in_parts["grad_norm"], in_parts["clip_norm"]) == (pytest.approx(sum(n * n for n in parts) ** 0.5), None)
    assert (twice["grad_norm"], twice["clip_norm"]) == (first, 0.5)


def test_what_was_clipped_before_another_backward_pass_says_nothing(agent: Agent) -> None:
    training = Training()
    backward(training)
    nn.utils.clip_grad_norm_(training.model.parameters(), 1e-3)
    training.loss().backward()
    training.optimizer.step()
    assert records(agent)[0]["clip_norm"] is None


def test_gradients_that_do_not_come_from_backward_are_clipped_anew_at_every_step(agent: Agent) -> None:
    training = Training()
    parameters = list(training.model.parameters())
    norms = []
    for _ in range(3):
        for p, grad in zip(parameters, torch.autograd.grad(training.loss(100.0), parameters), strict=True):
            p.grad = grad
        norms.append(nn.utils.clip_grad_norm_(parameters, 1e9).item())
        training.optimizer.step()
    assert [r["grad_norm"] for r in records(agent)] == norms
    assert len(set(norms)) == 3


def test_two_optimizers_behind_one_clipping_have_its_norm_both(agent: Agent) -> None:
    training = Training()
    biases = torch.optim.SGD([training.model.bias], lr=0.1)
    weights = torch.optim.SGD([training.model.weight], lr=0.1)
    backward(training)
    norm = nn.utils.clip_grad_norm_(training.model.parameters(), 1.0).item()
    biases.step()
    weights.step()
    assert [(r["grad_norm"], r["clip_norm"]) for r in records(agent)] == [(norm, 1.0)] * 2


def test_our_own_clipping_is_noted_too(agent: Agent) -> None:
    training = Training()
    backward(training)
    training.optimizer.step()
    agent.tuning.apply({"setting": "clip_norm", "mode": "hold", "value": 0.25})
    backward(training)
    before = torch.cat([p.grad.flatten() for p in training.model.parameters() if p.grad is not None]).norm().item()
    training.optimizer.step()
    last: dict[str, Any] = records(agent)[-1]
    assert (last["grad_norm"], last["clip_norm"]) == (pytest.approx(before), 0.25)


def test_a_compiled_clipping_has_nothing_of_ours_in_its_graph(agent: Agent) -> None:
    training = Training()
    compiled = torch.compile(
        lambda: nn.utils.clip_grad_norm_(list(training.model.parameters()), 1.0), backend="eager", fullgraph=True
    )
    backward(training)
    compiled()
    training.optimizer.step()
    assert records(agent)[0]["grad_norm"] is not None
