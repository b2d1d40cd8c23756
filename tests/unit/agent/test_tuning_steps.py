"""Steps of every kind under a changed learning rate: raising, nested, wrapped, with closures, fused, skipped by a scaler."""

from __future__ import annotations

import copy
import functools
import pickle
import threading
import time
from typing import Any

import pytest
import torch
from small_trainings import SCALE, bits, index_of, lr_of, make
from torch import nn
from torch.optim import lr_scheduler as lrs

from jupyter_traindbg.agent.core import Agent


def saved_lr(optimizer: torch.optim.Optimizer) -> float:
    return float(optimizer.state_dict()["param_groups"][0]["lr"])


class Boom(Exception):
    pass


# --- steps that raise -------------------------------------------------------------------------------------------------


class Breaking(torch.optim.SGD):
    """Raises in the middle of its step, when told to, and writes down the learning rate it then had."""

    broken = False
    seen: float | None = None

    def step(self, closure: Any = None) -> Any:
        if self.broken:
            self.seen = lr_of(self)
            raise KeyboardInterrupt
        return super().step(closure)


@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["float", "tensor"])
def test_after_a_step_that_raised_everybody_sees_the_schedule_at_once(agent: Agent, lr: Any) -> None:
    optimizer = make(Breaking, lr=lr.clone() if isinstance(lr, torch.Tensor) else lr)
    scheduler = lrs.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    agent.tuning.apply(SCALE)
    before, optimizer.broken = bits(optimizer), True
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    assert optimizer.seen == pytest.approx(0.05)
    assert bits(optimizer) == before
    assert lr_of(optimizer) == saved_lr(optimizer) == pytest.approx(0.1)
    scheduler.step()
    assert lr_of(optimizer) == pytest.approx(0.05)
    optimizer.broken = False
    optimizer.step()
    assert agent.recorder.last is not None
    assert agent.recorder.last[7] == [pytest.approx(0.025)]
    assert lr_of(optimizer) == pytest.approx(0.05)
    assert agent.tuning._windows == {}


def test_a_raising_step_that_was_taken_hold_of_before_is_healed_at_the_next_boundary(agent: Agent) -> None:
    """A bound ``step`` that somebody kept does not pass by our watch; `state_dict` and checkpoints are right nevertheless."""
    optimizer = make(Breaking)
    step = optimizer.step
    agent.tuning.apply(SCALE)
    optimizer.broken = True
    with pytest.raises(KeyboardInterrupt):
        step()
    assert lr_of(optimizer) == 0.05
    assert saved_lr(optimizer) == 0.1
    assert agent.tuning.scheduled_groups(optimizer)[0]["lr"] == 0.1
    assert agent.tuning.report()["in_force"][0]["scheduled"] == 0.1
    agent.safepoints._pass_boundary("before the next batch")
    assert lr_of(optimizer) == 0.1
    with pytest.raises(KeyboardInterrupt):
        step()
    optimizer.broken = False
    step()
    assert lr_of(optimizer) == 0.1
    assert agent.recorder.last is not None
    assert agent.recorder.last[7] == [0.05], "not scaled twice"


def test_a_hook_of_the_user_that_raises(agent: Agent) -> None:
    optimizer = make()

    def refuse(*_: Any) -> None:
        raise Boom

    agent.tuning.apply(SCALE)
    handle = optimizer.register_step_pre_hook(refuse)
    with pytest.raises(Boom):
        optimizer.step()
    assert lr_of(optimizer) == 0.1
    handle.remove()


def test_releasing_after_a_step_that_raised(agent: Agent) -> None:
    optimizer = make(Breaking)
    step = optimizer.step
    agent.tuning.apply(SCALE)
    optimizer.broken = True
    with pytest.raises(KeyboardInterrupt):
        step()
    agent.tuning.apply({"mode": "release"})
    assert lr_of(optimizer) == 0.1


# --- inside of the step -----------------------------------------------------------------------------------------------


