"""Gradients clipped before each step are, bit for bit, those that `torch.nn.utils.clip_grad_norm_` would have made there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.refused import Refused

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def clip(agent: Agent, optimizer: torch.optim.Optimizer, value: float = 1.0) -> None:
    index = next(i for i, o in enumerate(agent.objects.find().optimizers()) if o is optimizer)
    agent.tuning.apply({"setting": "clip_norm", "mode": "hold", "value": value, "optimizers": [index]})


def report(agent: Agent) -> dict[str, Any]:
    (row,) = [r for r in agent.tuning.report()["in_force"] if r["setting"] == "clip_norm"]
    return {k: row[k] for k in ("steps", "clipped", "nonfinite", "last_norm", "failure")}


def training(dtypes: list[torch.dtype]) -> torch.optim.Optimizer:
    parameters = [nn.Parameter(torch.zeros(3, 5, dtype=d)) for d in dtypes]
    unused = nn.Parameter(torch.zeros(2))
    return torch.optim.SGD([{"params": parameters[::2]}, {"params": [*parameters[1::2], unused]}], lr=0.1)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for g in optimizer.param_groups for p in g["params"]]


def bits(tensors: list[Any]) -> list[bytes]:
    return [t.detach().to(torch.float64).numpy().tobytes() for t in tensors if t is not None]


@pytest.mark.parametrize(
    "dtypes", [[d] * 3 for d in DTYPES] + [DTYPES], ids=lambda d: "+".join(sorted(set(map(str, d))))
)
def test_bit_identical_to_torch(agent: Agent, dtypes: list[torch.dtype]) -> None:
    results = []
    for live in (False, True):  # in force until released: also on one that takes its place
        torch.manual_seed(2)
        optimizer = training(dtypes)
        if live:
            clip(agent, optimizer, 0.7)
        grads = []
        for size in (10.0, 0.01, 3.0):
            for parameter in parameters_of(optimizer)[:-1]:
                parameter.grad = (torch.randn(3, 5) * size).to(parameter.dtype)
            if not live:
                torch.nn.utils.clip_grad_norm_(parameters_of(optimizer), 0.7)
            optimizer.step()
            grads += bits([p.grad for p in parameters_of(optimizer)])
        results.append((grads, bits(parameters_of(optimizer))))
    assert results[0] == results[1]
    seen = report(agent)
    assert (seen["steps"], seen["clipped"], seen["nonfinite"], seen["failure"]) == (3, 2, 0, "")
    agent.tuning.apply({"setting": "clip_norm", "mode": "release"})
    for parameter in parameters_of(optimizer)[:-1]:
        parameter.grad = torch.full_like(parameter, 9.0)
    optimizer.step()
    assert float(parameters_of(optimizer)[0].grad.max()) == 9.0  # type: ignore[union-attr]


@pytest.mark.parametrize("sick", [math.nan, math.inf])
def test_where_the_norm_is_not_finite_no_gradient_is_touched(agent: Agent, sick: float) -> None:
    optimizer = training([torch.float32] * 2)
    clip(agent, optimizer)
    first, second, _ = parameters_of(optimizer)
    first.grad, second.grad = torch.full((3, 5), 7.0), torch.full((3, 5), 7.0)
    first.grad[1, 1] = sick
    optimizer.step()
    assert float(second.grad.min()) == float(second.grad.max()) == 7.0
    assert report(agent)["nonfinite"] == 1
    assert report(agent)["clipped"] == 0
    first.grad = torch.full((3, 5), 7.0)
    optimizer.step()
    assert report(agent) == {
        "steps": 2,
        "clipped": 1,
        "nonfinite": 1,
        "last_norm": pytest.approx(7 * 30**0.5),
        "failure": "",
    }


def test_gradients_that_a_closure_makes_are_clipped_each_time(agent: Agent) -> None:
    results = []
    for live in (False, True):  # in force until released: also on one that takes its place
        torch.manual_seed(1)
        target, parameter = torch.randn(4), nn.Parameter(torch.randn(4))
        optimizer = torch.optim.LBFGS([parameter], lr=0.1, max_iter=4)
        parameter.grad = torch.full((4,), 100.0)  # a stale one: not to be counted
        norms: list[float] = []

        def closure(p: Any = parameter, o: Any = optimizer, t: Any = target, clipped: bool = not live) -> Any:
            o.zero_grad()
            loss = (p - t).pow(4).sum()
            loss.backward()
            norms.append(float(p.grad.norm()))  # noqa: B023
            if clipped:
                torch.nn.utils.clip_grad_norm_([p], 0.5)
            return loss

        if live:
            clip(agent, optimizer, 0.5)
        for _ in range(3):
            optimizer.step(closure)
        results.append(bits([parameter]))
        if live:
            seen = report(agent)
            assert (seen["steps"], seen["clipped"]) == (len(norms), sum(n > 0.5 for n in norms))
            assert seen["clipped"] > 1
    assert results[0] == results[1]


class Twice(torch.optim.SGD):
    """Hands its closure on to its parent."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


