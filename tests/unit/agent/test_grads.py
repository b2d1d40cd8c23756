"""Gradient figures against a naive float64 reference, for every kind of tensor, and no false alarms."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from agents import Ask
from torch import nn

from jupyter_traindbg.agent import safepoint
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.probes import grads as probe


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly any test here steps: whether the process stands still need not be looked at for long."""
    monkeypatch.setattr(safepoint, "IDLE_WINDOW_S", 0.02)


def read(agent: Agent, *, detail: bool = True) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The gradients as they lie now, by name, and the whole answer; nothing steps in these tests unless they say so."""
    answer = agent.call("grads", {"deadline_s": 0.02, "detail": detail})
    return {g["name"]: g for g in answer["grads"]}, answer


def naive(grad: torch.Tensor) -> dict[str, float]:
    dense = grad.to_dense() if grad.is_sparse else grad
    flat = dense.to(torch.complex128 if dense.is_complex() else torch.float64).flatten()
    size = flat.abs()
    finite = size[torch.isfinite(size)]
    return {
        "norm": math.sqrt(sum(float(x) ** 2 for x in size)) if len(finite) == len(size) else math.nan,
        "max_abs": float(finite.max()) if len(finite) else 0.0,
        "zeros": float((flat == 0).double().mean()) if len(flat) else 0.0,
        "nan_count": int(torch.isnan(flat).sum()),
        "inf_count": int((torch.isinf(size) & ~torch.isnan(flat)).sum()),
    }


def with_grads(*grads: torch.Tensor) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Module()
    for i, grad in enumerate(grads):
        parameter = nn.Parameter(torch.zeros(grad.shape, dtype=grad.dtype))
        parameter.grad = grad
        model.register_parameter(f"p{i}", parameter)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


REAL = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("detail", [True, False])
@pytest.mark.parametrize("dtype", [*REAL, torch.complex64, torch.complex128])
def test_figures_are_those_of_the_naive_loop(agent: Agent, dtype: torch.dtype, detail: bool) -> None:
    plain = torch.randn(40, 30, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype) * 3
    holed = plain.clone()
    holed[::3] = 0
    sick = plain.clone()
    sick[0, :4], sick[1, :2], sick[2, 0] = math.nan, math.inf, -math.inf
    expected = [naive(g) for g in (plain, holed, sick)]
    keep = with_grads(plain, holed, sick, torch.zeros(5, dtype=dtype))
    named, answer = read(agent, detail=detail)
    for i, want in enumerate(expected):
        got = named[f"p{i}"]
        assert got["max_abs"] == pytest.approx(want["max_abs"], rel=1e-6)
        assert got["zeros"] == pytest.approx(want["zeros"])
        assert (got["nan_count"], got["inf_count"]) == (want["nan_count"], want["inf_count"])
    assert named["p0"]["norm"] == pytest.approx(expected[0]["norm"], rel=1e-5)
    assert math.isnan(named["p2"]["norm"])
    assert math.isnan(answer["total_norm"])
    assert (named["p3"]["norm"], named["p3"]["max_abs"], named["p3"]["zeros"]) == (0.0, 0.0, 1.0)
    del keep


@pytest.mark.parametrize(
    ("dtype", "value", "count"),
    [
        (torch.float16, 60000.0, 100),
        (torch.bfloat16, 1e30, 10),
        (torch.float32, 1e30, 10),
        (torch.float64, 1e200, 10),
        (torch.float32, 1e-30, 10),
        (torch.bfloat16, 1e-30, 10),
        (torch.float64, 1e-200, 10),
    ],
)
def test_a_norm_that_overflows_or_vanishes_is_no_alarm(
    agent: Agent, dtype: torch.dtype, value: float, count: int
) -> None:
    keep = with_grads(torch.full((count,), value, dtype=dtype), torch.full((2,), value, dtype=dtype))
    named, answer = read(agent, detail=False)
    exact = float(torch.tensor(value, dtype=dtype))
    assert named["p0"]["norm"] == pytest.approx(exact * math.sqrt(count), rel=1e-6)
    assert named["p0"]["nan_count"] == named["p0"]["inf_count"] == 0
    assert named["p0"]["zeros"] in (None, 0.0)
    assert answer["total_norm"] == pytest.approx(exact * math.sqrt(count + 2), rel=1e-6)
    del keep


def test_infinity_alone_is_infinite(agent: Agent) -> None:
    keep = with_grads(torch.tensor([1.0, math.inf]), torch.tensor([1.0]))
    named, answer = read(agent, detail=False)
    assert named["p0"]["norm"] == math.inf == answer["total_norm"]
    assert named["p1"]["norm"] == 1.0
    del keep


def test_large_gradients_are_looked_at_in_parts(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "CHUNK", 7)
    grad = torch.randn(11, 5)
    grad[3, 2] = math.inf
    scalar, columns = torch.tensor(3.0), torch.randn(4, 6).t()
    expected = [naive(g) for g in (grad, scalar, columns)]
    keep = with_grads(grad, scalar, columns)
    named, _ = read(agent)
    for i, want in enumerate(expected):
        assert named[f"p{i}"]["max_abs"] == pytest.approx(want["max_abs"])
        assert named[f"p{i}"]["inf_count"] == want["inf_count"]
    assert named["p2"]["norm"] == pytest.approx(expected[2]["norm"], rel=1e-6)
    del keep


def test_the_total_is_torchs_total(agent: Agent) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(5, 8)).square().mean().backward()
    _, answer = read(agent)
    assert answer["total_norm"] == pytest.approx(float(nn.utils.get_total_norm([p.grad for p in model.parameters()])))
    del optimizer


def test_sparse_gradients(agent: Agent) -> None:
    model = nn.Embedding(100, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.1)
    model(torch.tensor([3, 3, 7])).pow(
        2
    ).sum().backward()  # row 3 comes twice: its two parts must be summed before squaring
    want = naive(model.weight.grad)
    named, _ = read(agent)
    got = named["weight"]
    assert got["norm"] == pytest.approx(want["norm"], rel=1e-6)
    assert (got["max_abs"], got["zeros"]) == (pytest.approx(want["max_abs"]), pytest.approx(want["zeros"]))
    assert not model.weight.grad.is_coalesced()  # the job's own tensor is as it was
    del optimizer


def test_empty_frozen_missing_and_loose_parameters(agent: Agent) -> None:
    model = nn.ModuleDict(
        {"a": nn.Linear(2, 2), "b": nn.Linear(2, 2), "frozen": nn.Linear(2, 2), "loose": nn.Linear(2, 2)}
    )
    model.empty = nn.Parameter(torch.zeros(0, 3))
    model.empty.grad = torch.zeros(0, 3)
    model["frozen"].requires_grad_(False)
    held = [*model["a"].parameters(), *model["b"].parameters(), *model["frozen"].parameters(), model.empty]
    optimizer = torch.optim.SGD(held, lr=0.1)
    (model["a"](torch.ones(1, 2)) + model["loose"](torch.ones(1, 2))).sum().backward()
    named, answer = read(agent)
    assert named["a.weight"]["norm"] == pytest.approx(2.0)
    assert named["b.weight"]["norm"] is None
    assert named["b.weight"]["requires_grad"]
    assert named["frozen.weight"]["norm"] is None
    assert not named["frozen.weight"]["requires_grad"]
    assert named["empty"]["norm"] == 0.0
    assert named["empty"]["max_abs"] == 0.0
    assert named["loose.weight"]["norm"] == pytest.approx(2.0)
    assert "2 trainable parameters are in no optimizer" in answer["note"]
    del optimizer


def test_meta_and_lazy_parameters_are_skipped_with_the_reason(agent: Agent) -> None:
    model = nn.ModuleDict({"here": nn.Linear(2, 2), "meta": nn.Linear(2, 2, device="meta")})
    with torch.no_grad():
        model["meta"].weight.grad = torch.zeros(2, 2, device="meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model["here"](torch.ones(1, 2)).sum().backward()
    named, answer = read(agent)
    assert named["meta.weight"]["norm"] is None
    assert named["here.weight"]["norm"] == pytest.approx(2.0)
    assert "meta" in answer["note"]
    agent.call("memory", {"deadline_s": 0.2})
    del optimizer, model
    lazy = nn.Sequential(nn.LazyLinear(3))
    named, answer = read(agent)
    assert "lazy" in answer["note"]
    agent.call("memory", {"deadline_s": 0.2})
    del lazy


def test_tied_weights_are_counted_once(agent: Agent) -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    named, answer = read(agent)
    assert list(named) == ["0.weight"]
    assert answer["total_norm"] == pytest.approx(float(model[0].weight.grad.norm()))
    del optimizer


def test_a_compiled_model_has_its_plain_names(agent: Agent) -> None:
    inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model = torch.compile(inner, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inner(torch.ones(1, 3)).sum().backward()  # not compiled: that is for the integration tests
    del inner
    named, _ = read(agent)
    assert list(named) == ["0.weight", "0.bias"]
    del optimizer


def test_read_at_a_safe_point_the_gradients_belong_together(agent: Agent, ask_while: Ask) -> None:
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        optimizer.zero_grad()
        (model(torch.ones(1, 3)).sum() * count).backward()
        optimizer.step()
        model.weight.grad.fill_(-1.0)  # never seen at a safe point

    answer = ask_while(step, "grads", deadline_s=20.0)
    seen = answer["after_step"]
    assert answer["safe_point"]
    assert answer["at"] == f"after step {seen} since the attach"
    assert answer["grads"][0]["norm"] == pytest.approx(seen * math.sqrt(3))


def test_where_nothing_steps_it_reads_straight_away_and_says_so(agent: Agent) -> None:
    keep = with_grads(torch.ones(4))
    _, answer = read(agent)
    assert not answer["safe_point"]
    assert answer["total_norm"] == 2.0
    assert "no optimizer step was seen yet" in answer["at"]
    keep[1].step()
    _, answer = read(agent)
    assert "the last optimizer step was 0." in answer["at"]


def test_unscaled_reading_under_a_grad_scaler_says_so(agent: Agent) -> None:
    keep = with_grads(torch.ones(4))
    scaler = torch.amp.GradScaler("cpu")
    _, answer = read(agent)
    assert "GradScaler" in answer["note"]
    del keep, scaler


def test_without_any_training_there_is_a_note_and_no_error(agent: Agent) -> None:
    _, answer = read(agent)
    assert answer["grads"] == []
    assert "no optimizer" in answer["note"]
    assert answer["total_norm"] is None


def test_a_user_error_in_reading_is_the_askers_not_the_trainings(
    agent: Agent, ask_while: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(probe, "_read", broken)
    model, optimizer = with_grads(torch.ones(4))
    with pytest.raises(AssertionError, match="no room"):
        ask_while(optimizer.step, "grads", deadline_s=20.0)
    optimizer.step()
    assert len(agent.recorder.since(0)) == agent.recorder.step
    del model


# --- after which step ------------------------------------------------------------------------------------------------


def stepping(cls: Any = torch.optim.AdamW, before: int = 0) -> tuple[torch.optim.Optimizer, Any]:
    """An optimizer that has made some steps, and what makes one more: the gradient is the number of the step."""
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = cls([parameter], lr=0.1)
    made = 0

    def step() -> None:
        nonlocal made
        made += 1
        parameter.grad = torch.full((1,), float(made))
        optimizer.step()

    for _ in range(before):
        step()
    return optimizer, step


def test_it_reads_after_the_step_that_it_is_asked_for_and_says_both_numbers(agent: Agent, ask_while: Ask) -> None:
    _, step = stepping()
    step()
    count = agent.recorder.step
    answer = ask_while(step, "grads", deadline_s=20.0, after_step=count + 40)
    assert answer["after_step"] == count + 40
    assert answer["optimizer_step"] == 41
    assert answer["total_norm"] == 41.0, "the gradient of that step"
    assert answer["at"] == "after optimizer step 41"


def test_a_step_that_was_long_ago_is_not_waited_for(agent: Agent, ask_while: Ask) -> None:
    _, step = stepping(before=9)
    answer = ask_while(step, "grads", deadline_s=20.0, after_step=3)
    assert answer["safe_point"]
    assert answer["optimizer_step"] == answer["total_norm"] >= 10


def test_any_step_will_do_where_the_one_asked_for_does_not_come(agent: Agent, ask_while: Ask) -> None:
    _, step = stepping(before=3)
    answer = ask_while(step, "grads", deadline_s=0.5, after_step=10**9)
    assert answer["safe_point"]
    assert answer["optimizer_step"] == answer["total_norm"]


def test_an_optimizer_without_a_count_has_the_steps_since_the_attach_alone(agent: Agent, ask_while: Ask) -> None:
    _, step = stepping(torch.optim.SGD)
    answer = ask_while(step, "grads", deadline_s=20.0)
    assert answer["optimizer_step"] is None
    assert answer["at"] == f"after step {answer['after_step']} since the attach"
