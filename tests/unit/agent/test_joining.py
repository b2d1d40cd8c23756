"""What a rank on its way into its process group was told, read from the locals of torch's frames. Those are played here: real ones wait."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jupyter_traindbg.agent.core import Agent

LIB = "/opt/lib/python3.11/site-packages/torch/distributed"
STORE = "def _create_c10d_store(hostname, port, rank, world_size, timeout):\n    entered.set(); left.wait(10)\n"
INIT = "def init_process_group(backend, timeout, world_size, rank):\n    inner(backend)\n"


class Backend(str):
    def __str__(self) -> str:
        raise AssertionError("code of the job's is not called")

    __repr__ = __str__


@contextmanager
def inside(*, at_store: bool, world_size: int = -1, rank: int = -1) -> Iterator[None]:
    """A thread in torch's ``init_process_group``, in the constructor of the store or past it."""
    entered, left = threading.Event(), threading.Event()
    names: dict[str, Any] = {"entered": entered, "left": left}
    exec(compile(STORE, f"{LIB}/rendezvous.py", "exec"), names)
    store = names["_create_c10d_store"]

    def go_to_the_store(_: str) -> None:
        store("node-7", 29501, 3, 8, datetime.timedelta(minutes=5))

    def go_to_the_others(_: str) -> None:
        entered.set()
        left.wait(10)

    names["inner"] = go_to_the_store if at_store else go_to_the_others
    exec(compile(INIT, f"{LIB}/distributed_c10d.py", "exec"), names)
    arguments = (Backend("gloo"), datetime.timedelta(minutes=30), world_size, rank)
    thread = threading.Thread(target=names["init_process_group"], args=arguments)
    thread.start()
    try:
        assert entered.wait(5)
        yield
    finally:
        left.set()
        thread.join(5)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)


def test_the_frames_say_who_it_is_and_where_it_goes(agent: Agent) -> None:
    with inside(at_store=True):
        told = agent.call("joining", {})["joining"]
    assert told == {
        "rank": 3,
        "world_size": 8,
        "address": "node-7",
        "port": 29501,
        "backend": "gloo",
        "timeout_s": 1800.0,
        "serves": False,
    }
    assert type(told["backend"]) is str


def test_past_the_store_the_rest_is_taken_from_the_environment(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    with inside(at_store=False, world_size=4, rank=0):
        told = agent.call("joining", {})["joining"]
    assert (told["rank"], told["world_size"]) == (0, 4)
    assert (told["address"], told["port"], told["serves"]) == ("10.0.0.1", 29500, True)


def test_torchrun_listens_in_place_of_rank_0(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with inside(at_store=False, world_size=4, rank=0):
        assert agent.call("joining", {})["joining"]["serves"] is False


def test_a_process_that_joins_nothing_says_so(agent: Agent) -> None:
    assert agent.call("joining", {}) == {"joining": None, "making": None}


MAKES = {
    "_new_process_group_helper(group_name, global_ranks_in_group)": "_new_group_with_tag(group_name, ranks)",
    "new_group(group_name, ranks)": "",
    "split_group(group_name, my_group)": "",
}


@contextmanager
def makes(inner: str, outer: str, name: Any, ranks: Any) -> Iterator[None]:
    """A thread in torch's functions `inner` and `outer`, which are played here with the variables that the real ones have."""
    entered, left = threading.Event(), threading.Event()
    names: dict[str, Any] = {"entered": entered, "left": left}
    source = f"def {inner}:\n    entered.set(); left.wait(10)\n"
    if outer:
        source += f"def {outer}:\n    {inner.partition('(')[0]}(group_name, ranks)\n"
    exec(compile(source, f"{LIB}/distributed_c10d.py", "exec"), names)
    thread = threading.Thread(target=names[(outer or inner).partition("(")[0]], args=(name, ranks))
    thread.start()
    try:
        assert entered.wait(5)
        yield
    finally:
        left.set()
        thread.join(5)


@pytest.mark.parametrize("inner", MAKES)
def test_the_group_that_is_being_made(agent: Agent, inner: str) -> None:
    with makes(inner, MAKES[inner], Backend("7"), [1, 3]):
        told = agent.call("joining", {})
    assert told == {"joining": None, "making": {"name": "7", "ranks": [1, 3]}}
    assert type(told["making"]["name"]) is str


@pytest.mark.parametrize(
    ("name", "ranks"), [(None, [0]), ("7", None), ("7", ["a"]), ("7", range(3)), ("7", [0] * 20_000)]
)
def test_what_is_no_group_is_left_out(agent: Agent, name: Any, ranks: Any) -> None:
    with makes("new_group(group_name, ranks)", "", name, ranks):
        assert agent.call("joining", {})["making"] is None
