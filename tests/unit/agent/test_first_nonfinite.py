"""`--first-nan` names the module that made the first NaN or Inf, and leaves nothing behind."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from agents import Ask
from small_trainings import Job, Log, first, layers
from torch import nn

from jupyter_traindbg.agent import first_nonfinite
from jupyter_traindbg.agent.core import Agent


def test_the_third_layer_takes_the_logarithm_of_zero(agent: Agent, ask_while: Ask) -> None:
    answer = first(Job(layers(Log())), agent, ask_while)
    assert (answer["module"], answer["kind"]) == ("2", "Log")
    assert answer["inputs_finite"] is True
    assert answer["weights_finite"] is True
    assert answer["modules_seen"] == 6
    assert answer["note"] == ""


def test_a_nested_module_is_named_and_not_its_parent(agent: Agent, ask_while: Ask) -> None:
    answer = first(Job(layers(nn.Sequential(nn.Identity(), nn.Sequential(Log())))), agent, ask_while)
    assert (answer["module"], answer["kind"]) == ("2.1.0", "Log")


def test_a_batch_that_is_already_bad(agent: Agent, ask_while: Ask) -> None:
    batch = torch.ones(2, 4)
    batch[1, 2] = math.nan
    answer = first(Job(layers(), batch), agent, ask_while)
    assert (answer["module"], answer["inputs_finite"], answer["weights_finite"]) == ("0", False, True)


def test_weights_that_are_already_bad(agent: Agent, ask_while: Ask) -> None:
    job = Job(layers())
    with torch.no_grad():
        job.model[2].weight[0, 0] = math.inf
    answer = first(job, agent, ask_while)
    assert (answer["module"], answer["inputs_finite"], answer["weights_finite"]) == ("2", True, False)


def test_nothing_wrong(agent: Agent, ask_while: Ask) -> None:
    answer = first(Job(layers()), agent, ask_while)
    assert answer["module"] is None
    assert answer["inputs_finite"] is None
    assert answer["modules_seen"] == 5


class OwnCode(nn.Module):
    """Makes the Inf in its own forward, between two children."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(input=torch.log(self.before(x) * 0))  # by keyword: hooks see such inputs only when asked to


def test_code_of_a_module_between_its_children_is_that_modules(agent: Agent, ask_while: Ask) -> None:
    answer = first(Job(layers(OwnCode())), agent, ask_while)
    assert (answer["module"], answer["kind"], answer["inputs_finite"]) == ("2", "OwnCode", True)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.inner(x) / 0


