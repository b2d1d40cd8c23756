"""Plain values of the running code: attributes and variables, and never code of the user's."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_traindbg.agent.core import Agent


class Trap:
    def __repr__(self) -> str:
        raise AssertionError("a repr of the user's is called")

    __str__ = __eq__ = __len__ = __repr__  # type: ignore[assignment]

    def __hash__(self) -> int:
        return 0


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError(f"the user's metaclass is asked for {name}")


class Engine(metaclass=Meta):
    __slots__ = ("moves", "unset")

    def __init__(self) -> None:
        self.moves = 7


class Collector:
    rate = 2.5

    def __init__(self) -> None:
        self.games, self.name, self.done, self.none = 3, "x" * 200, True, None
        self.trap, self.engine, self.stats = Trap(), Engine(), {"won": 2, "by": {"points": 1.5}}

    @property
    def score(self) -> int:
        raise AssertionError("a property of the user's is called")

    def __getattr__(self, name: str) -> int:
        raise AssertionError("an attribute is made up by the user's code")


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Collector:
    """Ray's own record of the actor in this process, played."""

    class ActorID:
        def hex(self) -> str:
            return "ab" * 16

    class Worker:
        actors: dict[Any, Any]

    instance = Collector()
    worker = Worker()
    worker.actors = {ActorID(): instance}
    module = types.ModuleType("ray._private.worker")
    module.global_worker = worker  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray._private.worker", module)
    return instance


@pytest.fixture
def at_work() -> Iterator[None]:
    entered, left = threading.Event(), threading.Event()

    def train() -> None:
        step, total = 41, {"seen": 10}
        entered.set()
        left.wait(20)
        del step, total

    thread = threading.Thread(target=train)
    thread.start()
    assert entered.wait(5)
    yield
    left.set()
    thread.join(5)


def asked(agent: Agent, *names: str) -> dict[str, Any]:
    answer: dict[str, Any] = agent.call("counters", {"names": list(names)})
    return answer


def test_attributes_of_the_actor_that_are_plain_values(agent: Agent, actor: Collector) -> None:
    names = ("games", "done", "none", "rate", "engine.moves", "stats.won", "stats.by.points")
    answer = asked(agent, *(f"self.{name}" for name in names))
    assert answer["actor"] == {"class": "Collector", "actor_id": "ab" * 16}
    values = {name: answer["values"][f"self.{name}"]["value"] for name in names}
    assert values == {
        "games": 3,
        "done": True,
        "none": None,
        "rate": 2.5,
        "engine.moves": 7,
        "stats.won": 2,
        "stats.by.points": 1.5,
    }
    assert asked(agent, "self.name")["values"]["self.name"]["value"] == "x" * 80


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("self.trap", "of class Trap"),
        ("self.score", "no plain attribute score"),
        ("self.made_up", "no plain attribute made_up"),
        ("self.engine.unset", "no plain attribute unset"),
        ("self.stats.lost", "no plain attribute lost"),
        ("self.games.real", "no plain attribute real"),
        ("nowhere", "there is no nowhere"),
        ("", "there is no"),
    ],
)
def test_what_is_no_plain_value_is_said_to_be_none_and_runs_no_code(
    agent: Agent, actor: Collector, name: str, why: str
) -> None:
    assert why in asked(agent, name)["values"][name]["missing"]


def test_variables_of_the_users_functions_where_there_is_no_actor(agent: Agent, at_work: None) -> None:
    answer = asked(agent, "step", "total.seen")
    assert answer["actor"] is None
    assert answer["values"]["step"]["value"] == 41
    assert answer["values"]["total.seen"]["value"] == 10
    assert "test_counters.py" in answer["values"]["step"]["from"]


def test_our_own_frames_are_nobodys_variables(agent: Agent) -> None:
    assert "missing" in asked(agent, "listener")["values"]["listener"]
