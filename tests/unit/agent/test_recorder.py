"""Every record says what really happened in its step."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import sys
import threading
import time
from typing import Any

import pytest
import torch
from recorded import PARTS, Training, records
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from jupyter_traindbg.agent import losses as losses_of
from jupyter_traindbg.agent import recorder
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.recorder import CAPACITY


def test_loss_rate_and_step_number_are_the_jobs_own(agent: Agent) -> None:
    training = Training(make=torch.optim.AdamW, lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(training.optimizer, 0.5)
    losses, rates = [], []
    for _ in range(4):
        rates.append(training.optimizer.param_groups[0]["lr"])
        losses.append(training.step())
        schedule.step()
    seen = records(agent)
    assert [r["loss"] for r in seen] == losses
    assert [r["lr"] for r in seen] == [[rate] for rate in rates]
    assert [r["step"] for r in seen] == [1, 2, 3, 4]
    own = int(training.optimizer.state[training.model.weight]["step"])
    assert seen[-1]["optimizer_step"] == own == 4
    assert all(r["rss_bytes"] > 1 << 20 and abs(r["time_s"] - time.time()) < 60 for r in seen)
    assert seen[-1]["cuda_allocated_bytes"] is None


def test_the_optimizers_own_count_is_followed_when_a_checkpoint_is_loaded(agent: Agent) -> None:
    training = Training(make=torch.optim.Adam)
    training.step()
    state = training.optimizer.state_dict()
    for s in state["state"].values():
        s["step"] = torch.tensor(100.0)
    training.optimizer.load_state_dict(state)
    training.step()
    assert [r["optimizer_step"] for r in records(agent)] == [1, 101]
    plain = Training()
    plain.step()
    assert records(agent)[-1]["optimizer_step"] is None  # SGD keeps no count


def test_the_pause_before_a_step_that_follows_a_rest_is_no_part_of_it(agent: Agent) -> None:
    training = Training()
    training.step()
    training.step()
    agent.recorder.rest()
    training.step()
    training.step()
    assert [r["duration_s"] is None for r in records(agent)] == [True, False, True, False]
    assert all(records(agent)[2][part] is None for part in PARTS)


def test_lbfgs_has_one_record_a_step_with_all_its_evaluations(agent: Agent) -> None:
    training = Training(make=torch.optim.LBFGS, max_iter=4)
    x, losses = torch.randn(8, 4), []

    def closure() -> torch.Tensor:
        training.optimizer.zero_grad()
        loss = ((training.model(x) - 1) ** 2).mean()
        loss.backward()
        losses.append(loss.item())
        return loss

    training.optimizer.step(closure)
    (record,) = records(agent)
    assert record["micro_batches"] == len(losses) > 1
    assert (record["loss"], record["loss_last"], record["loss_kind"]) == (losses[0], losses[-1], "evaluated")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_loss_under_a_grad_scaler_is_the_one_before_scaling(agent: Agent, dtype: torch.dtype) -> None:
    training = Training(make=torch.optim.AdamW)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    losses = []
    for _ in range(3):
        training.optimizer.zero_grad()
        with torch.autocast("cpu", dtype):
            loss = training.loss()
        scaler.scale(outputs=loss).backward()
        scaler.unscale_(training.optimizer)
        norm = nn.utils.clip_grad_norm_(training.model.parameters(), 1e9)
        scaler.step(training.optimizer)
        scaler.update()
        losses.append(loss.item())
    assert [r["loss"] for r in records(agent)] == losses
    assert records(agent)[0]["grad_norm"] is not None
    assert norm > 0


def test_a_step_that_the_scaler_skips_has_no_record(agent: Agent) -> None:
    training = Training()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for factor in (1.0, math.inf, 1.0):
        training.optimizer.zero_grad()
        scaler.scale(training.loss(factor)).backward()
        scaler.step(training.optimizer)
        scaler.update()
    assert [r["micro_batches"] for r in records(agent)] == [1, 1]


def test_a_disabled_scaler_and_scaled_lists(agent: Agent) -> None:
    training = Training()
    losses = [training.loss(), training.loss()]
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    torch.autograd.backward(scaler.scale(losses))
    training.optimizer.step()
    loss = training.loss()
    torch.amp.GradScaler("cpu", enabled=False).scale(loss).backward()
    training.optimizer.step()
    assert [r["loss"] for r in records(agent)] == [pytest.approx(sum(x.item() for x in losses)), loss.item()]


def test_roots_of_all_shapes(agent: Agent) -> None:
    training = Training()
    one, two = training.loss(), training.loss()
    torch.autograd.backward([one])
    training.optimizer.step()
    torch.autograd.backward(tensors=(two,))
    training.optimizer.step()
    many = training.model(torch.randn(3, 4))
    many.backward(torch.ones_like(many))  # no scalar: there is no loss to report
    training.optimizer.step()
    first, second = training.loss(), training.loss()
    torch.autograd.backward((first, second))
    training.optimizer.step()
    seen = [r["loss"] for r in records(agent)]
    assert seen == [one.item(), two.item(), None, pytest.approx(first.item() + second.item())]
    assert [r["micro_batches"] for r in records(agent)] == [1, 1, 1, 1]


class Loud(torch.Tensor):
    """A tensor subclass as in MONAI; its operations are counted."""

    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def test_the_loss_of_a_tensor_subclass(agent: Agent) -> None:
    training = Training()
    loss = training.loss().as_subclass(Loud)
    loss.backward()
    training.optimizer.step()
    assert records(agent)[0]["loss"] == float(loss.detach())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_the_sampled_norm_is_the_reference_norm(agent: Agent, dtype: torch.dtype) -> None:
    parameters = [torch.zeros(50, dtype=dtype, requires_grad=True), torch.zeros(7, 3, dtype=dtype, requires_grad=True)]
    for p in parameters:
        p.grad = torch.randn(p.shape, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype) * 100
    torch.optim.SGD(parameters, lr=0.1).step()
    wide = torch.complex128 if dtype.is_complex else torch.float64
    expected = math.sqrt(sum(float((p.grad.to(wide).abs() ** 2).sum()) for p in parameters if p.grad is not None))
    assert records(agent)[0]["grad_norm"] == pytest.approx(expected, rel=1e-5)


def test_a_norm_of_mixed_precision_parameters(agent: Agent) -> None:
    parameters = [torch.zeros(9, dtype=d, requires_grad=True) for d in (torch.float16, torch.float32, torch.float64)]
    for p in parameters:
        p.grad = torch.full_like(p, 300.0)  # 9 squares of 300 overflow float16
    torch.optim.SGD(parameters, lr=0.0).step()
    assert records(agent)[0]["grad_norm"] == pytest.approx(300 * math.sqrt(27))


def test_several_optimizers_are_told_apart_also_short_lived_ones(agent: Agent) -> None:
    one, two = Training(), Training(make=torch.optim.Adam)
    one.step()
    two.step()
    for _ in range(300):
        Training().step()
        gc.collect(0)
    two.step()
    seen = records(agent)
    assert [r["optimizer"] for r in (seen[0], seen[1], seen[-1])] == [0, 1, 1]
    gc.collect()
    Training().step()
    assert len(agent.recorder._steppers) <= 4


class Outer(torch.optim.Optimizer):
    """As ZeroRedundancyOptimizer: an optimizer of its own whose step steps another one."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.optim = inner

    def step(self, closure=None):
        return self.optim.step(closure)


