"""The files say what ``state_dict()`` says: for every optimizer of torch, for models of every make, with the schedule's learning rate."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpointing import Client
from torch import nn

from jupyter_traindbg.agent.checkpoint import collect
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.recorder import OPTIMIZER_STEP
from jupyter_traindbg.agent.saying import unpacked

OPTIMIZERS = sorted(
    (cls for cls in vars(torch.optim).values() if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer)),
    key=lambda cls: cls.__name__,
)
OPTIMIZERS.remove(torch.optim.Optimizer)


def load(directory: Path, name: str) -> Any:
    return torch.load(directory / name, weights_only=True)


def same(a: Any, b: Any) -> bool:
    """Equal in structure, types and bits."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)


def training(cls: Any, **options: Any) -> tuple[nn.Module, Any, Callable[[], None]]:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    if cls is torch.optim.SparseAdam:
        model = nn.Sequential(nn.Embedding(5, 3, sparse=True))
    weights = [p for p in model.parameters() if p.dim() == 2] if cls.__name__ == "Muon" else list(model.parameters())
    groups = weights if cls is torch.optim.LBFGS else [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.02}]
    if len(weights) == 1:
        groups = weights
    optimizer = cls(groups, **options)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        given = torch.tensor([1, 3]) if cls is torch.optim.SparseAdam else torch.randn(5, 3)
        out = model(given).square().mean()
        out.backward()
        return out

    def step() -> None:
        if cls is torch.optim.LBFGS:
            optimizer.step(loss)
        else:
            loss()
            optimizer.step()

    return model, optimizer, step


WITHOUT_TENSOR_LR = {"LBFGS", "SparseAdam", "Muon", "Adafactor"}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("cls", OPTIMIZERS, ids=lambda cls: cls.__name__)
def test_every_optimizer_with_float_and_tensor_lr(client: Client, cls: Any) -> None:
    options: list[dict[str, Any]] = [{"lr": 0.01}, {"lr": torch.tensor(0.01), "foreach": False}]
    if cls.__name__ in WITHOUT_TENSOR_LR:
        options.pop()
    trainings = [training(cls, **own) for own in options]
    for _, _, step in trainings * 3:
        step()
    expected = [copy.deepcopy(optimizer.state_dict()) for _, optimizer, _ in trainings]
    weights = [copy.deepcopy(dict(model.state_dict())) for model, _, _ in trainings]
    for taken in (client.save(), client.save(trainings[0][2], overwrite=True)):
        counts = [3 if any("step" in s for s in e["state"].values()) else None for e in expected]
        assert taken["own_steps"] == counts
        got = [load(client.directory, name) for name in ("optimizer.pt", "optimizer-1.pt")[: len(options)]]
        assert all(same(a, b) for a, b in zip(got, expected, strict=True))
        models = [dict(load(client.directory, name)) for name in ("model.pt", "model-1.pt")[: len(options)]]
        assert all(any(same(a, b) for b in weights) for a in models)
    assert taken["pause_s"] > 0
    for (_, optimizer, _), state, known in zip(trainings, got, expected, strict=True):
        optimizer.load_state_dict(state)
        assert same(optimizer.state_dict(), known)


