"""The variables of the training thread's functions, as plain data; in a thread of this very process."""

from __future__ import annotations

import argparse
import collections
import datetime
import enum
import io
import json
import math
import os
import queue
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from cases import each
from torch import nn
from torch.utils.file_baton import FileBaton

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.probes import variables
from jupyter_traindbg.agent.values import LONGEST, MOST_ITEMS, Teller


class Color(enum.Enum):
    RED = 1


@dataclass
class Settings:
    depth: int = 3


class Trap:
    """Runs code of its own whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} of the user's is read")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __hash__(self) -> int:
        raise AssertionError("hashed")

    def __bool__(self) -> bool:
        raise AssertionError("its truth is asked for")

    def __len__(self) -> int:
        raise AssertionError("counted")

    __class__ = property(lambda self: 1 / 0)  # type: ignore[assignment]


class OwnBuffer(io.BytesIO):
    @property
    def raw(self) -> Any:
        raise AssertionError("asked")

    name = raw


class Engine:
    def __init__(self) -> None:
        self.args = argparse.Namespace(micro=4)
        self.trap = Trap()

    @property
    def secret(self) -> int:
        raise AssertionError("a property of the user's is called")


def told(value: Any) -> Any:
    answer = Teller().told(value)
    json.dumps(answer, allow_nan=False)
    return answer


@each("value", [None, True, 3, -(2**40), 0.5, "uid-17"])
def test_a_small_value_is_itself(value: Any) -> None:
    assert told(value) == value
    assert type(told(value)) is type(value)


@each(
    "value, expected",
    [
        ("x" * 500, {"is": "text", "type": "str", "words": "x" * LONGEST, "size": 500}),
        (Path("/tmp/a.lock"), {"is": "text", "type": "PosixPath", "words": "/tmp/a.lock"}),
        ([1, "a"], {"is": "items", "type": "list", "size": 2, "of": [1, "a"]}),
        ({"uid-17"}, {"is": "items", "type": "set", "size": 1, "of": ["uid-17"]}),
        (collections.deque([1]), {"is": "items", "type": "deque", "size": 1, "of": [1]}),
        ({"a": 1, 2: None}, {"is": "pairs", "type": "dict", "size": 2, "of": [("a", 1), (2, None)]}),
        ({(1, "bias"): 2, (Engine,): 3}, {"is": "pairs", "type": "dict", "size": 2, "of": [((1, "bias"), 2)]}),
        (math.nan, {"is": "other", "type": "float", "words": "nan"}),
        (2**70, {"is": "other", "type": "int", "words": "a large number"}),
        (told, {"is": "function", "type": "function", "words": "told"}),
        (Engine, {"is": "function", "type": "type", "words": "Engine"}),
        (json, {"is": "module", "type": "module", "words": "json"}),
        (Color.RED, {"is": "other", "type": "Color", "words": "Color.RED"}),
        (datetime.timedelta(hours=2), {"is": "other", "type": "timedelta", "words": "2:00:00"}),
        (queue.Queue(3), {"is": "queue", "type": "Queue", "size": 0, "most": 3}),
        (threading.Event(), {"is": "event", "type": "Event", "set": False}),
        (Future(), {"is": "other", "type": "Future", "words": "Future, pending"}),
        (threading.Lock(), {"is": "other", "type": "lock", "words": "Lock, free"}),
        (torch.zeros(2), {"is": "other", "type": "Tensor", "words": "Tensor"}),
        (SimpleNamespace(a=1), {"is": "object", "type": "SimpleNamespace", "file": types.__file__, "of": [("a", 1)]}),
        (Settings(), {"is": "object", "type": "Settings", "file": __file__, "of": [("depth", 3)]}),
    ],
)
def test_anything_else_says_what_it_is(value: Any, expected: dict[str, Any]) -> None:
    assert told(value) == expected


@each("mode", ["w", "a+", "rb", "r+b", "wb"])
def test_an_open_file_is_told_by_its_name(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "manifest.txt"
    path.touch()
    with path.open(mode) as file:
        assert told(file) == {"is": "text", "type": type(file).__name__, "words": str(path)}
    assert told(file)["words"] == str(path), "closed"


def test_a_file_of_the_programs_own_making_is_not_asked() -> None:
    file = io.TextIOWrapper(OwnBuffer())
    assert told(file) == {"is": "other", "type": "TextIOWrapper", "words": "TextIOWrapper"}
    file.detach()
    assert told(file)["is"] == "other"
    with os.fdopen(os.dup(0), "rb") as numbered:
        assert told(numbered)["is"] == "other", "it has a number and no name"


def test_no_code_of_a_value_runs() -> None:
    answer = told([Trap()])
    assert answer["of"] == [{"is": "object", "type": "Trap", "file": __file__, "of": []}]


def test_an_object_of_the_program_has_its_attributes_and_runs_nothing() -> None:
    answer = told(Engine())
    attributes = dict(answer["of"])
    assert answer["file"] == __file__
    assert attributes["args"]["of"] == [("micro", 4)]
    assert attributes["trap"]["type"] == "Trap"


def test_a_module_of_torch_has_what_the_program_put_there() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.order = (1, 2)
            self.inner = nn.Linear(2, 2)

    assert [name for name, _ in told(Block())["of"]] == ["training", "order"]


def test_much_is_bounded_in_number_and_depth() -> None:
    deep: Any = [[[[1]]]]
    assert told(deep)["of"][0]["of"][0] == {"is": "items", "type": "list", "size": 1, "of": []}
    assert len(told(list(range(1000)))["of"]) == MOST_ITEMS
    teller = Teller(2)
    teller.told([1, 2, 3])
    assert teller.told([1, 2, 3]) == {"is": "items", "type": "list", "size": 3, "of": []}


def test_works_stores_and_operations_of_torch_say_what_they_are(tmp_path: Path) -> None:
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    try:
        done = torch.distributed.all_reduce(torch.zeros(1), async_op=True)
        assert done is not None
        done.wait()
        assert told(done) == {"is": "work", "type": "Work", "id": id(done), "op": "ALLREDUCE"}
        store = torch.distributed.distributed_c10d._get_default_store()
        assert told(store) == {"is": "store", "type": "PrefixStore"}
        operation = torch.distributed.P2POp(torch.distributed.isend, torch.zeros(1), 0, tag=7)
        assert told(operation) == {"is": "exchange", "type": "P2POp", "op": "isend", "peer": 0, "tag": 7}
    finally:
        torch.distributed.destroy_process_group()


# --- the probe -----------------------------------------------------------------------------------------------------

LIMIT = 17
Standing = Callable[..., dict[str, Any]]


@pytest.fixture
def standing(agent: Agent) -> Iterator[Standing]:
    """What the probe says while a thread, which passes for the training's, stands in a function that waits for an event."""
    release, threads = threading.Event(), []

    def ask(function: Callable[[threading.Event, threading.Event], object]) -> dict[str, Any]:
        there = threading.Event()
        thread = threading.Thread(target=function, args=(there, release), daemon=True)
        thread.start()
        threads.append(thread)
        assert there.wait(20)
        agent.safepoints.thread_id = thread.ident
        return variables.run(agent)

    yield ask
    release.set()
    for thread in threads:
        thread.join(20)