def test_a_wrapper_with_hooks_of_its_own_is_not_a_second_step(agent: Agent) -> None:
    training = Training()
    training.optimizer = Outer(training.optimizer)
    losses = [training.step() for _ in range(3)]
    assert [r["loss"] for r in records(agent)] == losses


def test_tensor_learning_rates(agent: Agent) -> None:
    training = Training(make=torch.optim.Adam, lr=torch.tensor(0.25))
    training.step()
    assert records(agent)[0]["lr"] == [0.25]


class Fails(torch.optim.SGD):
    broken = True

    def step(self, closure=None):
        if self.broken:
            raise ArithmeticError("theirs")
        return super().step(closure)


def test_a_step_that_raises_goes_through_and_the_next_is_recorded(agent: Agent) -> None:
    training = Training(make=Fails)
    with pytest.raises(ArithmeticError, match="theirs"):
        training.step()
    training.optimizer.broken = False  # type: ignore[attr-defined]
    training.step()
    assert [r["step"] for r in records(agent)] == [1]


def test_a_step_within_a_step_is_one_record_also_where_the_inner_one_raised(agent: Agent) -> None:
    torch.optim.SGD([nn.Parameter(torch.zeros(1))])  # its own step has hooks from now on

    def fails() -> float:
        raise ArithmeticError("theirs")

    class TriesTwice(torch.optim.SGD):
        def step(self, closure=None):
            with contextlib.suppress(ArithmeticError):
                super().step(fails)
            return super().step(closure)

    training = Training(make=TriesTwice)
    losses = [training.step() for _ in range(3)]
    assert [r["loss"] for r in records(agent)] == losses
    assert agent.safepoints.running == []


def test_a_step_that_raised_within_another_optimizers_step_is_over(agent: Agent) -> None:
    training = Training(make=Fails)
    inner = training.optimizer
    training.optimizer = Outer(inner)
    with pytest.raises(ArithmeticError, match="theirs"):
        training.step()
    assert len(agent.safepoints.running) == 2, "the end of neither was seen"
    inner.broken = False  # type: ignore[attr-defined]
    losses = [training.step() for _ in range(3)]
    seen = records(agent)
    assert [r["micro_batches"] for r in seen] == [2, 1, 1], "with what the step that raised was given"
    assert [r["loss"] for r in seen[1:]] == losses[1:]
    assert agent.safepoints.running == []


