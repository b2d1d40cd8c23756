"""What is written down at boundaries: it is right, costs little, never reaches the training, and is gone afterwards."""

from __future__ import annotations

import gc
import io
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from jupyter_traindbg.agent import counters
from jupyter_traindbg.agent.boundary import AFTER_STEP, AS_FOUND, GENERATORS_AS_FOUND
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.safepoint import NEXT_BATCH


class Training:
    def __init__(self, model: nn.Module | None = None, make: Any = torch.optim.AdamW) -> None:
        self.model = model or nn.Linear(4, 1)
        self.optimizer = make(self.model.parameters(), lr=0.01)
        self.loader = DataLoader(TensorDataset(torch.rand(24, 4)), batch_size=4, shuffle=True)

    def step(self, x: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.model(x).square().mean().backward()
        self.optimizer.step()

    def run(self, each: Callable[[int], object] = lambda i: None) -> None:
        for i, (x,) in enumerate(self.loader):
            self.step(x)
            each(i)


def test_the_place_after_a_step_and_before_the_next_batch(agent: Agent) -> None:
    training = Training()
    seen: list[dict[str, Any]] = []

    def look(where: str) -> None:
        seen.append(agent.boundary.for_checkpoint())

    agent.safepoints.at_boundary.append(look)
    after: list[dict[str, Any]] = []
    training.run(lambda i: after.append(agent.boundary.for_checkpoint()))
    assert [s["where"] for s in after] == [AFTER_STEP] * 6
    assert all("scheduler.step()" in s["notes"][0] for s in after)
    assert [s["where"] for s in seen] == [NEXT_BATCH] * 6
    assert [s["notes"] for s in seen] == [[]] * 6
    assert [s["step"] for s in seen] == [s["step"] for s in after] == [1, 2, 3, 4, 5, 6]
    assert [s["loaders"][0]["batches"] for s in seen] == [1, 2, 3, 4, 5, 6]
    (entry,) = seen[0]["loaders"]
    assert (entry["dataset"], entry["sampler"], entry["batch_size"], entry["length"]) == (
        "TensorDataset",
        "RandomSampler",
        4,
        6,
    )
    assert entry["trained"]
    assert entry["begun_since"] == 0


def test_where_each_step_has_its_batch_the_generators_are_read_once_a_step(agent: Agent) -> None:
    """After the step they are read by whoever asks, and one who asks from outside is told what that means."""
    training = Training()
    read: list[str] = []
    written = agent.boundary._written

    def noted(step: int, time_s: float, where: str) -> Any:
        read.append(where)
        return written(step, time_s, where)

    agent.boundary._written = noted  # type: ignore[method-assign]
    passing = iter(training.loader)
    for _ in range(5):
        training.step(next(passing)[0])
    assert read == [AFTER_STEP, *[NEXT_BATCH] * 4], "that batches are fetched is not known at the first step"
    with ThreadPoolExecutor() as other:
        outside = other.submit(agent.boundary.for_checkpoint).result()
    own = agent.boundary.for_checkpoint()
    assert (own["step"], own["where"], own["loaders"][0]["batches"]) == (5, AFTER_STEP, 5)
    assert outside["notes"] == [*own["notes"], GENERATORS_AS_FOUND]
    assert torch.equal(own["rng"]["torch"], torch.get_rng_state())


def test_a_pass_that_begins_without_a_fetch_leaves_what_was_after_the_step(agent: Agent) -> None:
    """Making an iterator draws a seed, and may be where it hangs: it starts the workers."""
    training = Training()
    first = iter(training.loader)
    for _ in range(3):
        training.step(next(first)[0])
    expected = torch.get_rng_state()
    second = iter(training.loader)
    assert not torch.equal(torch.get_rng_state(), expected)
    state = agent.boundary.for_checkpoint()
    assert torch.equal(state["rng"]["torch"], expected)
    assert (state["where"], state["loaders"][0]["batches"], state["loaders"][0]["begun_since"]) == (AFTER_STEP, 3, 1)
    del first, second


def test_with_several_steps_a_batch_each_is_written_down(agent: Agent) -> None:
    """A GAN draws its noise between them."""
    one, other = Training(), Training()
    seen: list[tuple[torch.Tensor, dict[str, Any]]] = []
    for (x,) in one.loader:
        for training in (one, other):
            training.step(x)
            ended = torch.get_rng_state()
            torch.rand(3)
            seen.append((ended, agent.boundary.for_checkpoint()))
    for expected, state in seen[2:]:
        assert torch.equal(state["rng"]["torch"], expected)


def test_it_loads_without_executing_anything(agent: Agent) -> None:
    Training().run()
    buffer = io.BytesIO()
    torch.save(agent.boundary.for_checkpoint(), buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=True)["step"] == 6


def test_an_epoch_begun_since_the_boundary_is_counted(agent: Agent) -> None:
    """So the program's own epoch counter, read later, can be taken back."""
    training = Training()
    training.run()
    next(iter(training.loader))
    (entry,) = agent.boundary.for_checkpoint()["loaders"]
    assert (entry["batches"], entry["begun_since"]) == (6, 1)


def test_a_validation_loader_is_not_the_one_that_trains(agent: Agent) -> None:
    training = Training()
    validation = DataLoader(TensorDataset(torch.rand(8, 4)), batch_size=4)
    training.run(lambda i: [None for _ in validation] if i % 2 else None)
    entries = agent.boundary.for_checkpoint()["loaders"]
    assert {e["sampler"]: e["trained"] for e in entries} == {"RandomSampler": True, "SequentialSampler": False}


def test_a_program_without_a_loader_keeps_what_was_after_the_step(agent: Agent) -> None:
    """At the beginning of the next step its dropout has drawn."""
    training = Training()
    states = []
    agent.safepoints.at_boundary.append(lambda where: states.append(agent.boundary.for_checkpoint()))
    expected = []
    for _ in range(80):
        training.step(torch.rand(4, 4))
        expected.append(torch.get_rng_state())
    last = states[-1]
    assert (last["where"], last["notes"], last["loaders"]) == (AFTER_STEP, [], [])
    assert torch.equal(last["rng"]["torch"], expected[last["step"] - 1])


def test_as_found_where_no_step_was_seen(agent: Agent) -> None:
    training = Training()
    iterator = iter(training.loader)
    next(iterator)
    agent.boundary.close()  # it knows of no iterator
    found = agent.boundary.for_checkpoint()
    assert (found["step"], found["where"]) == (None, AS_FOUND)
    mine = [e for e in found["loaders"] if e["dataset"] == "TensorDataset" and e["length"] == 6]
    assert [e["batches"] for e in mine] == [1]
    assert mine[0]["recovered"]["seed"] is not None
    assert "the debugger came after the last step" in found["notes"][0]


@pytest.mark.parametrize("broken", ["_begun", "_began"])
def test_our_failures_stay_ours(agent: Agent, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def fails(*args: Any) -> Any:
        raise RuntimeError("ours")

    monkeypatch.setattr(agent.boundary, broken, fails)
    fails.__name__ = broken
    Training().run()
    assert agent.safepoints.failures == [f"boundary.{broken}: RuntimeError: ours"]
    agent.safepoints.failures.clear()


class Odd(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        raise TypeError("no length")

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.rand(4)


def test_a_dataset_without_a_length(agent: Agent) -> None:
    training = Training()
    for x, _ in zip(DataLoader(Odd(), batch_size=4, sampler=range(40)), range(3), strict=False):
        training.step(x)
    (entry,) = agent.boundary.for_checkpoint()["loaders"]
    assert (entry["batches"], entry["length"]) == (3, 10)


def test_nothing_is_left_after_close(agent: Agent) -> None:
    before = DataLoader.__iter__
    training = Training(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    loader = training.loader = DataLoader(
        training.loader.dataset, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1)
    )
    training.run()
    agent.boundary.look()
    training.run()
    watched = [weakref.ref(t) for t in (loader, loader.dataset, training.model, training.optimizer)]
    agent.stop()
    assert DataLoader.__iter__ is not before
    assert not hasattr(DataLoader.__iter__, "__wrapped__")
    assert vars(agent.boundary)["_loaders"] == []
    del training, loader
    gc.collect()
    assert [ref() for ref in watched] == [None] * 4


def test_two_loaders_are_not_kept_alive(agent: Agent) -> None:
    """A program that makes a loader for every epoch must not fill our memory."""
    training = Training()
    for _ in range(20):
        training.loader = DataLoader(training.loader.dataset, batch_size=4, shuffle=True)
        training.run()
    assert len(vars(agent.boundary)["_loaders"]) <= 2


# --- running statistics ---------------------------------------------------------------------------------------------------


def test_running_statistics_are_those_of_the_boundary(agent: Agent) -> None:
    norm = nn.BatchNorm1d(4)
    training = Training(nn.Sequential(norm, nn.Linear(4, 1)))
    training.run()
    agent.boundary.look()
    training.run()
    at_boundary = {name: b.clone() for name, b in norm.named_buffers()}
    training.model(torch.rand(4, 4))  # and there it hangs
    kept = agent.boundary.statistics.as_of_boundary()
    assert not torch.equal(norm.running_mean, at_boundary["running_mean"])
    assert len(kept) == 3
    for name, live in norm.named_buffers():
        assert torch.equal(kept[id(live)], at_boundary[name])
    assert agent.boundary.statistics.covers(training.model)
    assert not agent.boundary.statistics.covers(nn.BatchNorm1d(4))


def test_too_much_is_not_copied(agent: Agent) -> None:
    agent.boundary.statistics.watch([nn.BatchNorm1d(2**20)])
    agent.boundary.statistics.copy()
    assert agent.boundary.statistics.as_of_boundary() == {}


# --- the middle of a step -----------------------------------------------------------------------------------------------


def asked(agent: Agent) -> bool:
    """`updating`, as another thread sees it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(agent.boundary.updating).result(10)


class Own(torch.optim.AdamW):
    """An optimizer of the program's own, whose step is its own code."""

    inside: Callable[[], object] = staticmethod(lambda: None)

    def step(self, closure: Any = None) -> Any:
        type(self).inside()
        return super().step(closure)


def test_the_middle_of_an_update_is_told_from_a_closure(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(make=torch.optim.SGD)
    answers: list[bool] = []
    module = sys.modules["torch.optim.sgd"]

    def closure() -> torch.Tensor:
        answers.append(asked(agent))
        return training.model(torch.rand(4, 4)).square().mean()

    update = module.sgd

    def slow(*args: Any, **kwargs: Any) -> None:
        with ThreadPoolExecutor(1) as pool:  # of the standard library: no frame of this file is below the update
            answers.append(pool.submit(agent.boundary.updating).result(10))
        update(*args, **kwargs)

    in_torch = type(slow)(slow.__code__, {**globals(), "__name__": module.__name__}, "sgd", None, slow.__closure__)
    monkeypatch.setattr(module, "sgd", in_torch)
    training.step(torch.rand(4, 4))
    training.step(torch.rand(4, 4))
    assert answers == [True, True]
    answers.clear()
    training.optimizer.step(closure)
    assert answers == [False, True]
    assert not asked(agent)


def test_an_optimizer_of_the_programs_own_is_updating_in_its_step(agent: Agent) -> None:
    training = Training(make=Own)
    training.step(torch.rand(4, 4))
    answers: list[bool] = []
    Own.inside = staticmethod(lambda: answers.append(asked(agent)))
    try:
        training.step(torch.rand(4, 4))
    finally:
        Own.inside = staticmethod(lambda: None)
    assert answers == [True]
    assert not asked(agent)


def test_a_step_that_raised_is_over(agent: Agent) -> None:
    training = Training(make=Own)
    training.step(torch.rand(4, 4))
    Own.inside = staticmethod(lambda: 1 / 0)
    try:
        with pytest.raises(ZeroDivisionError):
            training.step(torch.rand(4, 4))
    finally:
        Own.inside = staticmethod(lambda: None)
    assert not asked(agent)


# --- counters and cost ------------------------------------------------------------------------------------------------------


def test_counters_are_small_integers_of_the_programs_functions() -> None:
    entered, leave = threading.Event(), threading.Event()

    def train() -> None:
        epoch, step, name, loss = 2, 17, "x", torch.ones(1)

        def batch() -> Iterator[int]:
            batch_idx = 4
            entered.set()
            leave.wait(10)
            yield batch_idx + epoch

        next(batch())
        del name, loss, step

    thread = threading.Thread(target=train)
    thread.start()
    entered.wait(10)
    try:
        found = counters.read(thread.ident)
    finally:
        leave.set()
        thread.join()
    assert found == {
        "test_boundary.py:batch:batch_idx": 4,
        "test_boundary.py:batch:epoch": 2,
        "test_boundary.py:train:epoch": 2,
        "test_boundary.py:train:step": 17,
    }
