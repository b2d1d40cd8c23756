"""An action is in force until it is released: also when a notebook's cell is run again and makes a new optimizer."""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_traindbg.agent.carrying import BESIDE, CARRIED, ENDED
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.safepoint import STEPS_OF_A_RUN

SCALE = {"mode": "scale", "value": 0.5}


def make(cls: Any = torch.optim.SGD, size: int = 3, lr: float = 0.1, groups: int = 1) -> Any:
    parameters = [nn.Parameter(torch.ones(size)) for _ in range(groups)]
    optimizer = cls([{"params": [p]} for p in parameters], lr=lr)
    optimizer.used = []
    optimizer.register_step_post_hook(lambda o, *_: o.used.append([g["lr"] for g in o.param_groups]))
    return optimizer


def step(optimizer: Any, times: int = 1) -> None:
    for _ in range(times):
        for group in optimizer.param_groups:
            group["params"][0].grad = torch.ones_like(group["params"][0])
        optimizer.step()


def logged(agent: Agent) -> list[str]:
    return [entry["change"]["mode"] for entry in agent.tuning.report()["log"]]


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    """Optimizers that another test has left in a cycle are found, too. And the frames of torch's first step keep its optimizer."""
    step(make())
    gc.collect()


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """What the program's own variables are in, as a notebook's."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(__import__("sys").modules, "__main__", module)
    return module


def test_the_first_step_of_the_one_that_takes_its_place_is_under_it(agent: Agent) -> None:
    heard: list[dict[str, Any]] = []
    agent.listeners.append(heard.append)
    optimizer = make()
    step(optimizer, 3)
    agent.tuning.apply(SCALE)
    step(optimizer)
    del optimizer
    assert [r["note"] for r in agent.tuning.report()["in_force"]] == [
        "its optimizer is gone: it goes over to the SGD that takes its place"
    ]
    again = make(size=7, lr=0.4)
    step(again, 2)
    assert again.used == [[0.2], [0.2]]
    assert [g["lr"] for g in again.param_groups] == [0.4], "the schedule's own is back after each"
    (row,) = agent.tuning.report()["in_force"]
    assert (row["scheduled"], row["after"], row["note"]) == (0.4, 0.2, "")
    assert logged(agent) == ["scale", CARRIED]
    (entry,) = heard
    assert (entry["step"], entry["change"]["to"]) == (5, "SGD")
    assert [(r["before"], r["after"]) for r in entry["rows"]] == [(0.4, 0.2)]


def test_a_listener_that_fails_does_no_harm(agent: Agent) -> None:
    agent.listeners.append(lambda entry: entry["nothing"])
    optimizer = make()
    agent.tuning.apply(SCALE)
    del optimizer
    again = make()
    step(again, 2)
    assert again.used == [[0.05], [0.05]]
    assert any("KeyError" in failure for failure in agent.safepoints.failures)
    agent.safepoints.failures.clear()


def test_undo_and_release_are_for_the_new_one(agent: Agent) -> None:
    optimizer = make()
    agent.tuning.apply(SCALE)
    agent.tuning.apply({"mode": "scale", "value": 0.1})
    del optimizer
    again = make()
    step(again)
    agent.tuning.apply({"mode": "undo"})
    step(again)
    agent.tuning.apply({"mode": "release"})
    step(again)
    assert again.used == [[pytest.approx(0.01)], [0.05], [0.1]]
    assert "step" not in vars(again)
    assert not agent.tuning.active


def test_what_waits_for_a_new_one_can_be_released(agent: Agent) -> None:
    optimizer = make()
    agent.tuning.apply(SCALE)
    del optimizer
    (row,) = agent.tuning.apply({"mode": "release"})
    assert row["action"] == "released"
    assert not agent.tuning.active
    again = make()
    step(again)
    assert again.used == [[0.1]]


def test_another_class_does_not_take_its_place(agent: Agent) -> None:
    optimizer = make(torch.optim.AdamW)
    agent.tuning.apply({"mode": "hold", "value": 0.05})
    del optimizer
    again = make(torch.optim.SGD)
    step(again, 72)
    assert {tuple(used) for used in again.used} == {(0.1,)}
    assert logged(agent) == ["hold", ENDED]
    assert not agent.tuning.active


def test_a_gan_whose_cell_is_run_again(agent: Agent) -> None:
    """Each part of the old one goes over to its own, by the shapes of what it trains."""
    generator, critic = make(size=3), make(size=5)
    step(generator)
    step(critic)
    numbers = {id(o): i for i, o in enumerate(agent.objects.find().optimizers())}
    agent.tuning.apply({**SCALE, "optimizers": [numbers[id(generator)]]})
    agent.tuning.apply({"mode": "scale", "value": 0.1, "optimizers": [numbers[id(critic)]]})
    del generator, critic
    new_critic, new_generator = make(size=5), make(size=3)
    step(new_critic)
    step(new_generator)
    assert new_critic.used == [[pytest.approx(0.01)]]
    assert new_generator.used == [[0.05]]


def test_groups_that_are_not_there_and_groups_that_are_more(agent: Agent) -> None:
    optimizer = make(groups=2)
    agent.tuning.apply({**SCALE, "groups": [1]})
    del optimizer
    fewer = make(groups=1)
    step(fewer)
    assert fewer.used == [[0.1]]
    agent.tuning.apply({"mode": "release"})
    optimizer = make(groups=1)
    agent.tuning.apply(SCALE)
    del optimizer, fewer
    more = make(groups=2)
    step(more)
    assert more.used == [[0.05, 0.05]], "it was for all groups"


def test_one_that_the_program_has_forgotten_is_replaced_although_it_lives(agent: Agent) -> None:
    optimizer = make()
    optimizer.itself = optimizer
    step(optimizer, 3)
    agent.tuning.apply(SCALE)
    left = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer
        again = make()
        step(again)
        assert left() is not None
        assert again.used == [[0.05]]
        assert len(agent.tuning.report()["in_force"]) == 1
        assert "step" not in vars(left())  # type: ignore[arg-type]
    finally:
        gc.enable()


def test_one_beside_it_is_left_alone(agent: Agent) -> None:
    optimizer = make()
    step(optimizer, 3)
    agent.tuning.apply(SCALE)
    for _ in range(3):
        beside = make()
        step(beside)
        assert beside.used == [[0.1]]
    step(optimizer)
    assert optimizer.used[-1] == [0.05]
    assert logged(agent) == ["scale", BESIDE], "said once"


def test_a_variable_that_stands_for_another_one_now(agent: Agent, main: Any) -> None:
    main.opt, main.runs = make(), []
    step(main.opt, 3)
    agent.tuning.apply(SCALE)
    main.runs.append(main.opt)
    main.opt = make(size=9)
    step(main.opt)
    assert main.opt.used == [[0.05]]
    step(main.opt, 5)
    notes = {r["note"] for r in agent.tuning.report()["in_force"]}
    assert notes == {""}, "the one that is kept may step again: it trains something else"


@pytest.mark.parametrize("wrapped", [False, True], ids=["as torch has it", "wrapped"])
def test_nothing_of_ours_keeps_it(agent: Agent, wrapped: bool) -> None:
    """Not even as a cycle: a model that a cell replaces is gone at once, as without us."""
    optimizer = make()
    if wrapped:
        torch.optim.lr_scheduler.ExponentialLR(optimizer, 1.0)  # it puts a function of its own in the place of step
    step(optimizer)
    agent.tuning.apply(SCALE)
    agent.tuning.apply({"setting": "clip_norm", "mode": "hold", "value": 1.0})
    step(optimizer)
    for probe in ("lr", "memory", "grads", "steps"):
        agent.call(probe, {} if probe == "lr" else {"deadline_s": 0.1})
    gone = weakref.ref(optimizer), weakref.ref(optimizer.param_groups[0]["params"][0])
    gc.disable()
    try:
        del optimizer
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


def test_a_scheduler_that_is_made_meanwhile(agent: Agent) -> None:
    """It wraps the step that is ours now, as any method."""
    optimizer = make()
    agent.tuning.apply(SCALE)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(2):
        step(optimizer)
        scheduler.step()
    assert optimizer.used == [[0.05], [0.025]]
    agent.tuning.apply({"mode": "release"})
    step(optimizer)
    assert optimizer.used[-1] == [0.025]


@pytest.mark.parametrize(("way", "passes"), [("gone", True), ("forgotten", True), ("kept", False)])
def test_the_first_step_of_another_run_is_a_boundary(agent: Agent, way: str, passes: bool) -> None:
    """So what was asked for between two cells is in force from the first step on, also in a program without a DataLoader."""
    optimizer = make()
    kept = optimizer if way == "kept" else None
    if way == "forgotten":
        optimizer.itself = optimizer
    step(optimizer, STEPS_OF_A_RUN)
    seen: list[str] = []
    agent.safepoints.at_boundary.append(seen.append)
    gc.disable()
    try:
        del optimizer
        again = make()
        again.step()
    finally:
        gc.enable()
    assert (len(seen) == 1) == passes, kept
