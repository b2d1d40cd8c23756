"""A training without an optimizer of torch's: each backward pass is a step; and what is read at the end of one where no step comes."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agents import Ask
from recorded import records
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from jupyter_traindbg.agent import safepoint
from jupyter_traindbg.agent.boundary import BY_HAND
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.refused import Refused
from jupyter_traindbg.agent.safepoint import NEXT_BATCH


class ByHand:
    """A model whose weights the program changes itself, as the hand-written SGD of textbooks does."""

    def __init__(self, clip: float | None = None) -> None:
        self.model: Any = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.clip = clip
        self.losses: list[float] = []
        self.norms: list[float] = []

    def step(self) -> None:
        self.model.zero_grad()
        loss = self.model(torch.rand(4, 4)).square().mean()
        self.losses.append(loss.item())
        loss.backward()
        if self.clip is not None:
            self.norms.append(float(nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)))
        with torch.no_grad():
            for p in self.model.parameters():
                p.sub_(p.grad, alpha=0.1)

    def known_to(self, agent: Agent) -> ByHand:
        """Make as many steps as it takes until `agent` counts them."""
        for _ in range(4):
            self.step()
            agent.tick(1)
        assert agent.safepoints.by_hand is not None
        return self


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safepoint, "IDLE_WINDOW_S", 0.02)
    monkeypatch.setattr(safepoint, "WAIT_WITHOUT_HISTORY_S", 0.2)


# --- backward passes that count as steps ---------------------------------------------------------------------------------


def test_each_pass_has_a_record_without_optimizer_and_rate(agent: Agent) -> None:
    training = ByHand().known_to(agent)
    first = len(records(agent))
    for _ in range(5):
        training.step()
    seen = records(agent)[first:]
    assert [r["loss"] for r in seen] == training.losses[-5:]
    assert all((r["optimizer"], r["lr"], r["micro_batches"], r["loss_kind"]) == (None, [], 1, "whole") for r in seen)
    assert all(r["duration_s"] > 0 and r["forward_s"] > 0 and r["backward_s"] > 0 for r in seen[1:])
    assert [r["step"] for r in seen] == list(range(first + 1, first + 6))


def test_the_first_record_holds_nothing_of_the_passes_before_it(agent: Agent) -> None:
    training = ByHand().known_to(agent)
    first = records(agent)[0]
    assert first["micro_batches"] == 1
    assert first["loss"] in training.losses


def test_what_gradients_were_clipped_to_is_known_by_the_next_pass(agent: Agent) -> None:
    training = ByHand(clip=1e-3).known_to(agent)
    for _ in range(3):
        training.step()
    seen = records(agent)
    assert [r["grad_norm"] for r in seen[-3:-1]] == pytest.approx(training.norms[-3:-1])
    assert [r["clip_norm"] for r in seen[-3:]] == [1e-3, 1e-3, None]


def test_gradients_are_read_after_such_a_step(agent: Agent, ask_while: Ask) -> None:
    training = ByHand().known_to(agent)
    answer = ask_while(training.step, "grads")
    assert (answer["safe_point"], answer["passes"], len(answer["grads"])) == (True, None, 4)
    assert answer["at"] == f"after step {answer['after_step']} since the attach"
    assert {g["name"] for g in answer["grads"]} == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_the_first_module_whose_output_is_not_finite_is_found(agent: Agent, ask_while: Ask) -> None:
    training = ByHand().known_to(agent)
    with torch.no_grad():
        training.model[0].weight[0, 0] = math.nan
    first = ask_while(training.step, "grads", first_nan=1)["first"]
    assert (first["module"], first["weights_finite"], first["note"]) == ("0", False, "")


def test_the_boundary_is_the_next_batch_and_says_what_a_resume_lacks(agent: Agent) -> None:
    training = ByHand()
    for _ in DataLoader(list(range(6))):
        training.step()
        agent.tick(1)
    state = agent.boundary.for_checkpoint()
    assert (state["where"], state["step"]) == (NEXT_BATCH, agent.recorder.step)
    assert BY_HAND in state["notes"]


def test_without_a_loader_the_boundary_is_the_beginning_of_the_next_pass(agent: Agent) -> None:
    training = ByHand().known_to(agent)
    for _ in range(safepoint.STEPS_WITHOUT_A_BATCH):
        training.step()
    weights: list[torch.Tensor] = []
    agent.safepoints.at_boundary.append(lambda where: weights.append(training.model[0].weight.detach().clone()))
    training.step()
    after = training.model[0].weight.detach().clone()
    training.step()
    assert torch.equal(weights[-1], after), "the weights there are not those that the update has left"


def test_it_is_told_why_there_is_no_learning_rate(agent: Agent) -> None:
    ByHand().known_to(agent)
    assert "the program changes its weights by itself" in agent.call("lr", {})["note"]
    with pytest.raises(Refused, match="changes its weights by itself"):
        agent.tuning.plan({"mode": "hold", "setting": "lr", "value": 0.1})


def test_memory_counts_its_gradients(agent: Agent, ask_while: Ask) -> None:
    training = ByHand().known_to(agent)
    sizes = ask_while(training.step, "memory")["sizes"]
    assert sizes["gradients"] == sizes["parameters"] == {"cpu": (4 * 8 + 8 + 8 + 1) * 4}


def test_an_optimizer_that_steps_ends_it(agent: Agent) -> None:
    training = ByHand().known_to(agent)
    optimizer = torch.optim.SGD(training.model.parameters(), lr=0.5)
    training.step()
    optimizer.step()
    assert agent.safepoints.by_hand is None
    agent.tick(1)
    assert agent.safepoints.by_hand is None
    passes = agent.recorder.step
    training.step()
    assert agent.recorder.step == passes
    assert records(agent)[-1]["lr"] == [0.5]


def test_where_there_is_an_optimizer_passes_are_no_steps(agent: Agent) -> None:
    training = ByHand()
    optimizer = torch.optim.SGD(training.model.parameters(), lr=0.1)
    for _ in range(20):
        training.step()
        agent.tick(1)
    assert agent.safepoints.by_hand is None
    assert agent.recorder.step == 0
    optimizer.step()
    assert records(agent)[0]["micro_batches"] == 20


def test_a_model_in_the_place_of_one_that_is_gone_begins_a_run(agent: Agent) -> None:
    training = ByHand().known_to(agent)
    for _ in range(10):
        training.step()
    before = agent.recorder.step
    training.model = nn.Linear(4, 1)
    gc.collect()
    for _ in range(10):
        training.step()
        agent.tick(1)
    assert before < agent.objects.run_began() <= before + 4


# --- tensors of no module -------------------------------------------------------------------------------------------------


class OfTensors:
    """Trains a tensor of no module; `anew`: another one after each step."""

    def __init__(self, *, anew: bool) -> None:
        self.w, self.anew = torch.ones(3, requires_grad=True), anew

    def step(self) -> None:
        (self.w * torch.rand(3)).sum().square().backward()
        with torch.no_grad():
            if self.anew:
                self.w = (self.w - 0.1 * self.w.grad).requires_grad_()
            else:
                self.w -= 0.1 * self.w.grad
                self.w.grad = None


@pytest.mark.parametrize("anew", [False, True])
def test_tensors_of_no_module_are_learnt_from_the_graph(agent: Agent, ask_while: Ask, anew: bool) -> None:
    training = OfTensors(anew=anew)
    for _ in range(6):
        training.step()
        agent.tick(1)
    answer = ask_while(lambda: (training.step(), agent.tick(1)), "grads")
    assert answer["safe_point"]
    if not anew:  # else the one that had the gradient is gone by now
        assert [(g["name"], g["shape"]) for g in answer["grads"]] == [("training.w", [3])]
        assert answer["total_norm"] > 0
    assert {r["optimizer"] for r in records(agent)} == {None}
    assert agent.objects.run_began() == 0


# --- at the end of a pass, where no step comes ----------------------------------------------------------------------------


class Accumulating:
    """Backward passes of a model with an optimizer that does not step."""

    def __init__(self, loss: Callable[[torch.Tensor], torch.Tensor] = lambda loss: loss) -> None:
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loss = loss

    def pass_(self) -> None:
        self.loss(self.model(torch.ones(2, 4)).square().mean()).backward()


def test_what_is_accumulated_is_read_at_the_end_of_a_pass(agent: Agent, ask_while: Ask) -> None:
    training = Accumulating()
    answer = ask_while(training.pass_, "grads", deadline_s=4.0)
    assert answer["safe_point"]
    assert answer["passes"] >= 1
    assert answer["after_step"] == 0
    assert answer["scale"] is None
    meanwhile = agent.call("steps", {"deadline_s": 0.0})["meanwhile"]
    assert (meanwhile["optimizers"], meanwhile["stepping"]) == (["SGD"], None)
    assert meanwhile["backwards"] >= answer["passes"]
    one = torch.autograd.grad(training.model(torch.ones(2, 4)).square().mean(), training.model.weight)[0]
    weight = next(g for g in answer["grads"] if g["name"] == "weight")
    assert weight["norm"] == pytest.approx(float(one.norm()) * answer["passes"], rel=1e-5)


def test_a_step_is_preferred(agent: Agent, ask_while: Ask) -> None:
    training = Accumulating()

    def step() -> None:
        training.pass_()
        training.optimizer.step()

    assert ask_while(step, "grads", deadline_s=4.0)["passes"] is None


def test_a_scalers_factor_is_taken_out_of_the_norms(agent: Agent, ask_while: Ask) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    training = Accumulating(scaler.scale)
    answer = ask_while(training.pass_, "grads", deadline_s=4.0)
    one = torch.autograd.grad(training.model(torch.ones(2, 4)).square().mean(), training.model.weight)[0]
    weight = next(g for g in answer["grads"] if g["name"] == "weight")
    assert answer["scale"] == 1024.0
    assert weight["norm"] == pytest.approx(float(one.norm()) * answer["passes"], rel=1e-5)
    assert answer["total_norm"] >= weight["norm"]


def test_the_closure_of_a_long_step_is_read_in_and_is_an_update(agent: Agent, ask_while: Ask) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, tolerance_grad=0, tolerance_change=0)
    updating: list[bool] = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(torch.ones(2, 4)) - 1).square().mean()
        loss.backward()
        updating.append(ask_while(lambda: None, "pace")["updating"])
        return loss

    optimizer.step(closure)
    assert updating[0] is False
    assert set(updating[1:]) == {True}
    meanwhile = ask_while(lambda: None, "steps", deadline_s=0.0)["meanwhile"]
    assert (meanwhile["stepping"], meanwhile["backwards"]) == (None, 0)


def test_a_pass_within_a_pass_is_a_part_of_it(agent: Agent) -> None:
    inner, outer = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*inner.parameters(), *outer.parameters()], lr=0.1)
    for _ in range(2):
        x = torch.rand(2, 4, requires_grad=True)
        loss = outer(checkpoint(inner, x, use_reentrant=True)).square().mean()
        printed = loss.item()
        loss.backward()
        optimizer.step()
    record = records(agent)[-1]
    assert (record["micro_batches"], record["loss_kind"], record["loss"]) == (1, "whole", printed)


def test_a_pass_that_was_interrupted_in_our_note_is_over(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Accumulating()
    note = agent.recorder.losses.note

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(agent.recorder.losses, "note", interrupted)
    with pytest.raises(KeyboardInterrupt):
        training.pass_()
    monkeypatch.setattr(agent.recorder.losses, "note", note)
    training.pass_()
    assert agent.recorder.backwards == 2


def test_a_pass_that_raises_goes_through_and_is_no_step(agent: Agent) -> None:
    ByHand().known_to(agent)
    before = agent.recorder.step
    loss = torch.ones(1, requires_grad=True)
    loss.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loss.sum().backward()
    assert agent.recorder.step == before