def test_a_closure_that_is_handed_on_is_clipped_once(agent: Agent) -> None:
    parameter = nn.Parameter(torch.zeros(4))
    optimizer = Twice([parameter], lr=0.1)
    clip(agent, optimizer)

    def closure() -> float:
        parameter.grad = torch.full((4,), 5.0)
        return 0.0

    optimizer.step(closure)
    optimizer.step(None)
    assert report(agent)["steps"] == 2
    assert report(agent)["last_norm"] == pytest.approx(1.0)


def test_a_fused_optimizer_under_a_grad_scaler(agent: Agent) -> None:
    """Its gradients are still scaled when its step begins."""
    results = []
    for live in (False, True):  # in force until released: also on one that takes its place
        parameter = nn.Parameter(torch.arange(4.0))
        optimizer = torch.optim.SGD([parameter], lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        if live:
            clip(agent, optimizer, 0.5)
        for size in (3.0, 0.01, math.inf, 3.0):
            optimizer.zero_grad()
            scaler.scale((parameter * size).sum()).backward()
            if not live:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_([parameter], 0.5)
            scaler.step(optimizer)
            scaler.update()
        results.append(parameter.detach())
        if live:
            assert {k: v for k, v in report(agent).items() if k != "last_norm"} == {
                "steps": 4,
                "clipped": 2,
                "nonfinite": 1,
                "failure": "",
            }
            assert report(agent)["last_norm"] == pytest.approx(6.0)
    assert results[0].tolist() == pytest.approx(results[1].tolist(), rel=1e-6)


def test_gradients_whose_norm_torch_cannot_take(agent: Agent) -> None:
    embedding = nn.Embedding(10, 2, sparse=True)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
    clip(agent, optimizer, 1e-3)
    agent.tuning.apply({"mode": "scale", "value": 0.5})
    before = embedding.weight.detach().clone()
    for _ in range(2):
        optimizer.zero_grad()
        embedding(torch.tensor([1, 1])).sum().backward()
        optimizer.step()
    assert embedding.weight[1, 0].item() == pytest.approx(before[1, 0].item() - 2 * 2 * 0.05), "the rest goes on"
    assert "Error" in report(agent)["failure"]
    assert report(agent)["steps"] == 0


def test_dtensors_are_clipped_by_their_whole_norm(agent: Agent, tmp_path: Path) -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        results = []
        for live in (False, True):  # in force until released: also on one that takes its place
            torch.manual_seed(4)
            model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
            fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            if live:
                clip(agent, optimizer, 0.1)
            for _ in range(3):
                optimizer.zero_grad()
                (100 * model(torch.ones(2, 3)).square().sum()).backward()
                if not live:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
            results.append(bits([p.full_tensor() for p in model.parameters()]))  # type: ignore[attr-defined]
            if live:
                assert (report(agent)["clipped"], report(agent)["failure"]) == (3, "")
        assert results[0] == results[1]
    finally:
        dist.destroy_process_group()


class FlatParameter(nn.Parameter):
    """Named like FSDP1's."""


class ZeroRedundancyOptimizer(torch.optim.Optimizer):
    """Named like torch's; holds the optimizer of this rank's share."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})
        self.optim = torch.optim.SGD(self.param_groups[0]["params"], lr=0.1)

    def step(self, closure: Any = None) -> None:
        self.optim.step()


def test_a_share_of_the_gradients_is_refused(agent: Agent) -> None:
    change = {"setting": "clip_norm", "mode": "hold", "value": 1.0}
    flat = torch.optim.SGD([FlatParameter(torch.ones(2))], lr=0.1)
    with pytest.raises(Refused, match="holds FSDP1's flat shards, whose norm takes the other ranks"):
        agent.tuning.check(change)
    flat.param_groups.clear()
    zero = ZeroRedundancyOptimizer([nn.Parameter(torch.ones(2))])
    zero.step()
    with pytest.raises(Refused, match="deals the parameters out to the ranks"):
        agent.tuning.check(change)
    agent.tuning.check({"mode": "scale", "value": 0.5})
