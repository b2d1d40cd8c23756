"""Looks at the training thread over a window of steps: with their moments, steps and stacks, and nothing left behind."""

from __future__ import annotations

import gc
import sys
import threading
import time
from typing import Any

import pytest
import torch
from agents import Ask
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.evidence_slow import window


class Job:
    """A step that computes in Python, sleeps, and collects garbage."""

    def __init__(self) -> None:
        self.model = nn.Linear(8, 8)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(torch.ones(100_000, 8)), batch_size=4)
        self.batches = iter(self.loader)

    def step(self) -> None:
        (x,) = next(self.batches)
        self.model(x).sum().backward()
        self.optimizer.step()
        self.counts()
        time.sleep(0.01)
        gc.collect()

    def counts(self) -> int:
        return sum(n % 7 for n in range(400_000))


@pytest.fixture
def seen(ask_while: Ask) -> dict[str, Any]:
    job = Job()
    job.step()
    return ask_while(job.step, "slow", steps=5, least_s=0.5, window_s=30.0)


def test_looks_account_for_all_the_time_up_to_the_last_one(seen: dict[str, Any]) -> None:
    assert sum(look[2] for look in seen["looks"]) == pytest.approx(seen["looks"][-1][0], rel=0.05)
    assert seen["looks"][-1][0] <= seen["window_s"]
    assert [look[0] for look in seen["looks"]] == sorted(look[0] for look in seen["looks"])
    assert len(seen["records"]) >= 5, "whole steps"


def test_looks_know_their_place_and_step(seen: dict[str, Any]) -> None:
    told = window(3, 4711, seen)
    functions = {told.stacks[look.stack][0].function.rpartition(".")[2] for look in told.looks}
    assert "<genexpr>" in functions, "it is looked at while Python computes, and not behind it"
    assert {"clock_nanosleep", "nanosleep"} & {look.call for look in told.looks}
    steps = {look.step for look in told.looks}
    assert len(steps) >= 5
    assert steps & {step.step for step in told.steps}


def test_batches_loaders_and_collections_come_with_it(seen: dict[str, Any]) -> None:
    told = window(3, 4711, seen)
    assert told.batches[0].samples == 4
    assert told.loaders[0].num_workers == 0
    assert seen["collections"]["asked"] >= 5, "the program asks for them"
    began, took = seen["collections"]["pauses"][0]
    assert seen["began_s"] <= began <= seen["began_s"] + seen["window_s"]
    assert 0 < took < seen["window_s"]


def test_nothing_is_left_behind(agent: Agent, seen: dict[str, Any]) -> None:
    assert sys.getswitchinterval() == pytest.approx(0.005)
    assert agent.recorder.fetched == []
    assert seen["looks"]


def test_a_collection_of_pythons_own_is_none_that_was_asked_for(agent: Agent) -> None:
    from jupyter_traindbg.agent.collecting import Collections

    threshold = gc.get_threshold()
    gc.freeze()
    gc.collect()  # nothing is left that would have to grow by a quarter before Python looks through all of it
    try:
        with Collections() as collections:
            gc.set_threshold(10, 1, 1)
            kept = [[[n] for n in range(100)] for _ in range(2000)]
            assert len(kept) == 2000
    finally:
        gc.set_threshold(*threshold)
    report = collections.report()
    assert report["count"] > 0
    assert report["asked"] == 0


def test_where_no_step_comes_it_ends_at_its_deadline(agent: Agent) -> None:
    told: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: told.append(agent.call("slow", {"window_s": 0.3, "least_s": 0.1})))
    asking.start()
    asking.join(30)
    (answer,) = told
    assert answer["records"] == []
    assert answer["window_s"] >= 0.3
    assert answer["looks"]
