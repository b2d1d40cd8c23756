"""Who holds what, in bytes, each storage once."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_traindbg.agent import safepoint
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.probes import memory


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing steps here: whether the process stands still need not be looked at for long."""
    monkeypatch.setattr(safepoint, "IDLE_WINDOW_S", 0.02)


def sizes(agent: Agent) -> dict[str, int]:
    answer: dict[str, Any] = agent.call("memory", {"deadline_s": 0.1})
    return {kind: by_device.get("cpu", 0) for kind, by_device in answer["sizes"].items()}


def test_parameters_gradients_state_and_buffers(agent: Agent) -> None:
    model = nn.Sequential(nn.Linear(100, 50), nn.BatchNorm1d(50))
    optimizer = torch.optim.Adam(model.parameters())
    elements = 100 * 50 + 50 + 50 + 50
    assert sizes(agent) == {
        "parameters": elements * 4,
        "gradients": 0,
        "optimizer": 0,
        "buffers": 50 * 8 + 8,
        "earlier": 0,
    }
    model(torch.randn(4, 100)).sum().backward()
    optimizer.step()
    held = sizes(agent)
    assert held["gradients"] == elements * 4
    assert held["optimizer"] == elements * 8 + 4 * 4  # two moments, and a step count for each of four parameters
    assert held["parameters"] == elements * 4


def test_tied_weights_and_views_of_one_storage_count_once(agent: Agent) -> None:
    flat = torch.zeros(1000)
    model = nn.Module()
    model.one = nn.Parameter(flat[:400].view(20, 20))
    model.two = nn.Parameter(flat[400:])
    model.tied = model.one
    model.one.grad = torch.zeros(1, 1).expand(20, 20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert sizes(agent) == {"parameters": 4000, "gradients": 4, "optimizer": 0, "buffers": 0, "earlier": 0}
    del optimizer


def test_state_in_lists_sparse_gradients_and_frozen_parameters(agent: Agent) -> None:
    model = nn.Linear(10, 10)
    model.bias.requires_grad_(False)
    optimizer = torch.optim.LBFGS([model.weight], max_iter=3, history_size=5)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 10)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    held = sizes(agent)
    history = optimizer.state[model.weight]
    assert len(history["old_dirs"]) >= 1
    assert held["optimizer"] >= (len(history["old_dirs"]) + len(history["old_stps"])) * 400
    assert held["parameters"] == 440


def test_sparse_gradients_count_what_they_store(agent: Agent) -> None:
    model = nn.Embedding(1000, 8, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters())
    model(torch.tensor([1, 2, 3])).sum().backward()
    assert sizes(agent)["gradients"] == 3 * 8 * 4 + 3 * 8
    del optimizer


def test_the_curve_is_that_of_the_records(agent: Agent) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    for _ in range(10):
        optimizer.step()
    answer = agent.call("memory", {"points": 4, "deadline_s": 0.1})
    assert answer["first_step"] == 7
    assert len(answer["curve"]) == 4
    assert all(rss > 1 << 20 and cuda is None for _, rss, cuda in answer["curve"])
    assert answer["peak_rss_bytes"] >= answer["rss_bytes"] > 1 << 20
    assert agent.call("memory", {"points": 0, "deadline_s": 0.1})["curve"] == []


def test_the_sizes_of_the_devices_in_use(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.call("memory", {"deadline_s": 0.1})["device_bytes"] == {}
    sizes = {"cuda:0": 80 << 30, "cuda:1": 24 << 30}
    monkeypatch.setattr(memory, "_cuda", lambda: {name: {"reserved_bytes.all.peak": 1} for name in sizes})
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda name: types.SimpleNamespace(total_memory=sizes[name])
    )
    assert agent.call("memory", {"deadline_s": 0.1})["device_bytes"] == sizes


def test_of_a_device_that_is_lost_all_else_is_told(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(name: str) -> Any:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(memory, "_cuda", lambda: {"cuda:0": {"reserved_bytes.all.peak": 1}})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lost)
    answer = agent.call("memory", {"deadline_s": 0.1})
    assert answer["device_bytes"] == {}
    assert answer["rss_bytes"] > 1 << 20