def poll(there: threading.Event, release: threading.Event) -> None:
    pending, uid = {"uid-17"}, "uid-17"
    limit = LIMIT
    there.set()
    release.wait(len(pending) * limit * 20 if uid else 0)


def outer(there: threading.Event, release: threading.Event) -> None:
    engine = Engine()
    poll(there, release)
    del engine


def test_a_name_of_ipythons_outputs_is_a_plain_variable_in_a_function(standing: Standing) -> None:
    def popping(there: threading.Event, release: threading.Event) -> None:
        _, last = (1, "bias"), 2
        there.set()
        release.wait(20)
        del last

    assert dict(standing(popping)["frames"][0]["variables"])["_"]["of"] == [1, "bias"]


def test_each_function_of_the_program_tells_its_variables(standing: Standing) -> None:
    frames = standing(outer)["frames"]
    names = [row["function"].rpartition(".")[2] for row in frames]
    inner = dict(frames[0]["variables"])
    assert names[:2] == ["poll", "outer"]
    assert all(row["file"] == __file__ for row in frames[:2])
    assert frames[1]["depth"] == frames[0]["depth"] + 1 > 0  # below it is threading's
    assert inner["pending"]["of"] == ["uid-17"]
    assert dict(frames[0]["globals"])["LIMIT"] == LIMIT
    assert dict(frames[1]["variables"])["engine"]["type"] == "Engine"
    json.dumps(frames, allow_nan=False)


