"""`traindbg slow` of real trainings that nobody prepared, each with one cause planted, or none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import slow_jobs
from cases import each
from slow_jobs import planted
from support import Start, torchrun, until
from visits import losses_of

import traindbg

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    "name",
    [
        "data_getitem_waits",
        "data_no_workers",
        "data_holds_the_gil",
        "gc_collect",
        "blocking_save",
        "lock_wait",
        "python_loop",
        "recompiling",
        "sleeps",
    ],
)
def test_the_cause_is_named_with_its_line(name: str, tmp_path: Path, free_port: str) -> None:
    one = planted(name)
    with slow_jobs.running(one, 1, tmp_path, free_port) as program:
        answer = slow_jobs.ask(str(program.pid))
    assert slow_jobs.wrong(one, 1, answer) == "", json.dumps(answer, indent=1)
    assert answer["exit"] == 1
    first = answer["causes"][0]
    assert first["finding"] == answer["findings"][0]
    assert 0 < first["saves_share"] <= 1
    assert first["saves_s"] > 0


def test_a_starved_loader_says_how_many_workers_would_do(start: Start) -> None:
    program = start("slow/data_getitem_waits.py", ready="\n10 0x")
    answer = slow_jobs.ask(str(program.pid))
    steps = " ".join(answer["findings"][0]["next_steps"])
    assert "num_workers=" in steps, steps


@pytest.mark.parametrize(("name", "ranks"), [("straggler_backward", 2), ("straggler_saves", 2), ("straggler_data", 2)])
def test_the_rank_that_all_wait_for_is_named(name: str, ranks: int, tmp_path: Path, free_port: str) -> None:
    one = planted(name)
    with slow_jobs.running(one, ranks, tmp_path, free_port) as program:
        answer = slow_jobs.ask(slow_jobs.target(program, ranks))
    assert slow_jobs.wrong(one, ranks, answer) == "", json.dumps(answer, indent=1)
    times = [rank["step_s"] for rank in answer["ranks"]]
    assert max(times) < 1.2 * min(times), "by the clock all are equally slow"


@pytest.mark.parametrize(("name", "ranks"), [("sound_plain", 1), ("sound_loader", 1), ("sound_plain", 2)])
def test_of_a_sound_training_nothing_is_said(name: str, ranks: int, tmp_path: Path, free_port: str) -> None:
    one = planted(name)
    with slow_jobs.running(one, ranks, tmp_path, free_port) as program:
        answer = slow_jobs.ask(slow_jobs.target(program, ranks))
    assert slow_jobs.wrong(one, ranks, answer) == "", json.dumps(answer, indent=1)
    assert answer["exit"] == 0
    assert answer["looked_at"]


def test_a_job_that_hangs_is_told_from_one_that_is_slow(start: Start) -> None:
    program = start("hung_after_steps.py")
    command = [sys.executable, "-m", "jupyter_traindbg.cli", "slow", str(program.pid), "--seconds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "no step came" in done.stdout, done
    assert "traindbg diagnose" in done.stdout
    assert done.returncode == 3


def test_losses_are_the_same_to_the_bit(start: Start, free_port: str) -> None:
    """Looked at several times, and not at all."""
    told = []
    for looked_at in (False, True):
        program = start("slow/sound_plain.py", "--steps", "400", command=torchrun(2, free_port), ready=None)
        if looked_at:
            until(lambda program=program: len(losses_of(program, by_rank=True)) > 20, "no step")  # type: ignore[misc]
            with traindbg.attach(f"torchrun:{program.pid}") as job:
                for _ in range(2):
                    assert job.slow(steps=5, seconds=2.0).stepping
        program.wait(240)
        told.append(losses_of(program, by_rank=True))
    assert len(told[0]) == 2 * 405
    assert told[0] == told[1]


@each("name", ["sound_plain"])
def test_programs_say_what_is_planted_in_them(name: str) -> None:
    assert planted(name).sound
    assert all(one.sound or one.line or one.manifest["line"] is None for one in slow_jobs.all_planted())
