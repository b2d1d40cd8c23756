"""What the probe ``compiling`` tells of torch.compile: what is under way, and what was before."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.probes import compiling
from jupyter_traindbg.evidence_compiling import compilations

Backend = Callable[[Any, Sequence[Any]], Any]


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()  # type: ignore[no-untyped-call]
    yield
    torch._dynamo.reset()


def asking(agent: Agent, told: list[dict[str, Any]]) -> Backend:
    """A backend during whose work the agent is asked, by another thread as its server does."""

    def backend(graph: Any, inputs: Sequence[Any]) -> Any:
        asks = threading.Thread(target=lambda: told.append(agent.call("compiling", {})))
        asks.start()
        asks.join(30)
        return graph.forward

    return backend


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_what_is_under_way_is_told_with_its_function_how_often_and_why(agent: Agent) -> None:
    told: list[dict[str, Any]] = []
    compiled = torch.compile(scaled, backend=asking(agent, told), dynamic=False)
    compiled(torch.ones(3))
    compiled(torch.ones(4))
    first, second = (one["now"] for one in told)
    assert first["at"] == [__file__, scaled.__code__.co_firstlineno, "scaled"]
    assert (first["number"], first["reason"], first["wraps"]) == (1, "", "")
    assert second["number"] == 2
    assert "size mismatch at index 0. expected 3, actual 4" in second["reason"]
    assert all(one["now"]["seconds"] > 0 for one in told)
    assert json.loads(json.dumps(told)) == told


def test_what_was_compiled_before_is_told_with_what_it_took(agent: Agent) -> None:
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    compiled(torch.ones(3))
    compiled(torch.ones(4))
    answer = agent.call("compiling", {})
    assert answer["now"] is None
    assert [one["number"] for one in answer["past"]] == [1, 2]
    assert "expected 3, actual 4" in answer["past"][1]["reason"]
    first, second = compilations(answer).past
    assert first.at is not None
    assert (first.at.file, first.at.function, first.cached) == (__file__, "scaled", None)
    assert first.seconds is not None
    assert first.ago_s is not None
    assert first.ago_s >= first.seconds
    assert not first.is_of(second)
    assert first.is_of(first)


def test_of_a_model_of_a_librarys_the_model_is_told_and_not_the_function_around_it(agent: Agent) -> None:
    told: list[dict[str, Any]] = []
    torch.compile(nn.Sequential(nn.Linear(2, 2)), backend=asking(agent, told))(torch.ones(1, 2))
    now = compilations(told[-1]).now
    assert now is not None
    assert now.wraps == "Sequential"
    assert not now.is_of(now)


def test_secrets_in_the_reason_are_not_shown() -> None:
    key = "ghp_" + "a1B2" * 9
    one = {"at": None, "number": 2, "seconds": 1.0, "reason": f"L['token'] == '{key}'"}
    assert key not in compilations({"now": None, "past": [one]}).past[0].reason


def test_where_nothing_was_compiled_nothing_is_imported(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.convert_frame")
    assert agent.call("compiling", {}) == {"now": None, "past": []}
    assert "torch._dynamo.convert_frame" not in sys.modules


def test_what_torch_does_not_tell_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other versions have other fields, or none."""
    monkeypatch.setattr(torch._dynamo.utils, "_compilation_metrics", [object()])
    assert compiling._past() == [
        {"at": None, "number": None, "reason": "", "seconds": None, "cached": None, "ago_s": None}
    ]
