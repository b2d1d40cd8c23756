"""What the agent does to compiled models and steps: nothing is compiled again, none of our code is, what it reads is as if nothing were."""

from __future__ import annotations

import copy
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agents import Ask
from checkpointing import Client, good
from small_trainings import SCALE, Job, Log, bits, first, index_of, layers, lr_of, make
from torch import nn

import jupyter_traindbg
from jupyter_traindbg.agent import safepoint
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
    for live in (False, True):  # in force until released: also on one that takes its place
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


# --- gradients and checkpoints of what really ran compiled -----------------------------------------------------------

BACKEND = "aot_eager"
"""Also the backward pass is a graph then; inductor would only take longer."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.below, self.norm, self.above = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.above(torch.tanh(self.norm(self.below(x))))
        return out


def plain(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net()


def whole(model: nn.Module) -> nn.Module:
    compiled: Any = torch.compile(model, backend=BACKEND)
    return compiled


def by_layers(model: Net) -> nn.Module:
    model.below, model.above = whole(model.below), whole(model.above)
    return model


def in_place(model: Net) -> nn.Module:
    model.compile(backend=BACKEND)
    return model


WAYS = pytest.mark.parametrize("compiled", [whole, by_layers, in_place])


def loss_of(model: nn.Module, step: int) -> torch.Tensor:
    batch = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
    return model(batch).square().mean()


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, numbers: range) -> list[str]:
    """The losses, as hex."""
    losses = []
    for number in numbers:
        optimizer.zero_grad()
        loss = loss_of(model, number)
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    return losses


@WAYS
def test_gradients_of_a_compiled_model_are_those_of_an_uncompiled_copy(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, compiled: Callable[[Net], nn.Module]
) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setattr(safepoint, "IDLE_WINDOW_S", 0.02)
    inner = plain()
    reference = copy.deepcopy(inner)
    model = compiled(inner)
    before = counters["stats"]["unique_graphs"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of(model, 0).backward()
    graphs = counters["stats"]["unique_graphs"]
    assert graphs > before, "it really is compiled"
    answer = agent.call("grads", {"deadline_s": 0.02, "detail": True})
    assert counters["stats"]["unique_graphs"] == graphs
    loss_of(reference, 0).backward()
    wanted = {name: p.grad for name, p in reference.named_parameters() if p.grad is not None}
    assert [g["name"] for g in answer["grads"]] == list(wanted)
    for got in answer["grads"]:
        assert got["norm"] == pytest.approx(float(wanted[got["name"]].norm()), rel=1e-5, abs=1e-7)
        assert got["nan_count"] == 0
    total = sum(float(grad.square().sum()) for grad in wanted.values()) ** 0.5
    assert answer["total_norm"] == pytest.approx(total, rel=1e-5)
    del optimizer


@WAYS
def test_a_checkpoint_of_a_compiled_model_has_its_plain_names_and_goes_on_the_same(
    client: Client, compiled: Callable[[Net], nn.Module]
) -> None:
    """In a model that is compiled anew, and without any compiler."""
    inner = plain()
    model = compiled(inner)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    steps(model, optimizer, range(3))
    client.save()
    good(client.directory)
    saved = torch.load(client.directory / "model.pt", weights_only=True)
    assert list(saved) == list(plain().state_dict())
    assert all(torch.equal(saved[name.replace("_orig_mod.", "")], value) for name, value in inner.state_dict().items())
    after = steps(model, optimizer, range(3, 6))
    client.agent.stop()
    fresh = compiled(plain(seed=9))
    fresh_optimizer = torch.optim.AdamW(fresh.parameters(), lr=0.5)
    jupyter_traindbg.resume(client.directory, model=fresh, optimizer=fresh_optimizer)
    assert steps(fresh, fresh_optimizer, range(3, 6)) == after
    uncompiled = plain(seed=9)
    uncompiled.load_state_dict(saved)
    uncompiled_optimizer = torch.optim.AdamW(uncompiled.parameters(), lr=0.5)
    uncompiled_optimizer.load_state_dict(torch.load(client.directory / "optimizer.pt", weights_only=True))
    losses = steps(uncompiled, uncompiled_optimizer, range(3, 6))
    assert [float.fromhex(x) for x in losses] == pytest.approx([float.fromhex(x) for x in after], rel=1e-5)
