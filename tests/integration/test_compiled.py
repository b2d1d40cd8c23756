"""What the agent does to compiled models and steps: nothing is compiled again, none of our code is compiled."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agents import Ask
from small_trainings import SCALE, Job, Log, bits, first, index_of, layers, lr_of, make
from torch import nn

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.recorder import LOSS

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, from inside of the compiler


def test_compiled_model_and_compiled_step_are_not_compiled_again(agent: Agent) -> None:
    from torch._dynamo.utils import counters

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    agent.boundary.close()
    agent.recorder.close()
    agent.safepoints.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model, backend="eager")
        step = torch.compile(optimizer.step, backend="eager")

        def once() -> None:
            optimizer.zero_grad()
            compiled(torch.ones(2, 4)).mean().backward()
            step()

        for _ in range(3):
            once()
        before = {name: dict(counts) for name, counts in counters.items()}
        agent.hook_torch()
        for _ in range(3):
            once()
    after = {name: dict(counts) for name, counts in counters.items()}
    assert after["stats"].get("unique_graphs") == before["stats"].get("unique_graphs")
    assert after.get("graph_break") == before.get("graph_break")
    assert (agent.recorder.last or [])[LOSS] is not None


@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["float", "tensor"])
def test_a_compiled_step(agent: Agent, lr: Any) -> None:
    from torch._dynamo.utils import counters

    results = []
    for live in (True, False):
        optimizer = make(torch.optim.AdamW, lr=lr.clone() if isinstance(lr, torch.Tensor) else lr)
        step = torch.compile(optimizer.step, backend="eager")
        for number in range(5):
            if number == 2 and live:
                graphs = counters["stats"]["unique_graphs"]
                index = index_of(agent, optimizer)
                (row,) = agent.tuning.apply({**SCALE, "optimizers": index})
                assert ("compiles it again" in row["note"]) == isinstance(lr, float)
            if number == 2 and not live:
                optimizer.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] * 0.5
            step()
            assert not live or lr_of(optimizer) == pytest.approx(0.1)
        if live and not isinstance(lr, float):
            assert counters["stats"]["unique_graphs"] == graphs, "nothing is compiled again for a tensor"
        results.append(bits(optimizer))
    assert results[0] == results[1]


def test_none_of_our_code_is_compiled(agent: Agent) -> None:
    """All that runs in a step of ours, also what was imported after the agent had begun."""
    entries: Callable[[Any], list[Any]] = torch._C._dynamo.eval_frame._debug_get_cache_entry_list
    optimizer = make(torch.optim.SGD)
    step = torch.compile(lambda: (optimizer.step(lambda: 1.0), optimizer.step()), backend="eager")
    step()
    agent.call("tune", {"ident": "a", "change": SCALE})
    agent.tuning.apply({"setting": "clip_norm", "mode": "hold", "value": 0.5})
    agent.call("tune", {"ident": "b", "change": {"mode": "hold", "groups": [0]}, "after_step": 4})
    for _ in range(70):
        step()
    assert agent.call("tune", {"do": "outcome", "ident": "b"})["done"] is True
    functions = [
        f
        for name, module in list(sys.modules.items())
        if name.startswith("jupyter_traindbg.agent")
        for owner in [module, *(c for c in vars(module).values() if isinstance(c, type))]
        for f in vars(owner).values()
        if isinstance(f, types.FunctionType) and f.__module__ == name
    ]
    codes = [f.__code__ for f in functions]
    codes += [c for code in codes for c in code.co_consts if isinstance(c, types.CodeType)]
    assert len(codes) > 200
    assert [c.co_name for c in codes if entries(c)] == []


def test_a_compiled_model_is_seen_from_outside_and_not_compiled_again(agent: Agent, ask_while: Ask) -> None:
    from torch._dynamo.utils import counters

    job = Job(layers(Log()))
    job.called = torch.compile(job.model, backend="eager")
    job.step()
    graphs = counters["stats"]["unique_graphs"]
    answer = first(job, agent, ask_while)
    assert (answer["module"], answer["kind"]) == ("OptimizedModule", "OptimizedModule")
    assert "compiled" in answer["note"]
    assert counters["stats"]["unique_graphs"] == graphs


def test_a_model_compiled_in_place_says_so(agent: Agent, ask_while: Ask) -> None:
    job = Job(layers(Log()))
    job.model.compile(backend="eager")
    answer = first(job, agent, ask_while)
    assert answer["module"] is None
    assert "compiled" in answer["note"]


def test_with_compiled_layers_the_others_are_still_seen(agent: Agent, ask_while: Ask) -> None:
    job = Job(nn.Sequential(torch.compile(nn.Linear(4, 4), backend="eager"), Log(), nn.Linear(4, 1)))
    answer = first(job, agent, ask_while)
    assert answer["module"] == "1"
    assert "compiled" in answer["note"]
