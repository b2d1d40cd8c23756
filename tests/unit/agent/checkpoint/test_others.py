"""What a training holds besides model and optimizer: what is found, how it is called, what is saved of it and what is said of the rest."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from checkpointing import Client
from torch import nn
from torch.optim.swa_utils import AveragedModel

from jupyter_traindbg.agent.checkpoint import arena
from jupyter_traindbg.agent.checkpoint.collect import Found
from jupyter_traindbg.agent.checkpoint.others import MOST_VALUES, SAVED_AS
from jupyter_traindbg.agent.saying import unpacked


class Counter:
    def __init__(self) -> None:
        self.seen: Any = 0

    def state_dict(self) -> Any:
        return {"seen": self.seen}

    def load_state_dict(self, state: Any) -> None:
        self.seen = state["seen"]


class Holder:
    """Its parts are saved with it."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self.model, self.optimizer, self.counter, self.average = model, optimizer, Counter(), AveragedModel(model)

    def state_dict(self) -> Any:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "counter": self.counter.state_dict(),
            "average": self.average.state_dict(),
        }

    def load_state_dict(self, state: Any) -> None:
        raise AssertionError("nobody loads it here")


class Wrapper:
    """Adds nothing."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def state_dict(self) -> Any:
        return self.inner.state_dict()

    def load_state_dict(self, state: Any) -> None:
        self.inner.load_state_dict(state)


class Unknown(Counter):
    def state_dict(self) -> Any:
        return {"all": sorted(globals())}


class OtherLRScheduler:
    def __init__(self, optimizer: Any) -> None:
        self.optimizer, self.last, self.hook = optimizer, 0, print

    def state_dict(self) -> Any:
        return {"last": self.last}

    def load_state_dict(self, state: Any) -> None:
        self.last = state["last"]

    def step(self) -> None:
        self.last += 1


def trained(*parameters: Any) -> tuple[nn.Module, Any]:
    model = nn.Sequential(nn.Linear(3, 2))
    optimizer = torch.optim.SGD([*model.parameters(), *parameters], lr=0.1)
    for _ in range(2):
        model(torch.randn(2, 3)).sum().backward()
        optimizer.step()
    return model, optimizer


def stay(*things: object) -> None:
    """For what only has to be there, in a variable of the test."""


def saved(client: Client) -> tuple[dict[str, Any], list[str]]:
    """By name what was saved besides, and the notes."""
    told = client.save()
    described = torch.load(client.directory / "training.pt", weights_only=True)["others"]
    files = {other["name"]: torch.load(client.directory / other["file"], weights_only=True) for other in described}
    notes = [str(unpacked(note)) for note in told["notes"]]
    return files, [note for note in notes if note.startswith("left out") or "kept as" in note]


def test_they_are_called_by_their_variables(client: Client) -> None:
    model, optimizer = trained()
    counter, things = Counter(), {"average": AveragedModel(model)}
    several = [Counter(), Counter()]
    stay(optimizer)
    stay(several)
    files, notes = saved(client)
    assert sorted(files) == ["counter", "several[0]", "several[1]", "things['average']"]
    assert files["counter"] == counter.state_dict()
    assert list(files["things['average']"]) == list(things["average"].state_dict())
    assert notes == []


def test_a_holder_is_saved_with_its_parts_and_a_wrapper_not_at_all(client: Client) -> None:
    model, optimizer = trained()
    holder, wrapper = Holder(model, optimizer), Wrapper(optimizer)
    stay(wrapper)
    files, notes = saved(client)
    assert sorted(files) == ["holder"]
    assert notes == []
    assert files["holder"]["model"] == {SAVED_AS: "model", "index": 0}
    assert files["holder"]["optimizer"] == {SAVED_AS: "optimizer", "index": 0}
    assert files["holder"]["counter"] == {"seen": 0}
    assert torch.equal(files["holder"]["average"]["module.0.weight"], holder.average.module[0].weight)


def test_modules_without_an_optimizer_and_those_that_are_none_of_it(client: Client) -> None:
    model, optimizer = trained()
    target, frozen = nn.Linear(3, 2), nn.BatchNorm1d(2, affine=False)
    criterion, activation, part = nn.CrossEntropyLoss(weight=torch.ones(2)), nn.ReLU(), model[0]
    stay(optimizer, criterion, activation, part)
    files, _ = saved(client)
    assert sorted(files) == ["frozen", "target"]
    assert torch.equal(files["target"]["weight"], target.weight)
    assert list(files["frozen"]) == list(frozen.state_dict())


def test_what_is_not_saved_is_named(client: Client) -> None:
    model, optimizer = trained()
    unknown, large, arrays = Unknown(), Counter(), Counter()
    large.seen = list(range(MOST_VALUES + 1))
    arrays.seen = [pytest.importorskip("numpy").zeros(3), {1}]
    stay(model, optimizer, unknown)
    files, notes = saved(client)
    assert list(files) == ["arrays"]
    assert files["arrays"] == {"seen": [[0.0, 0.0, 0.0], [1]]}
    assert [note for note in notes if note.startswith("left out: the state of unknown (Unknown)")]
    assert [note for note in notes if "the state of large (Counter)" in note and "more than 50,000 values" in note]
    assert "arrays (Counter) holds containers of its own (ndarray, set): kept as plain lists or dicts" in notes


def test_a_scheduler_of_another_library_is_one(client: Client) -> None:
    model, optimizer = trained()
    scheduler = OtherLRScheduler(optimizer)
    scheduler.step()
    stay(model)
    (told,) = client.agent.call("lr", {})["optimizers"]
    assert told["scheduler"] == "OtherLRScheduler"
    assert told["groups"][0]["next_lr"] == "OtherLRScheduler is not one of torch's own schedulers"
    files, notes = saved(client)
    assert files == {}
    assert notes == []
    training = torch.load(client.directory / "training.pt", weights_only=True)
    (one,) = training["schedulers"]
    assert one["class"].endswith(".OtherLRScheduler")
    assert one["state"] == {"last": 1}


def test_where_memory_is_short_model_and_optimizer_come_first(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = trained()
    teacher = nn.Linear(3000, 1000)
    stay(teacher)
    monkeypatch.setattr(arena, "available_bytes", lambda: arena.RESERVE_BYTES + (4 << 20))

    def step() -> None:
        for _ in range(2):
            model(torch.randn(2, 3)).sum().backward()
            optimizer.step()

    told = client.save(step)
    notes = [str(unpacked(note)) for note in told["notes"]]
    assert [note for note in notes if note.startswith("left out: teacher (Linear): a snapshot needs 0.01 GB")]
    assert not (client.directory / "other.pt").exists()
    assert (client.directory / "model.pt").exists()


def test_what_ranks_must_agree_on(client: Client) -> None:
    model, optimizer = trained()
    counter = Counter()
    stay(model, optimizer)
    first = Found(client.agent).others.digests()
    counter.seen = 1
    assert list(first) == ["counter"]
    assert Found(client.agent).others.digests() != first


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_every_number_that_is_none_is_seen(client: Client, dtype: Any, value: float) -> None:
    model, optimizer = trained()
    big = nn.Parameter(torch.ones(100_001).to(dtype))
    model.register_parameter("big", big)
    huge = nn.Parameter(torch.full((70_000,), 3e38), requires_grad=False)  # whose sum is infinite
    model.register_parameter("huge", huge)
    stay(optimizer)
    with torch.no_grad():
        big[100_000] = value
    client.begin()
    client.stage("take", directory=str(client.directory))
    told = client.written()
    assert told["not_finite"] == [{"part": "model", "tensors": 1, "of": 4, "first": "big"}]