def test_what_the_training_does_inside_a_closure_sees_the_schedule(agent: Agent) -> None:
    optimizer = make(lr=torch.tensor(0.1))
    scheduler = lrs.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    agent.tuning.apply(SCALE)
    seen: list[float] = []

    def closure() -> float:
        seen.extend([lr_of(optimizer), saved_lr(optimizer)])
        scheduler.step()
        return 1.0

    assert optimizer.step(closure) == 1.0
    assert seen == [pytest.approx(0.1)] * 2
    assert agent.recorder.last is not None
    assert agent.recorder.last[7] == [pytest.approx(0.025)]
    assert lr_of(optimizer) == pytest.approx(0.05)

    def failing() -> float:
        raise Boom

    with pytest.raises(Boom):
        optimizer.step(closure=failing)
    assert lr_of(optimizer) == pytest.approx(0.05)


def test_state_dict_in_the_middle_of_a_step_is_the_schedules(agent: Agent) -> None:
    for lr in (0.1, torch.tensor(0.1)):
        optimizer = make(lr=lr, weight_decay=0.1)
        seen: list[Any] = []
        optimizer.register_step_pre_hook(lambda o, *_, s=seen: s.append((lr_of(o), o.state_dict()["param_groups"][0])))
        index = index_of(agent, optimizer)
        agent.tuning.apply({**SCALE, "optimizers": index})
        agent.tuning.apply({**SCALE, "optimizers": index, "setting": "weight_decay"})
        optimizer.step()
        ((effective, saved),) = seen
        assert effective == pytest.approx(0.05)
        assert (float(saved["lr"]), saved["weight_decay"]) == (pytest.approx(0.1), 0.1)
        assert saved["params"] == [0]


def test_a_value_that_is_set_during_the_step_is_the_new_schedule(agent: Agent) -> None:
    for lr, new in ((0.1, 0.3), (torch.tensor(0.1), 0.3)):
        optimizer = make(lr=lr)

        def set_it(o: Any, *_: Any, new: float = new) -> None:
            if isinstance(o.param_groups[0]["lr"], torch.Tensor):
                o.param_groups[0]["lr"].fill_(new)
            else:
                o.param_groups[0]["lr"] = new

        index = index_of(agent, optimizer)
        agent.tuning.apply({**SCALE, "optimizers": index})
        handle = optimizer.register_step_post_hook(set_it)
        optimizer.step()
        handle.remove()
        assert lr_of(optimizer) == pytest.approx(0.3)


def test_lbfgs_is_bit_identical(agent: Agent) -> None:
    for search in (None, "strong_wolfe"):
        for lr in (0.5, torch.tensor(0.5)):
            results = []
            for live in (False, True):  # in force until released: also on one that takes its place
                torch.manual_seed(1)
                target, parameter = torch.randn(4), nn.Parameter(torch.randn(4))
                start = lr.clone() if isinstance(lr, torch.Tensor) else lr
                optimizer = torch.optim.LBFGS([parameter], lr=start, max_iter=4, line_search_fn=search)

                def closure(p: Any = parameter, o: Any = optimizer, t: Any = target) -> Any:
                    o.zero_grad()
                    loss = (p - t).pow(4).sum()
                    loss.backward()
                    return loss

                for step in range(3):
                    if live and step == 1:
                        index = index_of(agent, optimizer)
                        agent.tuning.apply({"mode": "scale", "value": 0.25, "optimizers": index})
                    if not live and step == 1:  # in place, as schedulers do: LBFGS keeps the tensor itself in its state
                        optimizer.param_groups[0]["lr"] *= 0.25
                    optimizer.step(closure)
                if live:
                    assert lr_of(optimizer) == 0.5
                results.append(bits(optimizer))
            assert results[0] == results[1], (search, lr)
            agent.tuning.apply({"mode": "release", "setting": None})