def test_a_backward_that_raises_goes_through(agent: Agent) -> None:
    training = Training()
    loss = training.loss()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_backward_in_other_threads_neither_breaks_nor_counts(agent: Agent) -> None:
    training = Training()
    training.step()
    other = Training()
    failures = []

    def backwards() -> None:
        try:
            for _ in range(50):
                other.loss().backward()
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=backwards) for _ in range(3)]
    for t in threads:
        t.start()
    losses = [training.step() for _ in range(30)]
    for t in threads:
        t.join(30)
    seen = records(agent)[1:]
    assert failures == []
    assert [r["loss"] for r in seen] == losses
    assert all(math.isclose(sum(r[p] or 0.0 for p in PARTS), r["duration_s"], rel_tol=1e-6) for r in seen)


def test_optimizers_in_two_threads(agent: Agent) -> None:
    def train() -> None:
        training = Training()
        for _ in range(40):
            training.step()

    threads = [threading.Thread(target=train) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    seen = records(agent)
    assert len(seen) == 80
    assert {r["optimizer"] for r in seen} == {0, 1}


def test_records_are_bounded_and_so_are_losses_nobody_steps_for(agent: Agent) -> None:
    training = Training()
    loss = training.loss()
    for _ in range(losses_of.MOST_BACKWARDS + 10):
        loss.backward(retain_graph=True)
    assert len(agent.recorder.losses) == losses_of.MOST_BACKWARDS
    empty = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    for _ in range(CAPACITY + 5):
        empty.step()
    seen = agent.recorder.since(0)
    assert len(seen) == CAPACITY
    assert seen[-1][0] == CAPACITY + 5


def _patched() -> list[Any]:
    from torch.amp.grad_scaler import GradScaler
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    return [torch.autograd.backward, vars(_BaseDataLoaderIter)["__next__"], vars(GradScaler)["scale"]]


def test_everything_is_put_back(tmp_path: Any) -> None:
    from torch.optim import optimizer

    from jupyter_traindbg import agent as package

    before = [*_patched(), dict(optimizer._global_optimizer_pre_hooks), dict(optimizer._global_optimizer_post_hooks)]
    directory = tmp_path / "again"
    directory.mkdir(mode=0o700)
    running = package.start(str(directory), keep=True)
    assert all(a is not b for a, b in zip(_patched(), before, strict=False))
    running.stop()
    after = [*_patched(), dict(optimizer._global_optimizer_pre_hooks), dict(optimizer._global_optimizer_post_hooks)]
    assert all(a is b for a, b in zip(after[:3], before[:3], strict=True))
    assert after[3:] == before[3:]


def test_where_somebody_patched_over_us_we_only_pass_through(agent: Agent) -> None:
    ours = torch.autograd.backward

    def theirs(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    torch.autograd.backward = theirs
    original = ours.__wrapped__
    try:
        agent.recorder.close()
        training = Training()
        training.loss().backward()
        assert torch.autograd.backward is theirs
        assert training.model.weight.grad is not None
        assert len(agent.recorder.losses) == 0
    finally:
        torch.autograd.backward = original


def test_modules_imported_later_are_patched_later(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    late = type(sys)("torch.distributed.fsdp.sharded_grad_scaler")

    class ShardedGradScaler(torch.amp.GradScaler):
        def scale(self, outputs):
            return outputs * 16

    late.ShardedGradScaler = ShardedGradScaler  # type: ignore[attr-defined]
    monkeypatch.setattr(recorder, "LOOK_AGAIN_STEPS", 2)
    monkeypatch.setitem(sys.modules, late.__name__, late)
    if not agent.recorder._patches.spots:
        pytest.skip("this torch imports everything at once")
    training = Training()
    training.step()
    training.step()
    loss = training.loss()
    ShardedGradScaler("cpu").scale(loss).backward()
    training.optimizer.step()
    assert records(agent)[-1]["loss"] == loss.item()


def test_a_note_of_ours_that_fails_is_not_seen_by_the_training(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("ours")

    broken.__qualname__ = "Losses.note"
    monkeypatch.setattr(agent.recorder.losses, "note", broken)
    training = Training()
    for _ in itertools.repeat(None, 3):
        training.step()
    assert len(records(agent)) == 3
    assert agent.safepoints.failures == ["recorder, Losses.note: RuntimeError: ours"]
    agent.safepoints.failures.clear()


def test_loaders_of_other_threads_and_generators_do_not_confuse(agent: Agent) -> None:
    training = Training()
    training.step()
    loader = DataLoader(TensorDataset(torch.randn(4, 4)))
    iterator = iter(loader)
    for _ in range(4):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
    training.step()
    assert records(agent)[-1]["data_wait_s"] > 0
