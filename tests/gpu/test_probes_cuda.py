"""The measurements on a real GPU: right, and without ever synchronising a step."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from cuda_support import never_synchronising  # noqa: E402
from torch import nn  # noqa: E402

from jupyter_traindbg import agent as agent_package  # noqa: E402
from jupyter_traindbg.agent.core import Agent  # noqa: E402
from jupyter_traindbg.agent.recorder import FIELDS  # noqa: E402


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    directory = tmp_path / "agent"
    directory.mkdir(mode=0o700)
    gc.collect()  # optimizers of earlier tests are cycles
    running = agent_package.start(str(directory), keep=True)
    yield running
    failures = list(running.safepoints.failures)
    running.stop()
    assert failures == []


def records(agent: Agent) -> list[dict[str, Any]]:
    return [dict(zip(FIELDS, r, strict=True)) for r in agent.recorder.since(0)]


class Training:
    def __init__(self, **options: Any) -> None:
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **{"lr": 1e-3, **options})
        self.x = torch.randn(32, 64, device="cuda")

    def step(self) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def ask_while(agent: Agent, training: Training, probe: str, **params: Any) -> dict[str, Any]:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(agent.call(probe, params)))
    thread.start()
    while thread.is_alive():
        training.step()
        thread.join(0.002)
    assert isinstance(answers[0], dict)
    return answers[0]


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"capturable": True}])
def test_steps_are_recorded_without_synchronising(agent: Agent, options: dict[str, Any]) -> None:
    training = Training(**options)
    training.step()
    with never_synchronising():
        losses = [training.step() for _ in range(20)]
    torch.cuda.synchronize()
    seen = records(agent)[1:]
    assert [r["loss"] for r in seen] == [loss.item() for loss in losses]
    assert [r["optimizer_step"] for r in seen] == list(range(2, 22))
    assert all(r["cuda_allocated_bytes"] > 0 for r in seen)


def test_a_busy_gpu_is_not_waited_for(agent: Agent) -> None:
    training = Training()
    training.step()
    torch.cuda.synchronize()
    torch.cuda._sleep(8_000_000_000)  # some seconds
    done_by = torch.cuda.Event()
    done_by.record()
    training.step()
    last = records(agent)[-1]
    assert not done_by.query(), "step and record came before the GPU had done what was before them"
    assert last["loss"] is None
    torch.cuda.synchronize()
    assert records(agent)[-1]["loss"] is not None


def test_the_sampled_norm(agent: Agent) -> None:
    training = Training()
    training.step()
    norm = nn.utils.get_total_norm([p.grad for p in training.model.parameters()])
    torch.cuda.synchronize()
    assert records(agent)[0]["grad_norm"] == pytest.approx(norm.item(), rel=1e-4)


def test_a_step_captured_into_a_graph_holds_nothing_of_ours(agent: Agent) -> None:
    training = Training(capturable=True)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            training.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    agent.recorder._next_norm_s = 0.0  # a sample is due
    with torch.cuda.graph(graph):
        training.step()
    before = [p.detach().clone() for p in training.model.parameters()]
    graph.replay()
    torch.cuda.synchronize()
    assert any(not torch.equal(a, b) for a, b in zip(before, training.model.parameters(), strict=True))
    assert records(agent)[-1]["grad_norm"] is None


def test_grads_lr_and_memory(agent: Agent) -> None:
    training = Training(lr=torch.tensor(0.01, device="cuda"), capturable=True)
    grads = ask_while(agent, training, "grads", deadline_s=20.0, detail=True)
    assert grads["safe_point"]
    assert [g["name"] for g in grads["grads"]] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert agent.call("lr", {})["optimizers"][0]["groups"][0]["lr"] == pytest.approx(0.01)
    memory = agent.call("memory", {})
    elements = sum(p.numel() for p in training.model.parameters())
    assert memory["sizes"]["parameters"]["cuda:0"] == elements * 4
    assert memory["cuda"]["cuda:0"]["allocated_bytes.all.current"] > 0


def test_first_nan_names_the_module_that_overflows_half_precision(agent: Agent) -> None:
    training = Training()
    training.model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 1)).cuda().half()
    training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.0)
    training.x = torch.ones(32, 64, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        training.model[0].weight.fill_(0.1)
        training.model[1].weight.fill_(6e4)

    def step() -> None:
        training.model(training.x)
        training.optimizer.step()

    training.step = step  # type: ignore[method-assign]
    answer = ask_while(agent, training, "grads", deadline_s=20.0, first_nan=True)
    first = answer["first"]
    assert (first["module"], first["inputs_finite"], first["weights_finite"]) == ("1", True, True)


def test_another_device_than_the_current_one(agent: Agent) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    training = Training()
    training.model.to("cuda:1")
    training.x = training.x.to("cuda:1")
    loss = training.step()
    torch.cuda.synchronize("cuda:1")
    assert records(agent)[-1]["loss"] == loss.item()