def test_the_dry_step_that_makes_a_state_for_a_checkpoint_is_left_alone(agent: Agent) -> None:
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    agent.tuning.apply({"mode": "hold", "value": 0.05})
    before = [p.detach().clone() for p in model.parameters()]
    state = get_optimizer_state_dict(model, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert state["param_groups"][0]["lr"] == 0.1
    assert lr_of(optimizer) == 0.1


# --- nested and wrapped -----------------------------------------------------------------------------------------------


class Sub(torch.optim.SGD):
    """Two calls of its parent's step, one with a closure of its own."""

    def step(self, closure: Any = None) -> Any:
        super().step()
        self.between = lr_of(self)
        return super().step(lambda: 1.0)


class Outer(torch.optim.Optimizer):
    """Steps an inner one, like ZeroRedundancyOptimizer: copies the values of its groups into it, and back."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self.inner = torch.optim.SGD([p for g in self.param_groups for p in g["params"]], lr=lr)

    def step(self, closure: Any = None) -> None:
        for mine, its in zip(self.param_groups, self.inner.param_groups, strict=True):
            its["lr"] = mine["lr"]
        self.inner.step()
        for mine, its in zip(self.param_groups, self.inner.param_groups, strict=True):
            mine["lr"] = its["lr"]


def test_a_step_within_a_step_is_changed_once(agent: Agent) -> None:
    live, expected = make(Sub), make(Sub, lr=0.05)
    index = index_of(agent, live)
    agent.tuning.apply({**SCALE, "optimizers": index})
    for optimizer in (live, expected):
        optimizer.step()
        optimizer.step()
    assert live.between == 0.05
    assert bits(live) == bits(expected)
    assert lr_of(live) == 0.1


def test_an_optimizer_that_steps_another_one(agent: Agent) -> None:
    live, expected = (make(Outer, lr=lr) for lr in (0.1, 0.05))
    scheduler = lrs.ExponentialLR(live, 0.5)
    index = index_of(agent, live.inner)
    agent.tuning.apply({**SCALE, "optimizers": index})
    for optimizer in (live, expected):
        optimizer.step()
    assert bits(live) == bits(expected)
    assert lr_of(live) == 0.1
    scheduler.step()
    live.step()
    assert agent.recorder.last is not None
    assert lr_of(live) == 0.05


def test_a_scheduler_made_while_an_action_is_in_force(agent: Agent) -> None:
    """It puts its own ``step`` on the optimizer's instance, as we do; warnings are errors here."""
    optimizer = make()
    agent.tuning.apply(SCALE)
    scheduler = lrs.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    scheduler.step()
    agent.tuning.apply({"mode": "release"})
    optimizer.step()
    scheduler.step()
    assert lr_of(optimizer) == 0.025
    agent.tuning.apply(SCALE)
    optimizer.step()
    agent.tuning.apply({"mode": "release"})
    assert agent.recorder.last is not None
    assert agent.recorder.last[7] == [0.0125]


def test_a_step_that_a_scheduler_had_wrapped_is_put_back(agent: Agent) -> None:
    optimizer = make()
    scheduler = lrs.StepLR(optimizer, 1, 0.5)
    theirs = vars(optimizer)["step"]
    agent.tuning.apply(SCALE)
    assert vars(optimizer)["step"] is not theirs
    assert optimizer.step._wrapped_by_lr_sched
    agent.tuning.apply({"mode": "release"})
    assert vars(optimizer)["step"] is theirs
    del scheduler


# --- kinds of steps ---------------------------------------------------------------------------------------------------

KINDS: dict[str, Any] = {
    "foreach": functools.partial(torch.optim.AdamW, foreach=True),
    "loop": functools.partial(torch.optim.AdamW, foreach=False),
    "fused": functools.partial(torch.optim.AdamW, fused=True),
    "fused-sgd": functools.partial(torch.optim.SGD, fused=True, momentum=0.9),
    "amsgrad": functools.partial(torch.optim.Adam, amsgrad=True),
    "adagrad": torch.optim.Adagrad,
    "adafactor": torch.optim.Adafactor,
    "rmsprop": torch.optim.RMSprop,
    "radam": torch.optim.RAdam,
    "nadam": torch.optim.NAdam,
    "rprop": torch.optim.Rprop,
    "asgd": torch.optim.ASGD,
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
}


def test_every_kind_of_step_is_bit_identical(agent: Agent) -> None:
    for kind, cls in KINDS.items():
        for lr in (0.1, torch.tensor(0.1)):
            if isinstance(lr, torch.Tensor) and kind == "foreach":
                continue  # torch: "lr as a Tensor is not supported for capturable=False and foreach=True"
            results = []
            for live in (False, True):  # in force until released: also on one that takes its place
                optimizer = make(cls, lr=lr.clone() if isinstance(lr, torch.Tensor) else lr)
                for step in range(5):
                    if step == 2 and live:
                        index = index_of(agent, optimizer)
                        agent.tuning.apply({"mode": "scale", "value": 0.3, "optimizers": index})
                    if step == 2 and not live:
                        optimizer.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] * 0.3
                    optimizer.step()
                results.append(bits(optimizer))
            assert results[0] == results[1], (kind, lr)
            agent.tuning.apply({"mode": "release", "setting": None})


