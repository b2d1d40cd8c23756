"""Live objects are found wherever they live, named rightly, and never kept alive."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from jupyter_traindbg.agent import reachable
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.objects import named_parameters, walk
from jupyter_traindbg.agent.runs import FEW_STEPS


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


class Trainer:
    def __init__(self) -> None:
        self.model = small()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 5)


def names_of(agent: Agent, model: nn.Module) -> list[str]:
    names = agent.objects.find().names()
    return [names.get(id(p), "?") for p in model.parameters()]


EXPECTED = ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_locals_of_a_running_function(agent: Agent) -> None:
    model = small()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    assert names_of(agent, model) == EXPECTED
    assert agent.objects.optimizers() == [optimizer]
    assert agent.objects.schedulers(optimizer) == [scheduler]
    assert agent.objects.models() == [model]


def test_what_a_cell_that_was_run_twice_has_left_is_no_optimizer_of_the_training(agent: Agent) -> None:
    left = torch.optim.SGD(small().parameters(), lr=0.1)  # its model is gone
    model, waiting = small(), small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    later = torch.optim.SGD(waiting.parameters(), lr=0.1)  # a GAN's other one, say: its model is there
    assert set(agent.objects.find().optimizers()) == {left, optimizer, later}, (
        "a hung job: nobody knows which will step"
    )
    for _ in range(FEW_STEPS):
        optimizer.step()
    assert agent.objects.find().optimizers() == [optimizer, later]
    assert agent.objects.leftovers() == [left]
    left.step()
    assert left in agent.objects.find().optimizers(), "what steps is in use"


def test_attributes_of_a_trainer_that_the_collector_does_not_see(agent: Agent) -> None:
    trainer = Trainer()
    gc.freeze()
    assert names_of(agent, trainer.model) == EXPECTED
    assert agent.objects.schedulers(trainer.optimizer) == [trainer.schedule]


def _in_a_closure(trainer: Trainer) -> Callable[[], nn.Module]:
    return lambda: trainer.model


def _in_a_generator(trainer: Trainer) -> Iterator[int]:
    while trainer:
        yield 1


def test_in_a_closure_and_in_a_suspended_generator_with_a_frozen_collector(agent: Agent) -> None:
    closure = _in_a_closure(Trainer())
    generator = _in_a_generator(Trainer())
    next(generator)
    gc.freeze()
    agent.objects.find()
    assert len(agent.objects.optimizers()) == 2
    assert len(agent.objects.models()) == 2
    assert closure() in agent.objects.models()


HIDDEN: dict[str, Trainer] = {}


def test_in_another_modules_globals_by_the_collector(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("tests_somewhere_else")
    module.deep = [[[[[Trainer()]]]]]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests_somewhere_else", module)
    agent.objects.find()
    assert len(agent.objects.optimizers()) == 1
    assert [n for n, _ in named_parameters(agent.objects.models()[0])] == EXPECTED


def test_on_the_stack_of_a_hung_thread(agent: Agent) -> None:
    lock = threading.Lock()
    lock.acquire()

    def main() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with lock:
            del optimizer

    thread = threading.Thread(target=main)
    thread.start()
    try:
        time.sleep(0.05)
        gc.freeze()
        agent.objects.find()
        assert [type(o) for o in agent.objects.optimizers()] == [torch.optim.SGD]
        assert len(agent.objects.models()) == 1
    finally:
        lock.release()
        thread.join(10)


def test_one_model_of_two_in_a_frame_does_not_hide_the_other(agent: Agent) -> None:
    generator, critic = small(), small()
    holders = [torch.optim.SGD(generator.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.1)]
    x = torch.ones(1, 3)
    for model, optimizer in zip((generator, critic), holders, strict=True):
        model(x).sum().backward()
        optimizer.step()
    deep = [[[[[generator]]]]]
    kept = weakref.ref(generator)
    del generator, model
    agent.objects.find()
    names = agent.objects.names()
    assert agent.objects.optimizers() == holders
    assert [names.get(id(p)) for p in deep[0][0][0][0][0].parameters()] == EXPECTED
    assert kept() is not None


def test_a_model_made_after_the_first_look_is_found_when_its_optimizer_steps(agent: Agent) -> None:
    early = Trainer()
    agent.objects.find()
    late = [[[[[[Trainer()]]]]]]
    trainer = late[0][0][0][0][0][0]
    trainer.model(torch.ones(1, 3)).sum().backward()
    trainer.optimizer.step()
    assert names_of(agent, trainer.model) == EXPECTED
    assert agent.objects.optimizers()[0] is trainer.optimizer  # the one that steps comes first
    assert early.optimizer in agent.objects.optimizers()


def test_nothing_is_kept_alive(agent: Agent) -> None:
    trainer = Trainer()
    trainer.model(torch.ones(1, 3)).sum().backward()
    trainer.optimizer.step()
    agent.call("lr", {})
    agent.call("memory", {"deadline_s": 0.1})
    refs = [weakref.ref(trainer.model), weakref.ref(trainer.optimizer), weakref.ref(trainer.schedule)]
    del trainer
    deadline = time.monotonic() + 5
    while any(r() is not None for r in refs) and time.monotonic() < deadline:
        gc.collect()  # on a busy machine a look at the objects may still be going on
        time.sleep(0.01)
    assert [r() for r in refs] == [None, None, None]
    assert agent.objects.find().optimizers() == []
    assert agent.objects.names() == {}


class Big:
    pass


def test_reading_the_locals_of_a_frame_leaves_no_reference_on_it(agent: Agent) -> None:
    big = Big()
    ref = weakref.ref(big)
    list(reachable.from_frames())
    del big
    assert ref() is None  # a dict left on this frame would still hold it


def test_a_dict_of_locals_that_somebody_holds_is_not_emptied(agent: Agent) -> None:
    mine = "kept"
    held = locals()
    list(reachable.from_frames())
    assert held["mine"] == mine == "kept"


def test_variables_survive_a_search_under_a_tracer_written_in_python(agent: Agent) -> None:
    """The interpreter copies a traced frame's dict of locals back into the frame after each call of the tracer."""

    def tracer(frame, event, arg):
        list(reachable.from_frames())
        return tracer if frame.f_code.co_name == "outer" else None

    def inner(argument: int) -> int:
        return argument + 1

    def outer(argument: int) -> int:
        local = argument * 2
        return inner(local) + local + argument

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        answer = outer(5)
    finally:
        sys.settrace(before)
    assert answer == 26


