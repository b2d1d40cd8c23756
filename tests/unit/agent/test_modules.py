"""The modules of a model: what they hold, and how long they take in whole steps; and that nothing is left behind, nor changed."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from agents import Ask
from cases import each
from torch import nn
from torch.utils.checkpoint import checkpoint

from jupyter_traindbg.agent.core import Agent

SLEEP_S = 0.02


class Slow(nn.Module):
    """Takes its time forward, and more of it backward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(SLEEP_S)
        return Lazily.apply(x)  # type: ignore[no-untyped-call, no-any-return]


class Lazily(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        time.sleep(2 * SLEEP_S)
        return grad * 2


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner(x)
        x += 1  # in place, on what a module has returned
        return x


class Job:
    def __init__(self, model: nn.Module) -> None:
        torch.manual_seed(0)
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.losses: list[str] = []

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = self.model(torch.ones(2, 4)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item().hex())

    def hooks(self) -> int:
        kinds = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
        of_modules = sum(len(vars(m)[kind]) for m in self.model.modules() for kind in kinds)
        return of_modules + sum(len(p._post_accumulate_grad_hooks or ()) for p in self.model.parameters())


def watched(job: Job, ask_while: Ask, steps: int = 3) -> dict[str, dict[str, Any]]:
    job.step()
    answer = ask_while(job.step, "modules", steps=steps, deadline_s=30.0)
    assert answer["steps"] == steps, answer
    return {module["name"]: module for module in answer["modules"]}


def a_step(module: dict[str, Any], what: str, steps: int = 3) -> float:
    return float(module["times"][what]) / steps


def test_forward_and_backward_go_to_the_module_that_takes_them(agent: Agent, ask_while: Ask) -> None:
    job = Job(nn.Sequential(nn.Linear(4, 4), Residual(Slow()), nn.Linear(4, 1)))
    seen = watched(job, ask_while)
    assert list(seen) == ["", "0", "1", "1.inner", "2"]
    slow = seen["1.inner"]
    assert a_step(slow, "forward_s") >= SLEEP_S
    assert a_step(slow, "backward_s") >= 2 * SLEEP_S
    assert a_step(slow, "calls") == a_step(slow, "backwards") == 1
    for outer in ("", "1"):
        assert a_step(seen[outer], "forward_s") >= a_step(slow, "forward_s")
        assert a_step(seen[outer], "forward_self_s") < SLEEP_S, "what is within is not its own"
        assert a_step(seen[outer], "backward_self_s") < 2 * SLEEP_S
    assert a_step(seen[""], "backward_s") >= 2 * SLEEP_S
    for fast in ("0", "2"):
        assert a_step(seen[fast], "forward_s") < SLEEP_S
        assert 0 < a_step(seen[fast], "backward_s") < 2 * SLEEP_S


def test_what_a_module_holds_is_its_own(agent: Agent, ask_while: Ask) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 1, dtype=torch.float32)), nn.Dropout())
    model[2].eval()
    seen = watched(Job(model), ask_while)
    assert (seen["0"]["kind"], seen["0"]["parameters"], seen["0"]["elements"], seen["0"]["bytes"]) == (
        "Linear",
        2,
        15,
        60,
    )
    assert (seen[""]["parameters"], seen["1"]["elements"], seen["1.0"]["elements"]) == (0, 0, 4)
    assert (seen["0"]["device"], seen["0"]["dtype"], seen[""]["device"]) == ("cpu", "float32", None)
    assert (seen["0"]["training"], seen["2"]["training"]) == (True, False)


class Shared(nn.Module):
    """Calls one module three times, one of them under checkpointing, and one never."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(self.layer(x))
        again: torch.Tensor = checkpoint(self.layer, x, use_reentrant=False)
        return again


def test_calls_are_counted_but_for_those_that_checkpointing_breaks_off(agent: Agent, ask_while: Ask) -> None:
    seen = watched(Job(Shared()), ask_while)
    assert a_step(seen["layer"], "calls") == 3
    assert seen["unused"]["times"] is None


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError


class Catches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.raises, self.layer = Raises(), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            self.raises(x)
        except ValueError:
            pass
        out: torch.Tensor = self.layer(x)
        return out


def test_a_module_that_raises_has_no_end_and_spoils_no_other(agent: Agent, ask_while: Ask) -> None:
    seen = watched(Job(Catches()), ask_while)
    assert a_step(seen["layer"], "calls") == a_step(seen[""], "calls") == 1
    assert seen["raises"]["times"] is None
    assert a_step(seen[""], "forward_self_s") + a_step(seen["layer"], "forward_s") <= a_step(seen[""], "forward_s")


@each("make", [lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 1)), Shared, Catches])
def test_no_loss_changes_and_nothing_is_left(make: Any, agent: Agent, ask_while: Ask) -> None:
    torch.manual_seed(0)
    left_alone, looked_at = Job(make()), None
    torch.manual_seed(0)
    looked_at = Job(make())
    watched(looked_at, ask_while)
    while len(left_alone.losses) < len(looked_at.losses):
        left_alone.step()
    assert looked_at.losses == left_alone.losses
    assert looked_at.hooks() == 0
    assert not [hook for hook in agent.safepoints.after if "ModuleTimes" in hook.__qualname__]
    assert agent.safepoints.failures == []


def test_a_graph_that_is_kept_has_none_of_our_hooks_any_more(agent: Agent, ask_while: Ask) -> None:
    kept: list[torch.Tensor] = []
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        loss = model(torch.ones(2, 4)).sum()
        loss.backward(retain_graph=True)
        kept.append(loss)
        optimizer.step()

    step()
    answer = ask_while(step, "modules", steps=2, deadline_s=30.0)
    assert answer["steps"] == 2
    for loss in kept:
        node = loss.grad_fn
        while node is not None:
            assert not getattr(node, "_pre_hooks", None)
            node = node.next_functions[0][0] if node.next_functions else None


def test_where_no_step_comes_there_are_no_times_and_the_reason(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(nn.Sequential(nn.Linear(4, 1)))
    job.step()
    answer = agent.call("modules", {"deadline_s": 0.2})
    assert (answer["steps"], answer["note"]) == (0, "no times: no step came meanwhile")
    assert [module["times"] for module in answer["modules"]] == [None, None]
    assert job.hooks() == 0


def test_without_a_model_it_is_said(agent: Agent) -> None:
    assert agent.call("modules", {"deadline_s": 0.1}) == {"modules": [], "steps": 0, "note": "no model was found"}
