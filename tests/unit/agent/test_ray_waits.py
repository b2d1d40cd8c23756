"""Whose results a thread waits for, from the locals of ray's frames. Those are played here; real ones are in the integration tests."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jupyter_traindbg.agent.core import Agent

FILE = "/opt/lib/python3.11/site-packages/ray/_private/worker.py"
SOURCE = """
def get_objects(object_refs, timeout):
    entered.set(); left.wait(10)
def get(object_refs, timeout=None):
    get_objects(object_refs, timeout)
def wait(ray_waitables, num_returns, timeout):
    timeout = timeout if timeout is not None else 10**6
    entered.set(); left.wait(10)
"""
ACTOR, PLAIN = "e" * 24 + "01000000", "f" * 24 + "01000000"


class ObjectRef:
    def __init__(self, ident: str) -> None:
        self._ident = ident

    def hex(self) -> str:
        return self._ident

    def __repr__(self) -> str:
        raise AssertionError("a repr is called")


class Generator:
    def __init__(self, ref: ObjectRef) -> None:
        self._generator_ref = ref


def ref(actor: str) -> ObjectRef:
    return ObjectRef("a" * 16 + actor + "00000001")


@pytest.fixture(autouse=True)
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    raylet = types.ModuleType("ray._raylet")
    raylet.ObjectRef = ObjectRef  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray._raylet", raylet)


@contextmanager
def inside(function: str, *arguments: Any) -> Iterator[None]:
    entered, left = threading.Event(), threading.Event()
    names: dict[str, Any] = {"entered": entered, "left": left}
    exec(compile(SOURCE, FILE, "exec"), names)

    def of_the_user() -> None:
        names[function](*arguments)

    thread = threading.Thread(target=of_the_user, name="training")
    thread.start()
    try:
        assert entered.wait(5)
        yield
    finally:
        left.set()
        thread.join(5)


def waits(agent: Agent, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.call("ray_waits", params)["waits"]
    return found


def test_a_get_waits_for_all_of_its_references(agent: Agent) -> None:
    with inside("get", [ref(ACTOR), ref(PLAIN)], 5.0):
        (wait,) = waits(agent)
    assert (wait["call"], wait["thread"], wait["refs"], wait["num_returns"], wait["timeout_s"]) == (
        "ray.get",
        "training",
        2,
        2,
        5.0,
    )
    assert "test_ray_waits.py" in wait["where"]
    assert [r["actor_id"] for r in wait["waits_for"]] == [ACTOR, None]
    assert wait["waits_for"][0]["task_id"] == "a" * 16 + ACTOR


def test_a_wait_says_how_many_suffice(agent: Agent) -> None:
    with inside("wait", [ref(ACTOR), Generator(ref(ACTOR)), "no reference"], 2, None):
        (wait,) = waits(agent, most=5)
    assert (wait["call"], wait["refs"], wait["num_returns"], wait["timeout_s"]) == ("ray.wait", 3, 2, None)
    assert len(wait["waits_for"]) == 2


def test_of_many_only_some_are_listed(agent: Agent) -> None:
    with inside("get", [ref(ACTOR)] * 50):
        (wait,) = waits(agent, most=10)
    assert (wait["refs"], len(wait["waits_for"])) == (50, 10)


def test_without_ray_nobody_waits_for_it(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ray._raylet")
    assert waits(agent) == []
