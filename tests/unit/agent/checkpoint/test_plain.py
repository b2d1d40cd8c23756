"""Whatever is in a training's state becomes plain data, or is left out with a word, and no user code runs."""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from cases import each

from jupyter_traindbg.agent.checkpoint.plain import LEFT_OUT, plain
from jupyter_traindbg.agent.saying import Said

Pair = namedtuple("Pair", "a b")


class Level(enum.IntEnum):
    HIGH = 3


class Hostile:
    def __repr__(self) -> str:
        raise AssertionError("never shown")

    __str__ = __reduce__ = __getstate__ = __iter__ = __repr__  # type: ignore[assignment]


class ShoutingDict(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise AssertionError("never called")


@each(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ("text", "text"),
        (np.float64(0.1), 0.1),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]),
        (Level.HIGH, 3),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(list, {"x": [1]}), {"x": [1]}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (Pair(1, (2, "x")), (1, (2, "x"))),
        (deque([1, 2]), [1, 2]),
        ({3}, [3]),
        (torch.Size([2, 3]), (2, 3)),
        ({1: {"a": [1, (2.0, None)]}}, {1: {"a": [1, (2.0, None)]}}),
    ],
    ids=str,
)
def test_known_kinds(value: Any, expected: Any) -> None:
    notes: list[Said] = []
    converted = plain(value, "it", notes.append)
    assert converted == expected
    assert type(converted) is type(expected)
    assert notes == []


def test_tensors_stay_themselves() -> None:
    tensor = torch.ones(2)
    assert plain({"t": [tensor]}, "it", pytest.fail)["t"][0] is tensor


def test_what_has_no_plain_form_is_left_out_by_name_and_never_shown() -> None:
    notes: list[Said] = []
    value = {"a": 1, "b": Hostile(), "c": [1, Hostile(), 3], "d": lambda: 0, "e": torch.float32, 1j: 2}
    assert plain(value, "state", notes.append) == {"a": 1, "c": [1, None, 3]}
    assert [str(n).split(" is left out")[0] for n in notes] == [
        "state.b",
        "state.c[1]",
        "state.d",
        "state.e",
        "a key of state",
    ]
    assert plain(Hostile(), "it", notes.append) is LEFT_OUT


def test_a_subclass_of_dict_is_read_without_its_own_methods() -> None:
    assert plain(ShoutingDict(a=1), "it", pytest.fail) == {"a": 1}


def test_what_contains_itself_ends() -> None:
    endless: dict[str, Any] = {"x": 1}
    endless["self"] = endless
    notes: list[Said] = []
    assert plain(endless, "it", notes.append) == {"x": 1}
    assert "contains itself" in notes[0]
    shared = [1]
    assert plain([shared, shared], "it", pytest.fail) == [[1], [1]]
