"""A training on a GPU that is entered by its pid, asked everything, changed back and left: the losses of one that nobody visited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from checkpointing import good, losses
from cuda_support import torch
from support import Program, Start

import traindbg
from jupyter_traindbg.job import Job
from jupyter_traindbg.model import NotAvailable

STEPS = 400
PARAMETERS = 64 * 64 + 64 + 64 + 64 + 64 + 1


def alone(start: Start, *words: str) -> list[str]:
    """The losses where nobody looks."""
    program = start("cuda_train.py", *words, "--steps", str(STEPS), ready=None)
    assert program.wait() == 0, program.output()
    return losses(program)


def same(program: Program, expected: Sequence[str]) -> None:
    assert program.wait(120) == 0, program.output()
    assert losses(program) == list(expected)


def ask_everything(job: Job, directory: Path) -> None:
    assert job.steps().ranks[0].steps
    assert len(job.grads(detail=True).ranks[0].grads) == 6
    assert job.lr().ranks[0].optimizers
    job.stacks()
    job.collectives()
    (share,) = [share for share in job.memory().ranks[0].shares if share.device == "cuda:0"]
    assert (share.parameters_bytes, share.gradients_bytes) == (PARAMETERS * 4, PARAMETERS * 4)
    assert not isinstance(share.in_use_bytes, NotAvailable)
    assert share.in_use_bytes > PARAMETERS * 16
    assert share.capacity_bytes == torch.cuda.get_device_properties(0).total_memory
    gpu = job.gpu()
    processes = [
        p for device in gpu.devices if not isinstance(device.processes, NotAvailable) for p in device.processes
    ]
    assert any(p.ours == 0 for p in processes) or gpu.notes
    assert job.diagnose().findings == ()
    saved = job.checkpoint(str(directory))
    assert saved.taken == "loop boundary"
    good(directory)


@pytest.mark.parametrize("optimizer", ["plain", "fused", "capturable"])
def test_losses_are_identical_to_the_last_bit(start: Start, tmp_path: Path, optimizer: str) -> None:
    words = ["--optimizer", optimizer]
    expected = alone(start, *words)
    program = start("cuda_train.py", *words, "--steps", str(STEPS), "--sleep", "0.03")
    with traindbg.attach(program.pid) as job:
        ask_everything(job, tmp_path / "ck")
    same(program, expected)

    step = good(tmp_path / "ck").step
    resumed = start("cuda_train.py", *words, "--steps", str(STEPS), "--resume", str(tmp_path / "ck"), ready=None)
    same(resumed, expected[step:])


@pytest.mark.parametrize("optimizer", ["plain", "fused", "capturable"])
def test_a_rate_that_is_scaled_and_released(start: Start, optimizer: str) -> None:
    """In force it changes the losses, and is verified; the weights of the steps before are as ever."""
    words = ["--optimizer", optimizer]
    expected = alone(start, *words)
    program = start("cuda_train.py", *words, "--steps", str(STEPS), "--sleep", "0.03")
    with traindbg.attach(program.pid) as job:
        changed = job.set_lr(scale=0.5)
        assert changed.ranks[0].state == "verified"
        first_under_it = changed.ranks[0].optimizer_step
        job.release("lr")
    assert program.wait(120) == 0
    seen = losses(program)
    same = next(n for n, (a, b) in enumerate(zip(seen, expected, strict=True)) if a != b)
    assert same == first_under_it, "the loss of a step is computed before it, so the next one is the first to differ"


def test_a_training_that_captures_its_step_while_it_is_asked(start: Start) -> None:
    """A question to CUDA from another thread breaks a capture, unless that thread has stepped aside before."""
    words = ["--graph", "--optimizer", "capturable", "--capture-again", "2", "--steps", "44"]
    quiet = start("cuda_train.py", *words, ready=None)
    program = start("cuda_train.py", *words)
    with traindbg.attach(program.pid) as job:
        for _ in range(4):
            job.steps(timeout=1)
            job.memory(timeout=1)
            job.lr(timeout=1)
            job.grads(timeout=1)
            job.stacks()
    same(program, losses(quiet) if quiet.wait(90) == 0 else [])
