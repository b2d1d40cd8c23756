"""What `traindbg steps` shows is what the training prints, to its digits."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest
from faults import NANOGPT, sound
from support import Program, need, running

import traindbg
from jupyter_traindbg.model import Step


def recorded(program: Program, line: str) -> list[Step]:
    """The steps of a program that was attached to while it ran, all of them printed; without the first one, which was seen in part."""
    with traindbg.attach(program.pid) as job:
        first = job.steps().ranks[0].steps[-1].optimizer_step or 0
        program.wait_for(line.format(first + 12), 60)
        steps = job.steps().ranks[0].steps[1:]
        program.wait_for(line.format(steps[-1].optimizer_step), 60)
    assert len(steps) > 10
    return list(steps)


def test_nanogpts_loss_of_the_last_micro_batch_and_the_mean_of_all(tmp_path: Path) -> None:
    with running(tmp_path, NANOGPT, "--sleep", "0.02", ready="iter 20:") as program:
        steps = recorded(program, "iter {}:")
        lines = dict(re.findall(r"iter (\d+): loss ([\d.]+), time", program.output()))
    for step in steps:
        assert step.optimizer_step is not None
        assert step.micro_batches == 4
        assert step.loss_last is not None
        assert f"{step.loss_last:.4f}" == lines[str(step.optimizer_step - 1)], "its iterations begin at 0"
        assert step.loss is not None
        assert abs(step.loss - step.loss_last) < 0.5, "the exact mean, of which nanoGPT prints an approximation"
        assert step.forward_seen
        assert (step.other_s or 0.0) > 0.02, "its sleep is no forward pass"


def test_the_trainers_loss_and_its_norm_before_clipping(tmp_path: Path) -> None:
    need("transformers", importlib.util.find_spec("transformers") is not None)
    with sound("trainer", tmp_path, "1") as program:
        steps = recorded(program, "step {}:")
        lines = dict(re.findall(r"step (\d+): (\{.*\})", program.output()))
    for step in steps:
        assert step.optimizer_step is not None
        logged = ast.literal_eval(lines[str(step.optimizer_step)])
        assert step.loss == pytest.approx(float(logged["loss"]), abs=5e-5)
        assert step.grad_norm == pytest.approx(float(logged["grad_norm"]), abs=5e-5)
        assert (step.clip_norm, step.loss_kind) == (1.0, "whole")