class Ways(nn.Module):
    """Buffers of all kinds, tied weights, a module under two names, a frozen part."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(6, 3)
        self.head = nn.Linear(3, 6, bias=False)
        self.head.weight = self.embed.weight
        self.twice = self.head
        self.norm = nn.BatchNorm1d(6)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.conv = nn.Conv2d(1, 2, 3).to(memory_format=torch.channels_last)
        self.narrow = nn.Linear(6, 6).to(torch.bfloat16)
        self.register_buffer("kept", torch.arange(3))
        self.register_buffer("dropped", torch.arange(3), persistent=False)
        self.register_buffer("nothing", None)
        self.register_parameter("none", None)
        flat = torch.randn(1000)
        self.slice = nn.Parameter(flat[:10].view(2, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.frozen(self.norm(self.head(self.embed(x))))
        return out.sum() + self.conv(out.view(1, 1, -1, 6)).sum() + self.narrow(out.bfloat16()).sum() + self.slice.sum()


def train(model: nn.Module, optimizer: Any) -> None:
    optimizer.zero_grad()
    model(torch.tensor([0, 2, 3, 5])).backward()
    optimizer.step()


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_model_of_every_make(client: Client, wrapped: bool) -> None:
    model = Ways()
    around: Any = torch.compile(model, backend="eager") if wrapped else model
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    train(model, optimizer)  # itself, so that nothing is compiled here
    client.save()
    got = load(client.directory, "model.pt")
    assert same(dict(got), dict(model.state_dict()))
    assert around.embed is model.embed
    assert got._metadata == model.state_dict()._metadata  # type: ignore[attr-defined]
    assert got["embed.weight"].data_ptr() == got["head.weight"].data_ptr() == got["twice.weight"].data_ptr()
    assert got["conv.weight"].stride() == model.conv.weight.stride()
    assert got["slice"].untyped_storage().nbytes() == 40
    Ways().load_state_dict(got)


class WithWaysOfItsOwn(nn.Linear):
    def get_extra_state(self) -> Any:
        raise AssertionError("never called")

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("never called")


def test_the_users_own_code_is_not_called_and_what_is_missing_is_said(client: Client) -> None:
    model = nn.Sequential(WithWaysOfItsOwn(3, 2))
    model.register_buffer("later", torch.empty(3, device="meta"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.param_groups[0]["callback"] = print
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    notes = [str(unpacked(note)) for note in client.ask("survey")["notes"]]
    assert [n for n in notes if "extra state of 0 (WithWaysOfItsOwn)" in n]
    assert [n for n in notes if "its own way to make a state_dict()" in n]
    assert [n for n in notes if n.startswith("later is not in the checkpoint: it is on the meta device")]
    assert [n for n in notes if n.startswith("optimizer 0, group 0.callback is left out")]
    client.save()
    assert list(load(client.directory, "model.pt")) == ["0.weight", "0.bias"]
    assert "callback" not in load(client.directory, "optimizer.pt")["param_groups"][0]


class Mine(torch.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer: Any) -> None:
        self.table, self.hook = {1: 0.5}, print
        super().__init__(optimizer)

    def get_lr(self) -> Any:
        return [0.1 for _ in self.base_lrs]

    def state_dict(self) -> Any:
        raise AssertionError("never called")


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_schedulers_scaler_counters_and_what_else_training_is(client: Client) -> None:
    model = nn.Linear(3, 2)
    first, second = (torch.optim.SGD([p], lr=0.1) for p in model.parameters())
    schedule = torch.optim.lr_scheduler
    members = [schedule.LinearLR(first), schedule.CosineAnnealingLR(first, 10)]
    sequence = schedule.SequentialLR(first, members, milestones=[2])
    mine = Mine(second)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    unused = torch.amp.GradScaler("cpu", init_scale=8.0)
    epoch = 0
    for _ in range(2):
        epoch += 1
        scaler.scale(model(torch.randn(2, 3)).sum()).backward()
        for optimizer, scheduler in ((first, sequence), (second, mine)):
            scaler.step(optimizer)
            scheduler.step()
        scaler.update()
    assert epoch == 2
    client.save()
    got = load(client.directory, "training.pt")
    assert got["step"] is None  # plain SGD keeps no count
    assert [(s["class"].split(".")[-1], s["optimizer"]) for s in got["schedulers"]] == [
        ("SequentialLR", 0),
        ("Mine", 1),
    ]
    assert got["schedulers"][0]["state"] == sequence.state_dict()
    assert got["schedulers"][1]["state"]["table"] == {1: 0.5}
    assert "hook" not in got["schedulers"][1]["state"]
    assert got["scalers"] == [{"state": scaler.state_dict()}, {"state": unused.state_dict()}]
    assert got["optimizers"][0]["parameters"] == [["weight"]]
    assert got["actions"] == []
    assert got["counters"]["test_collect.py:test_schedulers_scaler_counters_and_what_else_training_is:epoch"] == 2
    assert not [name for name in got["counters"] if not name.startswith(("test_", "conftest"))]
    assert got["versions"]["torch"] == torch.__version__
    assert got["command"]
    rank = load(client.directory, "rank-0.pt")
    assert (rank["rank"], rank["world_size"]) == (0, 1)
    assert rank["boundary"]["rng"]["torch"].dtype == torch.uint8


def test_parameters_outside_of_any_model_are_kept(client: Client) -> None:
    temperature = nn.Parameter(torch.tensor(0.5))
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam([*model.parameters(), temperature])
    (model(torch.randn(2, 3)) * temperature).sum().backward()
    optimizer.step()
    client.save()
    got = load(client.directory, "training.pt")
    assert list(got["loose"]) == ["optimizer0.group0.2"]
    assert torch.equal(got["loose"]["optimizer0.group0.2"], temperature.detach())


def test_an_action_in_force_does_not_show_in_the_optimizers_file(client: Client) -> None:
    _, optimizer, step = training(torch.optim.SGD, lr=0.1, momentum=0.9)
    step()
    expected = copy.deepcopy(optimizer.state_dict())
    client.agent.tuning.apply({"setting": "lr", "mode": "scale", "value": 0.5})
    client.save(step)
    assert same(load(client.directory, "optimizer.pt")["param_groups"], expected["param_groups"])
    exported = load(client.directory, "training.pt")["actions"]
    assert exported == client.agent.tuning.export()
    assert exported


def test_what_cannot_be_saved_whole_is_said_before(client: Client) -> None:
    model = nn.Linear(3, 2)

    class ZeroRedundancyOptimizer(torch.optim.SGD):
        pass

    optimizer: Any = ZeroRedundancyOptimizer(model.parameters(), lr=0.1)
    assert "ZeroRedundancyOptimizer" in client.ask("survey")["unsupported"]
    with pytest.raises(Exception, match="ZeroRedundancyOptimizer"):
        client.stage("take", directory=str(client.directory))
    assert list(client.directory.parent.glob(".ck*")) == []
    del optimizer
    gc.collect()

    class FullyShardedDataParallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._fsdp_wrapped_module = model

    wrapped = FullyShardedDataParallel()
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    assert "FSDP1" in client.ask("survey")["unsupported"]
    del optimizer, wrapped
    gc.collect()
    mine = [nn.Parameter(torch.zeros(5))]  # a rank's part of the numbers of all parameters, in one buffer
    optimizer = torch.optim.SGD(mine, lr=0.1)
    client.agent.objects.models = lambda: [model]  # type: ignore[method-assign]
    assert "5 numbers which are no parameters of a model found here (8 numbers)" in client.ask("survey")["unsupported"]
    assert optimizer.param_groups


def test_a_survey_without_anything_to_save(agent: Agent) -> None:
    gc.collect()
    survey = agent.call("checkpoint", {"do": "survey"})
    assert survey["kind"] is None
    assert "no model and no optimizer" in survey["unsupported"]


def test_a_count_that_is_still_on_its_way_from_a_gpu_is_that_of_the_last_known_step_and_those_since(
    agent: Agent,
) -> None:
    _, _, step = training(torch.optim.AdamW)
    for _ in range(5):
        step()
    for record in list(agent.recorder._records)[-2:]:
        record[OPTIMIZER_STEP] = None
    assert collect._recorded_step(agent, 0) == 5
    assert collect._recorded_step(agent, 1) is None
