"""Objects that are alive, counted by type, and tensors by shape, each once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agents import Ask
from torch import nn

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.probes import live_objects


class Sample:
    pass


class Metaclass(type):
    def __hash__(cls) -> int:
        raise AssertionError("no code of the program's runs")

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise AssertionError("no code of the program's runs")


class Sly(metaclass=Metaclass):
    pass


class Marked(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no code of the program's runs")


class Job:
    def __init__(self) -> None:
        self.model = nn.Linear(7, 5)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self) -> None:
        self.model(torch.ones(2, 7)).sum().backward()
        self.optimizer.step()


def counted(ask_while: Ask, job: Job) -> tuple[dict[str, int], list[dict[str, Any]]]:
    job.step()
    answer = ask_while(job.step, "live_objects", deadline_s=30.0)
    assert answer["where"] == "step"
    assert answer["objects"] == sum(n for _, n in answer["types"]) + sum(t["count"] for t in answer["tensors"])
    return dict(answer["types"]), answer["tensors"]


def of_shape(tensors: list[dict[str, Any]], *shape: int, kind: str = "Tensor") -> dict[str, Any]:
    (found,) = (t for t in tensors if (tuple(t["shape"]), t["type"]) == (shape, kind))
    return found


def test_objects_by_type_and_tensors_by_shape(agent: Agent, ask_while: Ask) -> None:
    samples = [Sample() for _ in range(123)]
    sly = [Sly() for _ in range(7)]
    losses = [torch.zeros(11, 3) for _ in range(9)]
    types, tensors = counted(ask_while, Job())
    assert types[f"{Sample.__module__}.Sample"] == len(samples)
    assert types[f"{__name__}.Sly"] == len(sly)
    assert types["dict"] > 10
    assert not [name for name in types if name.endswith(("Tensor", "Parameter"))]
    found = of_shape(tensors, 11, 3)
    assert (found["count"], found["bytes"], found["dtype"], found["device"]) == (9, 9 * 11 * 3 * 4, "float32", "cpu")
    assert found["requires_grad"] is False
    assert len(losses) == 9


def test_values_at_one_address_take_their_room_once(agent: Agent, ask_while: Ask) -> None:
    whole = torch.zeros(13, 17)
    views = [whole.detach() for _ in range(4)]
    _, tensors = counted(ask_while, Job())
    found = of_shape(tensors, 13, 17)
    assert (found["count"], found["bytes"]) == (1 + len(views), 13 * 17 * 4)


def test_odd_tensors_are_counted_and_none_of_their_code_runs(agent: Agent, ask_while: Ask) -> None:
    marked = torch.zeros(19, 3).as_subclass(Marked)
    meta, sparse = torch.zeros(23, 3, device="meta"), torch.eye(29).to_sparse()
    lazy = nn.LazyLinear(3)
    _, tensors = counted(ask_while, Job())
    kinds = {(t["type"], t["layout"], t["device"]) for t in tensors}
    assert ("Marked", "strided", "cpu") in kinds
    assert ("Tensor", "strided", "meta") in kinds
    assert ("Tensor", "sparse_coo", "cpu") in kinds
    assert any(kind.startswith("Uninitialized") for kind, _, _ in kinds)
    assert marked is not None
    assert meta is not None
    assert sparse is not None
    assert lazy is not None


def test_of_very_many_some_stand_for_all(agent: Agent, ask_while: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_objects, "MOST_OBJECTS", 1000)
    monkeypatch.setattr(live_objects, "MOST_TYPES", 3)
    monkeypatch.setattr(live_objects, "MOST_SHAPES", 0)
    samples = [Sample() for _ in range(5000)]
    job = Job()
    job.step()
    answer = ask_while(job.step, "live_objects", deadline_s=30.0)
    assert len(answer["types"]) == 4
    assert answer["types"][-1][0] == live_objects.OTHERS
    assert [t["type"] for t in answer["tensors"]] in ([], [live_objects.OTHERS])
    assert "one was looked at: the counts are estimates" in answer["note"]
    assert sum(n for _, n in answer["types"]) == pytest.approx(answer["objects"], rel=0.5)
    assert len(samples) == 5000


def test_a_process_that_stands_still_is_counted_where_it_stands(agent: Agent) -> None:
    job = Job()
    job.step()
    answer = agent.call("live_objects", {"deadline_s": 4.0})
    assert answer["where"] in ("idle", None)
    assert bool(answer["types"]) is (answer["where"] is not None)
    assert bool(answer["note"]) is (answer["where"] is None)