class Explosive(dict):
    """Whatever of it runs is a bug."""

    def __getattribute__(self, name):
        raise AssertionError(name)

    def __iter__(self):
        raise AssertionError("iterated")

    def __eq__(self, other):
        raise AssertionError("compared")

    def __hash__(self):
        raise AssertionError("hashed")

    def values(self):
        raise AssertionError("values")


class WeirdMeta(type):
    def __eq__(cls, other):
        raise AssertionError("compared")

    __hash__ = None  # type: ignore[assignment]


class Weird(metaclass=WeirdMeta):
    pass


class Proxy:
    @property
    def __class__(self):
        raise AssertionError("asked for its class")

    @property
    def __dict__(self):
        raise RuntimeError("working outside of a context")


def test_user_classes_are_looked_through_without_running_their_code(agent: Agent) -> None:
    hidden = Trainer()
    values = [Explosive(trainer=hidden), Proxy(), Weird()]
    del hidden
    found = list(reachable.from_frames())
    assert any(type(v) is Trainer for v in found)
    assert reachable.from_gc([torch.optim.SGD])
    del values


def test_a_big_data_set_in_the_globals_does_not_use_up_the_search(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [[[object() for _ in range(64)] for _ in range(64)] for _ in range(64)]
    monkeypatch.setattr(sys.modules["__main__"], "traindbg_data_set", data, raising=False)
    trainer = Trainer()
    gc.freeze()
    agent.objects.find()
    assert agent.objects.optimizers() == [trainer.optimizer]


def test_activations_are_not_held_by_a_search(agent: Agent) -> None:
    activation = torch.ones(8)
    assert not any(isinstance(v, torch.Tensor) for v in reachable.from_frames())
    assert activation.sum() == 8


# --- names and wrappers --------------------------------------------------------------------------------------------


def test_names_are_those_of_torch(agent: Agent) -> None:
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    assert [n for n, _ in named_parameters(model)] == [n for n, _ in model.named_parameters()]
    assert [n for n, _ in walk(model)] == [n for n, _ in model.named_modules()]


def test_wrappers_leave_no_trace_in_the_names(agent: Agent) -> None:
    inner = small()
    compiled_layer = nn.Sequential(torch.compile(inner[0], backend="eager"), inner[1], inner[2])
    compiled = [torch.compile(m, backend="eager") for m in (inner, compiled_layer)]
    for wrapped in (*compiled, nn.DataParallel(inner), compiled_layer):
        assert [n for n, _ in named_parameters(wrapped)] == EXPECTED


def test_scripted_modules_have_names(agent: Agent) -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with pytest.warns(DeprecationWarning):
                self.scripted = torch.jit.script(small())

    assert [n for n, _ in named_parameters(Holder())] == [f"scripted.{n}" for n in EXPECTED]


def test_tied_weights_have_their_first_name(agent: Agent) -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert agent.objects.find().names()[id(model[0].weight)] == "0.weight"
    del optimizer


class Wrapper(torch.optim.Optimizer):
    """As accelerate does it: an Optimizer by class, without Optimizer's constructor, around the one that steps."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def step(self, closure=None):
        return self.optimizer.step(closure)


def test_a_wrapper_is_not_listed_beside_the_optimizer_inside(agent: Agent) -> None:
    trainer = Trainer()
    wrapper = Wrapper(trainer.optimizer)
    assert agent.objects.find().optimizers() == [trainer.optimizer]
    trainer.schedule.optimizer = wrapper
    assert agent.objects.schedulers(trainer.optimizer) == [trainer.schedule]


def test_members_of_compound_schedulers_are_left_to_it(agent: Agent) -> None:
    lr = torch.optim.lr_scheduler
    trainer = Trainer()
    del trainer.schedule
    gc.collect()
    chained = lr.ChainedScheduler([lr.ConstantLR(trainer.optimizer), lr.ExponentialLR(trainer.optimizer, 0.9)])
    whole = lr.SequentialLR(trainer.optimizer, [lr.ConstantLR(trainer.optimizer), chained], [5])
    plateau = lr.ReduceLROnPlateau(trainer.optimizer)
    agent.objects.find()
    assert set(agent.objects.schedulers(trainer.optimizer)) == {whole, plateau}


def test_a_stale_copy_of_the_model_is_not_a_model_of_the_job(agent: Agent) -> None:
    trainer, average = Trainer(), small()
    agent.objects.find()
    assert agent.objects.models() == [trainer.model]
    assert average is not None