class Caller(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.masked = Masked()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.masked(x, attention_mask=torch.full((4,), -math.inf))


def test_masks_are_infinite_on_purpose(agent: Agent, ask_while: Ask) -> None:
    answer = first(Job(Caller()), agent, ask_while)
    assert (answer["module"], answer["inputs_finite"]) == ("masked", True)


def test_outputs_in_containers(agent: Agent, ask_while: Ask) -> None:
    class Dict(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return {"hidden": (x, [x / 0]), "name": "text"}

    class Take(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.make, self.linear = Dict(), nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(self.make(x)["hidden"][0])

    assert first(Job(Take()), agent, ask_while)["module"] == "make"


def test_a_job_that_does_not_step_is_disarmed(agent: Agent) -> None:
    job = Job(layers())
    hooks = list(agent.safepoints.after)
    answer = agent.call("grads", {"deadline_s": 0.3, "first_nan": True})
    assert answer["first"]["module"] is None
    assert "no whole step passed" in answer["first"]["note"]
    assert "no module ran" in answer["first"]["note"]
    assert job.no_hook_is_left()
    assert agent.safepoints.after == hooks


def test_a_module_that_takes_no_hook_leaves_none_on_the_others(
    agent: Agent, ask_while: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(layers())

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no hooks here")

    monkeypatch.setattr(job.model[2], "register_forward_hook", refuse)
    job.step()
    with pytest.raises(AssertionError, match="no hooks here"):
        ask_while(job.step, "grads", deadline_s=10.0, first_nan=True)
    assert job.no_hook_is_left()


def test_with_two_optimizers_both_have_stepped(agent: Agent, ask_while: Ask) -> None:
    good, bad = Job(layers()), Job(layers(Log()))

    def both() -> None:
        good.step()
        bad.step()

    both()
    answer = ask_while(both, "grads", deadline_s=20.0, first_nan=True)["first"]
    assert answer["module"] == "2"
    assert good.no_hook_is_left()
    assert bad.no_hook_is_left()


def test_the_armed_step_computes_the_same(agent: Agent, ask_while: Ask) -> None:
    job = Job(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1)))
    expected = []
    torch.manual_seed(5)
    for _ in range(3):
        expected.append(job.model(job.batch).sum().item())
    job.step()
    outputs: list[float] = []

    def step() -> None:
        torch.manual_seed(5)
        outputs.clear()
        outputs.extend(job.model(job.batch).sum().item() for _ in range(3))
        job.optimizer.step()

    ask_while(step, "grads", deadline_s=20.0, first_nan=True)
    assert outputs == expected


class Turns(nn.Module):
    """Finite until it is told otherwise."""

    bad = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x * 0) if self.bad else x


def armed(agent: Agent, ask_while: Ask) -> tuple[Job, Turns]:
    """A job that is watched for many steps, all of them finite so far."""
    turns = Turns()
    job = Job(layers(turns))
    job.step()
    answer = ask_while(job.step, "grads", deadline_s=1.0, first_nan=100_000)["first"]
    assert answer["module"] is None
    assert answer["steps_seen"] > 0
    assert not job.no_hook_is_left()
    return job, turns


def test_no_step_is_missed_between_two_questions(agent: Agent, ask_while: Ask) -> None:
    job, turns = armed(agent, ask_while)
    turns.bad = True
    job.step()  # nobody asks just now
    turns.bad = False
    before = agent.recorder.step
    for _ in range(3):
        job.step()
    answer = ask_while(job.step, "grads", deadline_s=20.0, first_nan=100_000)["first"]
    assert (answer["module"], answer["kind"], answer["step"]) == ("2", "Turns", before)
    assert answer["weights_finite"] is True
    assert job.no_hook_is_left()
    assert agent.watch is None


def test_a_watch_of_many_steps_ends_when_told(agent: Agent, ask_while: Ask) -> None:
    job, _ = armed(agent, ask_while)
    ask_while(job.step, "grads", deadline_s=5.0, first_nan=-1)
    assert job.no_hook_is_left()
    assert agent.watch is None


def test_a_watch_of_many_steps_ends_with_its_lease(
    agent: Agent, ask_while: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_nonfinite, "LEASE_S", -10.0)  # over as soon as the question is
    job = Job(layers(Turns()))
    job.step()
    ask_while(job.step, "grads", deadline_s=1.0, first_nan=100_000)
    job.step()
    assert job.no_hook_is_left()
    assert agent.watch is None


def test_a_watch_of_many_steps_goes_with_the_agent(agent: Agent, ask_while: Ask) -> None:
    job, _ = armed(agent, ask_while)
    agent.stop()
    assert job.no_hook_is_left()


def test_the_step_is_told_by_the_optimizers_own_count_too(agent: Agent, ask_while: Ask) -> None:
    job = Job(layers(Log()))
    job.optimizer = torch.optim.AdamW(job.model.parameters(), lr=0.0)
    before = 5
    for p in job.model.parameters():  # a count from before the agent came
        job.optimizer.state[p] = {
            "step": torch.tensor(float(before)), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)
        }  # fmt: skip
        p.grad = torch.zeros_like(p)

    def step() -> None:
        job.called(job.batch).sum().backward()
        for p in job.model.parameters():
            p.grad = torch.zeros_like(p)
        job.optimizer.step()

    came = agent.recorder.step
    step()
    answer = ask_while(step, "grads", deadline_s=20.0, first_nan=True)["first"]
    assert answer["module"] is not None
    assert answer["optimizer_step"] == before + answer["step"] - came
