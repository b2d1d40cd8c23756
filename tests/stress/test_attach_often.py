"""Attached to again and again, and asked as fast as it goes: the training gives the same losses to the last bit."""

from __future__ import annotations

from support import Start
from traces import footprint, settled

import traindbg


def test_many_attach_and_detach_cycles_leave_the_losses_bit_identical(start: Start) -> None:
    program = start("train.py", "--sleep", "0.002", "--workers", "1")
    before = footprint(program.pid)
    for cycle in range(40):
        assert program.process.poll() is None, (cycle, program.process.returncode, program.output()[-2000:])
        with traindbg.attach(program.pid) as job:
            job.stacks(children=cycle % 4 == 0)
            job.grads(detail=True, first_nan=cycle % 4 == 0)
            job.lr()
            job.memory()
            job.steps(last=1)
    assert settled(program.pid, before) == before
    program.stop()
    disturbed = [line for line in program.output().splitlines() if line != "ready"][:-1]  # the last line may be torn
    assert len(disturbed) > 100
    undisturbed = start("train.py", "--steps", str(len(disturbed)), "--workers", "1")
    undisturbed.wait(100)
    assert disturbed == [line for line in undisturbed.output().splitlines() if line != "ready"]


def test_polling_at_full_speed_while_gradients_are_written_does_no_harm(start: Start) -> None:
    program = start("train.py", "--width", "512", env={"OMP_NUM_THREADS": "2"})
    with traindbg.attach(program.pid) as job:
        for _ in range(300):
            (memory,) = job.memory().ranks
            (cpu,) = memory.shares
            assert 0 <= cpu.gradients_bytes <= cpu.parameters_bytes  # zero_grad may be half way through
            assert memory.note == ""
            job.steps(last=1)
    assert program.process.poll() is None
