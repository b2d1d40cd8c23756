"""Trainers that nobody here wrote, under live changes, against the same trainers with the change in their own code. Bit for bit.

The agent is in this very process: what a trainer does with optimizers, closures and schedulers is the matter here, not the way in.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import need

torch = pytest.importorskip("torch")

from jupyter_traindbg import agent as agent_package  # noqa: E402
from jupyter_traindbg.agent.core import Agent  # noqa: E402

BEGIN, END, STEPS = 3, 6, 9
"""The change is in force for the steps from `BEGIN` on, before `END`, counted from 0."""
FACTOR, NORM = 0.3, 0.05
pytestmark = pytest.mark.filterwarnings("ignore")  # the trainers' own


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    directory = tmp_path / "agent"
    directory.mkdir(mode=0o700)
    running = agent_package.start(str(directory), keep=True)
    try:
        yield running
        assert running.safepoints.failures == []
    finally:
        running.stop()


class Change:
    """What is done before the step with a number: by the agent, or, without one, by the training's own code around the step."""

    def __init__(self, agent: Agent | None) -> None:
        self.agent = agent
        self.scheduled: list[list[float]] = []
        self.done: list[int] = []

    def before_iteration(self, step: int, optimizer: Any) -> None:
        if self.agent is None or step not in (BEGIN, END) or step in self.done:
            return
        self.done.append(step)  # with gradients accumulated there are several iterations to a step
        alive = self.agent.objects.find().optimizers()
        index = [next(i for i, o in enumerate(alive) if o is optimizer)]
        if step == BEGIN:
            self.agent.tuning.apply({"mode": "scale", "value": FACTOR, "optimizers": index})
            self.agent.tuning.apply({"setting": "clip_norm", "mode": "hold", "value": NORM, "optimizers": index})
        else:
            rows = self.agent.tuning.apply({"mode": "release", "setting": None, "optimizers": index})
            assert len(rows) == len(optimizer.param_groups) + 1

    def clip(self, step: int, optimizer: Any) -> None:
        """The gradients of this step are complete."""
        if self.agent is None and BEGIN <= step < END:
            torch.nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g["params"]], NORM)

    def before_step(self, step: int, optimizer: Any) -> None:
        if self.agent is None and BEGIN <= step < END:
            self._kept = [g["lr"] for g in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * FACTOR

    def after_step(self, step: int, optimizer: Any) -> None:
        if self.agent is None and BEGIN <= step < END:
            for group, lr in zip(optimizer.param_groups, self._kept, strict=True):
                group["lr"] = lr

    def note(self, optimizer: Any) -> None:
        """After the step: what a log or a checkpoint of the training says."""
        self.scheduled.append([g["lr"] for g in optimizer.state_dict()["param_groups"]])


def bits(model: Any) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in model.parameters()]


def used(agent: Agent, optimizers: int = 1) -> list[float]:
    """The learning rates that the last run's steps used, of the optimizer that steps first."""
    return [r[7][0] for r in agent.recorder.since(0)][::optimizers][-STEPS:]


def check(agent: Agent, live: tuple[list[bytes], Change], expected: tuple[list[bytes], Change]) -> None:
    assert live[0] == expected[0]
    assert len(live[1].scheduled) >= STEPS
    assert live[1].scheduled == expected[1].scheduled
    assert not agent.tuning.active


def test_lightning(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("lightning", importlib.util.find_spec("lightning") is not None)
    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    monkeypatch.chdir(tmp_path)

    class Module(lightning.LightningModule):
        def __init__(self, change: Change) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
            self.change = change

        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            self.change.before_iteration(batch_idx, self.optimizers().optimizer)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.net(batch[0]).square().mean()

        def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None) -> None:
            def closure() -> Any:
                loss = optimizer_closure()
                self.change.clip(batch_idx, optimizer)
                return loss

            self.change.before_step(batch_idx, optimizer)
            super().optimizer_step(epoch, batch_idx, optimizer, closure)
            self.change.after_step(batch_idx, optimizer)

        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            self.change.note(self.optimizers().optimizer)
            if batch_idx == BEGIN + 1:
                self.trainer.save_checkpoint("middle.ckpt")

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def run(change: Change) -> tuple[list[bytes], Change]:
        torch.manual_seed(0)
        trainer = lightning.Trainer(
            max_steps=STEPS, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False,
        )  # fmt: skip
        module = Module(change)
        data = torch.utils.data.TensorDataset(torch.randn(128, 8))
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=8))
        saved = torch.load("middle.ckpt", weights_only=False)["optimizer_states"][0]["param_groups"][0]["lr"]
        change.scheduled.append([saved])
        return bits(module), change

    live = run(Change(agent))
    scheduled = [lr for (lr,) in live[1].scheduled]
    assert used(agent)[BEGIN] == pytest.approx(scheduled[BEGIN - 1] * FACTOR)
    assert used(agent)[END] == pytest.approx(scheduled[END - 1])
    check(agent, live, run(Change(None)))


