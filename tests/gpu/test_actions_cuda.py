"""Actions on a real GPU: learning rates, clipping and checkpoints are as exact there, and a step is never synchronised."""

from __future__ import annotations

import gc
import time
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
from jupyter_traindbg import resume  # noqa: E402
from jupyter_traindbg.agent.core import Agent  # noqa: E402

KINDS = [{}, {"fused": True}, {"foreach": True}, {"capturable": True}]


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


class Training:
    """A model with dropout, so that the device's generator matters."""

    def __init__(self, **options: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 1)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **{"lr": 1e-2, **options})
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 50)
        self.x = torch.linspace(-1, 1, 32 * 64, device="cuda").reshape(32, 64)
        self.clip: float | None = None

    def step(self) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(self.x).square().mean()
        loss.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.scheduler.step()
        return loss.detach()

    def parameters(self) -> list[Any]:
        return [p.detach().clone() for p in self.model.parameters()]


def change(setting: str, mode: str, value: float) -> dict[str, Any]:
    return {"setting": setting, "mode": mode, "value": value, "optimizers": None, "groups": None, "force": True}


def same(one: list[Any], other: list[Any]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])
def test_a_scaled_rate_is_that_rate(agent: Agent, options: dict[str, Any], tensor: bool) -> None:
    if tensor and options.get("foreach"):
        pytest.skip("torch: a tensor lr with foreach needs capturable")
    lr: Any = torch.tensor(1e-2, device="cuda") if tensor else 1e-2
    tuned = Training(**options, lr=lr)
    tuned.step()
    scheduled = tuned.optimizer.state_dict()["param_groups"][0]["lr"]
    agent.tuning.apply(change("lr", "scale", 0.5))
    for _ in range(5):
        tuned.step()
    assert type(tuned.optimizer.state_dict()["param_groups"][0]["lr"]) is type(scheduled)
    agent.tuning.apply(change("lr", "release", 0.0))
    result = tuned.parameters()

    explicit = Training(**options, lr=torch.tensor(1e-2, device="cuda") if tensor else 1e-2)
    explicit.step()
    for _ in range(5):
        group = explicit.optimizer.param_groups[0]
        kept = group["lr"].clone() if tensor else group["lr"]
        group["lr"] = group["lr"].mul_(0.5) if tensor else group["lr"] * 0.5
        step, explicit.scheduler.step = explicit.scheduler.step, lambda: None
        explicit.step()
        explicit.scheduler.step = step
        group["lr"] = group["lr"].copy_(kept) if tensor else kept
        explicit.scheduler.step()
    assert same(result, explicit.parameters())


def test_clipping_is_torchs_own_and_does_not_synchronise(agent: Agent) -> None:
    tuned = Training()
    tuned.step()
    agent.tuning.apply(change("clip_norm", "hold", 1e-3))
    with never_synchronising():
        for _ in range(5):
            tuned.step()
    result = tuned.parameters()
    explicit = Training()
    explicit.step()
    explicit.clip = 1e-3
    for _ in range(5):
        explicit.step()
    assert same(result, explicit.parameters())


def test_a_boundary_is_written_down_without_synchronising(agent: Agent) -> None:
    training = Training()
    training.step()
    with never_synchronising():
        for _ in range(10):
            training.step()
    assert agent.boundary.for_checkpoint()["rng"]["cuda"]


def save(agent: Agent, directory: Path, training: Training | None) -> None:
    def stage(do: str, **params: Any) -> Any:
        return agent.call("checkpoint", {"do": do, "ident": "gpu", **params})

    stage("begin", directory=str(directory), bytes=1000, overwrite=False)
    if training is None:
        stage("take", directory=str(directory))
    else:
        stage("prepare", directory=str(directory), after_step=agent.recorder.step)
        training.step()
        assert stage("outcome", wait_s=5.0)["done"]
    stage("write")
    ends = time.monotonic() + 30
    while not (progress := stage("progress"))["done"]:
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert progress["error"] is None
    stage("commit", manifest={"exact": True, "ranks": [0], "world_size": 1, "steps": {"0": 1}}, files=progress["files"])


@pytest.mark.parametrize("hung", [False, True])
def test_a_resumed_run_goes_on_bit_identically(agent: Agent, tmp_path: Path, hung: bool) -> None:
    training = Training()
    for _ in range(4):
        training.step()
    # At the boundary the save runs in the beginning of the step that follows it, whose loss is thus the first to come again.
    if hung:
        torch.cuda.synchronize()
        save(agent, tmp_path / "ck", None)
        expected = [training.step().item() for _ in range(4)]
    else:
        losses: list[float] = []
        step = training.step

        def recorded() -> Any:
            loss = step()
            losses.append(loss.item())
            return loss

        training.step = recorded  # type: ignore[method-assign]
        save(agent, tmp_path / "ck", training)
        for _ in range(3):
            training.step()
        expected = losses
    again = Training()
    torch.manual_seed(99)
    resume(str(tmp_path / "ck"), model=again.model, optimizer=again.optimizer, scheduler=again.scheduler)
    assert [again.step().item() for _ in range(4)] == expected