def test_the_file_that_torchs_baton_waits_for_is_told_with_its_own_frame(standing: Standing, tmp_path: Path) -> None:
    baton = FileBaton(str(tmp_path / "lock"), wait_seconds=0.01)  # type: ignore[no-untyped-call]
    assert baton.try_acquire()

    def building(there: threading.Event, release: threading.Event) -> None:
        there.set()
        baton.wait()

    try:
        ends = time.monotonic() + 20
        while not (told := [row for row in standing(building)["frames"] if row["function"].endswith("wait")]):
            assert time.monotonic() < ends
        assert dict(told[0]["variables"]) == {"lock_file_path": str(tmp_path / "lock")}
    finally:
        baton.release()


class Unsayable(Exception):
    args = property(lambda self: 1 / 0)  # type: ignore[assignment]

    def __str__(self) -> str:
        raise AssertionError("asked for its words")


def retrying(there: threading.Event, release: threading.Event) -> None:
    try:
        raise Unsayable("CUDA out of memory", 3, Trap())
    except Unsayable:
        try:
            {}["retry"]
        except KeyError:
            there.set()
            release.wait(20)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="a thread's exception is told from Python 3.10 on")
def test_the_exceptions_in_whose_handlers_it_is_are_told(standing: Standing) -> None:
    inner, told = standing(retrying)["handled"]
    assert (inner["type"], inner["args"]) == ("KeyError", ["retry"])
    assert told["type"] == "Unsayable"
    assert told["args"][:2] == ["CUDA out of memory", 3]
    assert told["args"][2]["type"] == "Trap"
    file, line, function = told["at"]
    assert file == __file__
    assert "raise Unsayable(" in Path(file).read_text().splitlines()[line - 1]
    assert function.endswith("retrying")


def test_where_it_handles_none_there_is_none(standing: Standing) -> None:
    assert standing(poll)["handled"] == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="an instruction knows its columns from Python 3.11 on")
def test_the_expression_under_way_is_told(standing: Standing) -> None:
    row = standing(poll)["frames"][0]
    first, begins, last, ends = row["reach"]
    line = Path(__file__).read_text().splitlines()[first - 1]
    assert first == last == row["line"]
    assert line[begins:ends] == "release.wait(len(pending) * limit * 20 if uid else 0)"


def test_nothing_is_kept_of_what_was_read(standing: Standing, agent: Agent) -> None:
    seen: list[Any] = []

    def holding(there: threading.Event, release: threading.Event) -> None:
        engine = Engine()
        seen.append(weakref.ref(engine))
        there.set()
        release.wait(20)

    standing(holding)
    before = sys.getrefcount(seen[0]())
    variables.run(agent)
    after = sys.getrefcount(seen[0]())
    assert after == before


def test_without_a_training_thread_that_runs_there_is_nothing(agent: Agent) -> None:
    agent.safepoints.thread_id = 1
    assert variables.run(agent) == {"frames": [], "handled": []}
