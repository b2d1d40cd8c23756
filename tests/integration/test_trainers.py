"""Trainers that nobody here wrote, unmodified, attached to by pid while they train."""

from __future__ import annotations

import importlib.util
import math
import re
import time
from dataclasses import dataclass

import pytest
from support import Program, Start, need
from traces import footprint, settled

import traindbg
from jupyter_traindbg.model import Step, available
from jupyter_traindbg.step_parts import PARTS


@dataclass(frozen=True)
class Expected:
    """What must be seen in one trainer."""

    package: str
    program: str
    args: tuple[str, ...]
    names: tuple[str, ...]
    optimizers: tuple[tuple[str, str | None], ...]
    """Class and scheduler."""
    parameters: int
    state_per_parameter: int
    accumulated: int = 1


CASES = [
    Expected(
        "transformers",
        "trainer_transformers.py",
        (),
        (
            "transformer.wte.weight",
            "transformer.wpe.weight",
            "transformer.h.1.mlp.c_fc.weight",
            "transformer.ln_f.bias",
        ),
        (("AdamW", "LambdaLR"),),
        7872,
        2,
    ),
    Expected(
        "lightning",
        "trainer_lightning.py",
        (),
        ("net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"),
        (("AdamW", "CosineAnnealingLR"),),
        161,
        2,
    ),
    Expected(
        "lightning",
        "trainer_lightning.py",
        ("manual",),
        ("generator.weight", "generator.bias", "critic.weight", "critic.bias"),
        (("SGD", None), ("SGD", None)),
        81,
        0,
    ),
    Expected(
        "accelerate",
        "trainer_accelerate.py",
        (),
        ("0.weight", "0.bias", "2.weight", "2.bias"),
        (("Adam", "LambdaLR"),),
        161,
        2,
        2,
    ),
]


def printed(program: Program) -> list[float]:
    return [float.fromhex(x) for x in re.findall(r"^loss \d+ (\S+)$", program.output(), re.MULTILINE)]


def recorded(job: traindbg.Job, count: int) -> list[Step]:
    deadline = time.monotonic() + 60
    while len(steps := job.steps().ranks[0].steps) < count:
        assert time.monotonic() < deadline, "too few steps came"
        time.sleep(0.05)
    return list(steps)


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join((c.package, *c.args)))
def test_a_trainer_of_others_is_seen_as_it_is(start: Start, case: Expected) -> None:
    need(case.package, importlib.util.find_spec(case.package) is not None)
    program = start(case.program, *case.args, env={"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}, timeout_s=90)
    before = footprint(program.pid)
    with traindbg.attach(program.pid) as job:
        assert case.package in job.ranks[0].frameworks
        check_stacks(job, case)
        check_grads(job, case)
        check_lr(job, case)
        check_memory(job, case)
        check_steps(recorded(job, 24), printed(program), case)
        answers = job.grads(first_nan=True).ranks[0].first
        assert answers is not None
        assert answers.module is None
        assert answers.note == ""
        assert answers.modules_seen > 0
    assert settled(program.pid, before) == before
    ran = len(printed(program))
    deadline = time.monotonic() + 60
    while len(printed(program)) <= ran:  # it goes on
        assert program.process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def check_stacks(job: traindbg.Job, case: Expected) -> None:
    training = next(t for t in job.stacks().processes[0].threads if t.training)
    assert any(f.function.endswith("main") and f.file.endswith(case.program) for f in training.frames)


def check_grads(job: traindbg.Job, case: Expected) -> None:
    (grads,) = job.grads(detail=True).ranks
    assert grads.safe_point, grads.at
    seen = {g.name: g for g in grads.grads}
    assert set(case.names) <= set(seen)
    assert len(seen) == len(grads.grads)
    assert not any(name.startswith(("optimizer", "module.", "_")) for name in seen)
    known = [g.norm for g in grads.grads if available(g.norm)]
    assert len(known) >= 2
    assert grads.total_norm == pytest.approx(math.hypot(*(float(n) for n in known)))


def check_lr(job: traindbg.Job, case: Expected) -> None:
    optimizers = job.lr().ranks[0].optimizers
    seen = [(o.optimizer, o.scheduler if available(o.scheduler) else None) for o in optimizers]
    assert seen == list(case.optimizers)
    assert sum(g.elements for o in optimizers for g in o.groups) == case.parameters
    for optimizer in optimizers:
        for group in optimizer.groups:
            if available(optimizer.scheduler):
                assert available(group.next_lr), group.next_lr
                assert len(list(group.next_lr or ())) == 5


def check_memory(job: traindbg.Job, case: Expected) -> None:
    (cpu,) = job.memory().ranks[0].shares
    assert cpu.parameters_bytes == case.parameters * 4
    state = case.state_per_parameter * case.parameters * 4
    assert state <= cpu.optimizer_bytes <= state + 200
    assert cpu.gradients_bytes <= case.parameters * 4


def check_steps(steps: list[Step], losses: list[float], case: Expected) -> None:
    complete = [s for s in steps if s.micro_batches == case.accumulated]
    assert len(complete) >= len(steps) - 2
    known = {round(x, 9) for x in losses}
    matching = [s for s in complete[:-2] if s.loss is not None and round(s.loss, 9) in known]
    assert len(matching) == len(complete[:-2])
    for s in steps[1:]:
        assert s.duration_s == pytest.approx(sum(getattr(s, part.field) or 0.0 for part in PARTS), rel=1e-6)
        assert s.forward_seen
        assert (s.forward_s or 0) > 0
        assert (s.backward_s or 0) > 0
    assert any((s.data_wait_s or 0) > 0 for s in steps)
    numbers = [s.optimizer_step for s in steps]
    if len(case.optimizers) == 1:
        first = numbers[0]
        assert first is not None
        assert numbers == list(range(first, first + len(steps)))
    else:
        assert {s.optimizer for s in steps} == {0, 1}
    assert all(lr is not None for s in steps for lr in s.lr)
