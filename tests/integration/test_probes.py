"""What the probes measure in real processes is right, and measuring it changes no result."""

from __future__ import annotations

import time

import pytest
from support import Start, torchrun
from visits import losses_of, visit

import traindbg
from jupyter_traindbg import tables
from jupyter_traindbg.model import NotAvailable, RankGrads, available

NAMES = ["inner.0.weight", "inner.0.bias", "head.weight", "head.bias"]


def test_losses_under_a_grad_scaler_are_bit_identical(start: Start) -> None:
    words = ["--steps", "900", "--sleep", "0.02"]
    undisturbed, disturbed = start("amp.py", *words), start("amp.py", *words)
    visit(disturbed.pid, tables.names())
    assert len(losses_of(disturbed)) < 900, "it ended before we were done with it"
    assert disturbed.wait() == undisturbed.wait() == 0
    assert len(losses_of(disturbed)) == 900
    assert losses_of(disturbed) == losses_of(undisturbed)


def test_losses_are_bit_identical_while_variables_are_told(start: Start) -> None:
    words = ["--steps", "600", "--sleep", "0.01"]
    undisturbed, disturbed = start("amp.py", *words), start("amp.py", *words)
    with traindbg.attach(disturbed.pid) as job:
        (link,) = job.open_links()
        link.identify(30)
        told = [link.call("variables", {}, 10)["frames"] for _ in range(300)]
        assert len(losses_of(disturbed)) < 600, "it ended before we were done with it"
    assert any(frame["function"] == "main" for frames in told for frame in frames)
    assert disturbed.wait() == undisturbed.wait() == 0
    assert losses_of(disturbed) == losses_of(undisturbed)
    assert len(losses_of(disturbed)) == 600


@pytest.mark.parametrize("mode", ["ddp", "fsdp2"])
def test_losses_of_two_ranks_are_bit_identical(start: Start, free_port: str, mode: str) -> None:
    words = ["--mode", mode, "--steps", "900", "--sleep", "0.02"]
    undisturbed = start("sharded.py", *words, command=torchrun(2, free_port), timeout_s=90)
    assert undisturbed.wait(90) == 0
    disturbed = start("sharded.py", *words, command=torchrun(2, free_port), timeout_s=90)
    visit(f"torchrun:{disturbed.pid}", tables.names())
    assert disturbed.wait(90) == 0
    assert len(losses_of(disturbed, by_rank=True)) == 1800
    assert losses_of(disturbed, by_rank=True) == losses_of(undisturbed, by_rank=True)


def test_under_a_grad_scaler_the_recorded_loss_is_the_printed_one(start: Start) -> None:
    program = start("amp.py", "--sleep", "0.01")
    with traindbg.attach(program.pid) as job:
        seen = job.steps().ranks[0].steps
        seen = job.steps(since=seen[-1].step).ranks[0].steps
        deadline = time.monotonic() + 60
        while len(seen) < 20:
            assert time.monotonic() < deadline
            seen = job.steps().ranks[0].steps
        losses = list(losses_of(program).values())
        recorded = [s.loss for s in seen if s.micro_batches == 1]
        assert len(recorded) >= 15
        assert set(recorded[:-1]) <= set(losses)


@pytest.mark.parametrize("freeze", [(), ("--freeze",)])
def test_a_job_hung_before_its_first_step(start: Start, freeze: tuple[str, ...]) -> None:
    program = start("hung_step.py", *freeze)
    with traindbg.attach(program.pid) as job:
        (grads,) = job.grads(timeout=4).ranks
        assert [g.name for g in grads.grads] == ["0.weight", "0.bias", "2.weight", "2.bias"]
        assert not grads.safe_point
        assert "no optimizer step was seen yet" in grads.at
        assert available(grads.total_norm)
        (optimizer,) = job.lr().ranks[0].optimizers
        assert (optimizer.optimizer, optimizer.scheduler) == ("AdamW", "StepLR")
        assert list(optimizer.groups[0].next_lr or ()) == [0.25, 0.125, 0.125, 0.0625, 0.0625]
        (cpu,) = job.memory().ranks[0].shares
        assert cpu.parameters_bytes == cpu.gradients_bytes == (4 * 8 + 8 + 8 + 1) * 4
        assert job.steps(timeout=3).ranks[0].steps == ()


def check_sharded(grads: RankGrads) -> None:
    assert [g.name for g in grads.grads] == NAMES
    assert [tuple(g.shape) for g in grads.grads] == [(16, 8), (16,), (2, 16), (2,)]
    assert all(available(g.norm) and g.nan_count == 0 for g in grads.grads)


def test_fsdp2_shards_are_read_without_a_collective(start: Start, free_port: str) -> None:
    program = start("sharded.py", "--mode", "fsdp2", "--sleep", "0.02", command=torchrun(2, free_port), timeout_s=90)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        ranks = job.grads(detail=True).ranks
        for rank in ranks:
            check_sharded(rank)
            assert rank.safe_point
            assert "this rank's shards" in rank.note
        norms = [[g.norm for g in rank.grads] for rank in ranks]
        assert norms[0] != norms[1]
        for memory in job.memory().ranks:
            (cpu,) = memory.shares
            sharded = (8 * 8 + 8 + 16 + 1) * 4  # half of each parameter
            assert sharded <= cpu.parameters_bytes <= 3 * sharded
            assert cpu.optimizer_bytes == 2 * sharded + 4 * 4
        pid = job.ranks[0].pid
    with traindbg.attach(pid) as alone:  # a collective of one rank would never end
        check_sharded(alone.grads(detail=True).ranks[0])


@pytest.mark.parametrize("mode", ["ddp", "fsdp2"])
def test_a_rank_hung_in_the_middle_of_its_forward_pass(start: Start, free_port: str, mode: str) -> None:
    """Under FSDP2 the model shows its unsharded copies just then, which the optimizer does not know."""
    words = ["--mode", mode, "--hang", "4", "--sleep", "0.01"]
    program = start("sharded.py", *words, command=torchrun(2, free_port), ready="hung", timeout_s=90)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        for rank in job.grads(timeout=6).ranks:
            assert [g.name for g in rank.grads] == NAMES
            assert not rank.safe_point
            assert "stands still" in rank.at
        for lr in job.lr().ranks:
            assert [(o.optimizer, o.scheduler, o.scheduler_step) for o in lr.optimizers] == [("AdamW", "StepLR", 4)]
            assert list(lr.optimizers[0].groups[0].next_lr or ()) == [0.01] * 5
        assert len(job.memory().ranks) == 2


def test_ddp_ranks_agree(start: Start, free_port: str) -> None:
    program = start("sharded.py", "--sleep", "0.05", command=torchrun(2, free_port), timeout_s=90)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        ranks = job.grads().ranks
        assert [[g.name for g in rank.grads] for rank in ranks] == [NAMES, NAMES]
        assert len({rank.optimizer_step for rank in ranks}) == 1
        assert ranks[0].total_norm == pytest.approx(ranks[1].total_norm)
        steps = {r.rank: r.steps[-1] for r in job.steps(last=1).ranks}
        assert all(isinstance(s.optimizer_step, int) for s in steps.values())
        losses = losses_of(program, by_rank=True)
        for rank, step in steps.items():
            assert losses[f"{rank} {step.optimizer_step}"] == step.loss
        assert not isinstance(job.lr().ranks[0].optimizers[0].scheduler, NotAvailable)