def test_steps_that_a_grad_scaler_skips(agent: Agent) -> None:
    optimizer, scaler = make(), torch.amp.GradScaler("cpu", init_scale=2.0)
    (parameter,) = optimizer.param_groups[0]["params"]
    agent.tuning.apply(SCALE)
    for sick in (False, True, False):
        parameter.grad = torch.full((4,), float("inf") if sick else 2.0)
        before = parameter.detach().clone()
        scaler.scale(torch.tensor(1.0))
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(parameter, before) == sick
        assert lr_of(optimizer) == 0.1
    assert [r[7] for r in agent.recorder.since(0)] == [[0.05], [0.05]]


def test_a_value_that_cannot_be_changed_any_more(agent: Agent) -> None:
    """The training goes on with its own value, and the report says why."""
    optimizer = make()
    agent.tuning.apply(SCALE)
    optimizer.param_groups[0]["lr"] = torch.tensor(0.1, requires_grad=True)
    optimizer.step()
    (row,) = agent.tuning.report()["in_force"]
    assert row["note"] == "not in force: it is itself being trained"
    assert float(optimizer.param_groups[0]["lr"].detach()) == pytest.approx(0.1)
    optimizer.param_groups[0]["lr"] = 0.1
    optimizer.step()
    assert agent.recorder.last is not None
    assert agent.recorder.last[7] == [0.05]
    assert agent.tuning.report()["in_force"][0]["note"] == ""


def test_copies_of_an_optimizer_are_free_of_it(agent: Agent) -> None:
    optimizer = make()
    agent.tuning.apply(SCALE)
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        twin.param_groups[0]["params"][0].grad = torch.ones(4)
        twin.step()
        assert agent.recorder.last is not None
        assert agent.recorder.last[7] == [0.1]
        assert "step" not in vars(twin)


def test_load_state_dict_while_an_action_is_in_force(agent: Agent) -> None:
    optimizer, other = make(), make(lr=0.4)
    index = index_of(agent, optimizer)
    agent.tuning.apply({**SCALE, "optimizers": index})
    optimizer.step()
    optimizer.load_state_dict(other.state_dict())
    optimizer.step()
    assert lr_of(optimizer) == 0.4
    assert agent.recorder.last is not None
    assert agent.recorder.last[7] == [0.2]


# --- leaving ----------------------------------------------------------------------------------------------------------


def test_closing_in_the_middle_of_a_step_waits_for_it_and_puts_the_values_back(agent: Agent) -> None:
    entered, go_on = threading.Event(), threading.Event()

    seen: list[float] = []

    class Slow(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            entered.set()
            go_on.wait(10)
            time.sleep(0.1)
            seen.append(lr_of(self))
            return super().step(closure)

    live, expected = make(Slow), make(lr=0.05)
    index = index_of(agent, live)
    agent.tuning.apply({**SCALE, "optimizers": index})
    training = threading.Thread(target=live.step)
    training.start()
    assert entered.wait(5)
    go_on.set()
    agent.stop()
    training.join(10)
    expected.step()
    assert seen == [0.05]
    assert bits(live) == bits(expected)
    assert lr_of(live) == 0.1
    assert "step" not in vars(live)
    assert not live._optimizer_state_dict_post_hooks
