"""What lies before the forward pass, generates, evaluates or saves is not forward."""

from __future__ import annotations

import sys
import threading
import types
import warnings
from typing import Any

import pytest
import torch
from recorded import Clock, Training, parts, records
from torch import nn

from jupyter_traindbg.agent import splitting
from jupyter_traindbg.agent.core import Agent


def hooks() -> dict[int, Any]:
    return nn.modules.module._global_forward_pre_hooks


def test_time_before_the_model_is_called_is_other(agent: Agent, clock: Clock) -> None:
    training = Training()
    training.step()
    for _ in range(2):
        clock.passes(0.3)
        out = training.model(torch.randn(2, 4))
        clock.passes(0.05)
        out.sum().backward()
        clock.passes(0.2)  # between two micro-batches
    training.optimizer.step()
    assert parts(records(agent)[-1]) == {"other_s": 1.0, "forward_s": 0.1}
    assert records(agent)[-1]["forward_seen"]


def test_calls_without_gradients_are_no_forward_pass(agent: Agent, clock: Clock) -> None:
    training = Training()
    training.step()
    with torch.no_grad():
        training.model(torch.randn(2, 4))
        clock.passes(0.3)
    training.model(torch.randn(2, 4)).sum().backward()
    training.optimizer.step()
    assert parts(records(agent)[-1]) == {"other_s": 0.3}


def test_after_many_calls_without_gradients_forward_is_not_told_apart_in_that_step(agent: Agent, clock: Clock) -> None:
    training = Training()
    training.step()
    with torch.no_grad():
        for _ in range(splitting.MOST_OTHER_CALLS):
            training.model(torch.randn(2, 4))
    assert not hooks(), "what an evaluation costs is bounded"
    clock.passes(0.3)
    training.step()
    training.step()
    seen = records(agent)
    assert [r["forward_seen"] for r in seen[1:]] == [False, True]
    assert parts(seen[1]) == {"forward_s": 0.3}


def test_calls_of_other_threads_neither_begin_it_nor_cost_them_for_long(agent: Agent, clock: Clock) -> None:
    training, other = Training(), Training()
    training.step()

    def calls() -> None:
        for _ in range(splitting.MOST_OTHER_CALLS):
            other.model(torch.randn(2, 4))

    thread = threading.Thread(target=calls)
    thread.start()
    thread.join(30)
    assert not hooks()
    training.step()
    assert not records(agent)[-1]["forward_seen"]


def test_without_modules_all_before_backward_is_forward_and_said_so(agent: Agent, clock: Clock) -> None:
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        clock.passes(0.1)
        (weight * 2).sum().backward()
        optimizer.step()
    assert parts(records(agent)[-1]) == {"forward_s": 0.1}
    assert not records(agent)[-1]["forward_seen"]


def test_a_second_backward_pass_without_a_forward_pass(agent: Agent, clock: Clock) -> None:
    training = Training()
    training.step()
    loss = training.loss()
    loss.backward(retain_graph=True)
    clock.passes(0.4)
    loss.backward()
    training.optimizer.step()
    assert parts(records(agent)[-1]) == {"other_s": 0.4}


def test_the_hook_is_there_only_until_the_first_call(agent: Agent) -> None:
    before = dict(hooks())
    training = Training()
    training.step()
    assert len(hooks()) == len(before) + 1
    training.model(torch.randn(2, 4))
    assert hooks() == before
    training.step()
    agent.stop()
    assert hooks() == before


def test_compiling_finds_no_hook_and_a_compiled_model_is_seen(agent: Agent, clock: Clock) -> None:
    training = Training()
    training.step()
    assert hooks()
    compiled = torch.compile(training.model, backend="eager")
    assert not hooks()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of hooks on all modules
        for _ in range(2):
            clock.passes(0.3)
            out = compiled(torch.randn(2, 4))
            clock.passes(0.05)
            out.sum().backward()
            training.optimizer.step()
    assert not hooks()
    assert parts(records(agent)[-1]) == {"other_s": 0.3, "forward_s": 0.05}


@pytest.mark.parametrize("inner", [False, True], ids=["a function", "a compiled model within"])
def test_a_whole_step_is_compiled_without_anything_of_ours(agent: Agent, inner: bool) -> None:
    training = Training()
    model = torch.compile(training.model, backend="eager") if inner else training.model
    forward = torch.compile(lambda x: model(x).sum(), backend="eager", fullgraph=True)
    for _ in range(3):
        forward(torch.randn(2, 4)).backward()
        training.optimizer.step()
    assert len(records(agent)) == 3
    assert agent.safepoints.failures == []


def test_frameworks_phases_are_parts_of_their_own(agent: Agent, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("transformers.generation.utils")

    class GenerationMixin:
        def generate(self, model: nn.Module, again: bool = False) -> None:
            clock.passes(0.2)
            if again:
                self.generate(model)
            model(torch.randn(1, 4))

    module.GenerationMixin = GenerationMixin  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    agent.recorder._patches.catch_up()
    training = Training()
    training.step()
    clock.passes(0.1)
    GenerationMixin().generate(training.model, again=True)
    clock.passes(0.03)
    training.step()
    training.step()
    seen = records(agent)
    assert parts(seen[1]) == {"generation_s": 0.4, "other_s": 0.13}
    assert seen[2]["generation_s"] is None


def test_a_backward_pass_that_ends_after_we_left_leaves_no_hook(agent: Agent) -> None:
    before = dict(hooks())
    training = Training()
    training.step()
    training.model.weight.register_hook(lambda grad: agent.stop())
    training.loss().backward()
    assert hooks() == before


def test_saving_is_a_part_of_its_own_and_passes_its_errors_on(agent: Agent, clock: Clock) -> None:
    class Slow:
        def __reduce__(self) -> Any:
            clock.passes(0.5)
            raise OSError("no space left")

    training = Training()
    training.step()
    with pytest.raises(OSError, match="no space left"):
        torch.save(Slow(), "/dev/null")
    training.step()
    assert parts(records(agent)[-1]) == {"saving_s": 0.5}
