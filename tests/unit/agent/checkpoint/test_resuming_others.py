"""What a checkpoint holds besides model and optimizer is matched with what the program has built, or refused before anything is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from checkpointing import Client
from resumable_jobs import seal
from torch import nn

import traindbg
from jupyter_traindbg.errors import UsageError


class Best:
    def __init__(self, model: Any, value: float = 0.0) -> None:
        self.model, self.value, self.moments = model, value, [torch.zeros(2)]

    def state_dict(self) -> Any:
        return {"model": self.model.state_dict(), "value": self.value, "moments": self.moments}

    def load_state_dict(self, state: Any) -> None:
        self.model.load_state_dict(state["model"])
        self.value, self.moments = state["value"], state["moments"]


class Parts:
    """A model, its optimizer, two teachers and what was best."""

    def __init__(self, value: float) -> None:
        self.model = nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.best = Best(self.model, value)


@pytest.fixture
def checkpoint(client: Client) -> tuple[Parts, Path]:
    parts = Parts(0.25)
    parts.model(torch.randn(2, 3)).sum().backward()
    parts.optimizer.step()
    first, second, best = parts.first, parts.second, parts.best
    client.save()
    client.agent.stop()
    assert (first, second, best) == (parts.first, parts.second, parts.best)
    seal(client.directory)
    return parts, client.directory


def values(parts: Parts) -> list[Any]:
    return [parts.best.value, *(p.clone() for m in (parts.model, parts.first, parts.second) for p in m.parameters())]


def unchanged(parts: Parts, before: list[Any]) -> bool:
    now = values(parts)
    return now[0] == before[0] and all(torch.equal(a, b) for a, b in zip(now[1:], before[1:], strict=True))


def test_by_name(checkpoint: tuple[Parts, Path]) -> None:
    saved, directory = checkpoint
    fresh = Parts(9.0)
    others = {"second": fresh.second, "best": fresh.best, "first": fresh.first}
    resumed = traindbg.resume(directory, model=fresh.model, optimizer=fresh.optimizer, others=others)
    assert unchanged(fresh, values(saved))
    assert fresh.best.moments[0] is not saved.best.moments[0]
    assert not [note for note in resumed.notes if "not given" in note]


def test_by_class_where_there_is_one(checkpoint: tuple[Parts, Path]) -> None:
    _, directory = checkpoint
    fresh = Parts(9.0)
    resumed = traindbg.resume(directory, model=fresh.model, others=fresh.best)
    assert fresh.best.value == 0.25
    assert [note for note in resumed.notes if "not given" in note] == [
        "first (Linear) was saved and not given: it is as your script built it (`others={'first': ...}`)",
        "second (Linear) was saved and not given: it is as your script built it (`others={'second': ...}`)",
    ]


REFUSED = {
    "no such name": (lambda p: {"third": p.first}, "the checkpoint has no 'third' besides its model and optimizer"),
    "another class": (lambda p: {"first": p.best}, "the checkpoint's first is a Linear, not a Best"),
    "no such class": (lambda p: [nn.Conv1d(1, 1, 1)], "the checkpoint has no Conv1d besides its model and optimizer"),
    "which of them": (lambda p: [p.first], "the checkpoint has 2 of class Linear: first, second"),
    "two for one": (lambda p: [p.best, p.best], "several Best were given and the checkpoint has one: best"),
    "another shape": (lambda p: {"first": nn.Linear(2, 3)}, "weight is 3x2 here and 2x2 there"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_is_changed(checkpoint: tuple[Parts, Path], case: str) -> None:
    _, directory = checkpoint
    given, why = REFUSED[case]
    fresh = Parts(9.0)
    before = values(fresh)
    with pytest.raises(UsageError) as told:
        traindbg.resume(directory, model=fresh.model, optimizer=fresh.optimizer, others=given(fresh))
    assert why in str(told.value)
    assert unchanged(fresh, before)


def test_a_state_with_the_models_in_it_wants_the_model(checkpoint: tuple[Parts, Path]) -> None:
    _, directory = checkpoint
    fresh = Parts(9.0)
    before = values(fresh)
    with pytest.raises(UsageError, match="the state of best has the model's in it"):
        traindbg.resume(directory, others={"best": fresh.best, "first": fresh.first})
    assert unchanged(fresh, before)
