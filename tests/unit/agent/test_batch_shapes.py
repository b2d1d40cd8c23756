"""What is in the next batches of a DataLoader, and how it is set up."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator
from typing import Any

import torch
from agents import Ask
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from jupyter_traindbg.agent.core import Agent


class Numbers(Dataset[Any]):
    def __init__(self, many: int = 80_000) -> None:
        self.many = many

    def __len__(self) -> int:
        return self.many

    def __getitem__(self, i: int) -> Any:
        return {"x": torch.full((3,), float(i)), "y": i}


class Encoding(UserDict[str, Any]):
    """As transformers has it."""


def encoded(items: list[Any]) -> Encoding:
    return Encoding(input_ids=torch.zeros(len(items), 5, dtype=torch.long), extra=[torch.ones(2), "a text"])


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.zeros(2)


class Job:
    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.batches = iter(loader)
        self.model = nn.Linear(1, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self) -> None:
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            next(self.batches)
        self.model(torch.ones(1, 1)).sum().backward()
        self.optimizer.step()


def seen(agent: Agent, ask_while: Ask, loader: DataLoader[Any], batches: int = 3) -> dict[str, Any]:
    job = Job(loader)
    job.step()
    answer = ask_while(job.step, "batch_shapes", batches=batches, deadline_s=30.0)
    assert agent.recorder.fetched == []
    assert agent.safepoints.failures == []
    return answer


def test_the_tensors_of_each_batch_by_name(agent: Agent, ask_while: Ask) -> None:
    answer = seen(agent, ask_while, DataLoader(Numbers(), batch_size=8))
    first, second, third = answer["batches"]
    assert first["tensors"] == [["x", [8, 3], "float32"], ["y", [8], "int64"]]
    assert (first["samples"], first["elements"], first["bytes"]) == (8, 32, 8 * 3 * 4 + 8 * 8)
    assert [b["batch"] for b in (second, third)] == [first["batch"] + 1, first["batch"] + 2]
    assert [b["step"] for b in (second, third)] == [first["step"] + 1, first["step"] + 2]
    (loader,) = (one for one in answer["loaders"] if one["dataset"] == "Numbers")
    assert (loader["batch_size"], loader["num_workers"], loader["length"], loader["sampler"]) == (
        8,
        0,
        10_000,
        "SequentialSampler",
    )
    assert (loader["prefetch_factor"], loader["pin_memory"], loader["persistent_workers"]) == (None, False, False)


def test_batches_of_other_kinds(agent: Agent, ask_while: Ask) -> None:
    answer = seen(agent, ask_while, DataLoader(Numbers(), batch_size=4, collate_fn=encoded))
    assert answer["batches"][0]["tensors"] == [["input_ids", [4, 5], "int64"], ["extra", [2], "float32"]]
    answer = seen(agent, ask_while, DataLoader(Stream(), batch_size=6))
    assert answer["batches"][0]["tensors"] == [["", [6, 2], "float32"]]
    assert answer["loaders"][answer["batches"][0]["loader"]]["length"] is None
    texts = seen(agent, ask_while, DataLoader(Numbers(), batch_size=2, collate_fn=lambda items: "a text"))
    assert (texts["batches"][0]["tensors"], texts["batches"][0]["samples"]) == ([], None)


def test_a_loader_that_gives_nothing_is_told_all_the_same(agent: Agent) -> None:
    job = Job(DataLoader(Numbers(), batch_size=5, num_workers=0))
    job.step()
    answer = agent.call("batch_shapes", {"deadline_s": 0.2})
    assert answer["batches"] == []
    assert str(answer["note"]).startswith("no batch was taken in ")
    assert {"dataset": "Numbers", "batch_size": 5}.items() <= answer["loaders"][0].items()
    assert agent.recorder.fetched == []


def test_a_pass_that_is_over_is_not_kept_alive(agent: Agent, ask_while: Ask) -> None:
    import gc
    import weakref

    job = Job(DataLoader(Numbers(40), batch_size=20))
    job.step()
    before = weakref.ref(job.batches)
    answer = ask_while(job.step, "batch_shapes", batches=6, deadline_s=30.0)
    assert {b["loader"] for b in answer["batches"]} == {0}, "one loader, whichever pass"
    assert len([one for one in answer["loaders"] if one["dataset"] == "Numbers"]) == 1
    gc.collect()
    assert before() is None
