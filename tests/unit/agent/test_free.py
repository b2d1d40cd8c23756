"""Memory goes back at a boundary; gradients only when they have been used; a job that computes is not touched."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from agents import Ask
from torch import nn
from torch.utils.data import DataLoader

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.refused import Refused

MIB = 1 << 20


class Job:
    def __init__(self) -> None:
        self.model = nn.Linear(64, 64)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0)
        self.batches = iter(())
        self.seen: list[bool] = []

    def step(self) -> None:
        """One iteration with a loader; whether gradients of the last one were still there."""
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(DataLoader(torch.ones(8, 64), batch_size=2))  # type: ignore[arg-type]
            batch = next(self.batches)
        self.seen.append(self.model.weight.grad is not None)
        self.model(batch).sum().backward()
        self.optimizer.step()

    def step_without_loader(self) -> None:
        self.model(torch.ones(2, 64)).sum().backward()
        self.optimizer.step()
        self.seen.append(self.model.weight.grad is not None)
        self.optimizer.zero_grad()


class Garbage:
    def __init__(self) -> None:
        self.me, self.big = self, torch.ones(32 * MIB // 4)


def test_at_a_boundary_on_the_training_thread(agent: Agent, ask_while: Ask) -> None:
    job = Job()
    job.step()
    gc.collect()
    gc.disable()
    try:
        garbage = Garbage()
        gone = weakref.ref(garbage)
        where: list[int] = []
        weakref.finalize(garbage, lambda: where.append(threading.get_ident()))
        del garbage
        answer = ask_while(job.step, "free")
    finally:
        gc.enable()
    assert gone() is None
    assert where == [threading.get_ident()]
    assert answer["where"] == "between two iterations, on the training thread"
    assert answer["collected"] >= 1
    assert answer["rss_before_bytes"] - answer["rss_after_bytes"] > 24 * MIB
    assert answer["cuda_reserved_before_bytes"] is None
    assert answer["gradients_dropped"] is False
    assert answer["note"] == ""
    assert answer["took_s"] > 0
    assert all(job.seen[1:]), "nobody touched the gradients"


def test_gradients_are_dropped_on_request_when_the_step_has_used_them(agent: Agent, ask_while: Ask) -> None:
    job = Job()
    job.step()
    answer = ask_while(job.step, "free", zero_grad=True)
    job.step()
    assert answer["gradients_dropped"] is True
    assert job.seen.count(False) == 2, "the first iteration has none, and one after ours"


def test_gradients_of_the_next_step_are_not_dropped(agent: Agent, ask_while: Ask) -> None:
    job = Job()
    answer = ask_while(job.step_without_loader, "free", zero_grad=True)
    assert answer["gradients_dropped"] is False
    assert "without a DataLoader" in answer["note"]
    assert all(job.seen)


def test_a_job_that_stands_still(agent: Agent) -> None:
    job = Job()
    job.step()
    answer = agent.call("free", {"zero_grad": True, "wait_s": 0.3})
    assert answer["where"] == "on the agent's thread, as the job stands still"
    assert answer["gradients_dropped"] is False
    assert "gradients were left" in answer["note"]
    assert job.model.weight.grad is not None


def test_a_job_that_computes_without_steps_is_left_alone(agent: Agent) -> None:
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    busy = threading.Thread(target=compute)
    busy.start()
    try:
        with pytest.raises(Refused, match=r"came to no end of an iteration in 0\.3 s"):
            agent.call("free", {"wait_s": 0.3})
    finally:
        stop.set()
        busy.join(10)