def test_lightning_with_two_optimizers_by_hand(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("lightning", importlib.util.find_spec("lightning") is not None)
    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    monkeypatch.chdir(tmp_path)

    class Module(lightning.LightningModule):
        def __init__(self, change: Change) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.generator, self.critic = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
            self.change = change

        def training_step(self, batch: Any, batch_idx: int) -> None:
            for i, (optimizer, output) in enumerate(zip(self.optimizers(), (self.generator, self.critic), strict=True)):
                if i == 1:
                    self.change.before_iteration(batch_idx, optimizer.optimizer)
                optimizer.zero_grad()
                self.manual_backward(output(batch[0]).square().mean())
                if i == 1:
                    self.change.clip(batch_idx, optimizer)
                    self.change.before_step(batch_idx, optimizer)
                optimizer.step()
                if i == 1:
                    self.change.after_step(batch_idx, optimizer)
                self.change.note(optimizer)

        def configure_optimizers(self) -> Any:
            parts = ((self.generator, 0.01), (self.critic, 0.02))
            return [torch.optim.SGD(m.parameters(), lr=lr, momentum=0.9) for m, lr in parts], []

    def run(change: Change) -> tuple[list[bytes], Change]:
        torch.manual_seed(0)
        trainer = lightning.Trainer(
            max_steps=2 * STEPS, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False,
        )  # fmt: skip
        module = Module(change)
        data = torch.utils.data.TensorDataset(torch.randn(128, 8))
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=8))
        return bits(module), change

    live = run(Change(agent))
    assert set(used(agent, 2)) == {0.01}, "the first one was left alone"
    check(agent, live, run(Change(None)))


def test_transformers(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("transformers", importlib.util.find_spec("transformers") is not None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    class Callback(TrainerCallback):
        def __init__(self, change: Change) -> None:
            self.change = change

        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.change.before_iteration(state.global_step, more["optimizer"].optimizer)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.change.clip(state.global_step, more["optimizer"])
            self.change.before_step(state.global_step, more["optimizer"])

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.change.after_step(state.global_step, more["optimizer"])

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.change.note(more["optimizer"])

    def run(change: Change) -> tuple[list[bytes], Change]:
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
        ids = torch.randint(0, 64, (64, 16), generator=torch.Generator().manual_seed(1))
        arguments = TrainingArguments(
            str(tmp_path / "out"), max_steps=STEPS, per_device_train_batch_size=4, learning_rate=1e-3, warmup_steps=2, report_to=[],
            lr_scheduler_type="cosine", save_strategy="steps", save_steps=BEGIN + 2, logging_strategy="no", disable_tqdm=True,
            use_cpu=True,
        )  # fmt: skip
        Trainer(
            model, arguments, train_dataset=[{"input_ids": i, "labels": i} for i in ids], callbacks=[Callback(change)]
        ).train()
        saved = torch.load(tmp_path / "out" / f"checkpoint-{BEGIN + 2}" / "optimizer.pt")
        change.scheduled.append([g["lr"] for g in saved["param_groups"]])
        return bits(model), change

    live = run(Change(agent))
    assert used(agent)[BEGIN] == pytest.approx(live[1].scheduled[BEGIN - 1][0] * FACTOR)
    check(agent, live, run(Change(None)))


def test_accelerate(agent: Agent) -> None:
    need("accelerate", importlib.util.find_spec("accelerate") is not None)
    from accelerate import Accelerator

    def run(change: Change) -> tuple[list[bytes], Change]:
        torch.manual_seed(0)
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        inner = torch.optim.Adam(model.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.LambdaLR(inner, lambda step: 0.9**step)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.randn(8 * 2 * STEPS, 8)), batch_size=8
        )
        model, optimizer, loader, scheduler = accelerator.prepare(model, inner, loader, scheduler)
        step = 0
        for (x,) in loader:
            change.before_iteration(step, inner)
            with accelerator.accumulate(model):
                accelerator.backward(model(x).square().mean())
                if accelerator.sync_gradients:
                    change.clip(step, optimizer)
                    change.before_step(step, optimizer)
                optimizer.step()
                if accelerator.sync_gradients:
                    change.after_step(step, optimizer)
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                change.note(optimizer)
                step += 1
        return bits(model), change

    live = run(Change(agent))
    assert used(agent)[BEGIN] == pytest.approx(live[1].scheduled[BEGIN - 1][0] * FACTOR)
    check(agent, live, run(Change(None)))
