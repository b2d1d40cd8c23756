"""`traindbg profile` of real trainings that nobody prepared: the same steps of all ranks, one trace, and nothing of it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import slow_jobs
from kernels import TRAINING, Kernel, ipykernel6_python, kernel  # noqa: F401 - fixtures
from support import Start, need
from visits import losses_of

import traindbg
from jupyter_traindbg.outside import procfs

pytestmark = pytest.mark.timeout(300)


def ask(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jupyter_traindbg.cli", "profile", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def told(*words: str) -> dict[str, Any]:
    done = ask(*words, "--json")
    assert done.returncode == 0, done
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def operators(rank: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in rank["operators"]}


def test_what_a_step_consists_of(start: Start, tmp_path: Path) -> None:
    program = start("train.py", "--sleep", "0.01")
    trace = tmp_path / "run.json.gz"
    answer = told(str(program.pid), "--steps", "4", "--trace", str(trace))
    (rank,) = answer["ranks"]
    assert (rank["steps"], rank["note"], answer["trace"]) == (4, "", str(trace))
    by_name = operators(rank)
    assert by_name["aten::addmm"]["calls"] == 3, "three linear layers"
    assert by_name["Optimizer.step#AdamW.step"]["calls"] == pytest.approx(1, abs=0.3)
    assert 0 < rank["operators_s"] < rank["step_s"]
    assert rank["operators_s"] + rank["python_s"] + rank["collectives_s"] == pytest.approx(rank["step_s"])
    assert rank["usual_step_s"] > 0
    assert rank["stood_still_s"] > 0
    assert {Path(line["frame"]["file"]).name for line in rank["lines"]} == {"train.py"}
    assert sum(line["share"] for line in rank["lines"]) <= 1.001
    assert trace.stat().st_size > 1000


def test_all_ranks_record_the_same_steps_in_one_trace(tmp_path: Path, free_port: str) -> None:
    trace = tmp_path / "run.json"
    with slow_jobs.running(slow_jobs.planted("straggler_backward"), 2, tmp_path, free_port) as program:
        answer = told(slow_jobs.target(program, 2), "--trace", str(trace))
    assert [rank["rank"] for rank in answer["ranks"]] == [0, 1]
    assert [rank["steps"] for rank in answer["ranks"]] == [5, 5]
    events = json.loads(trace.read_text())["traceEvents"]
    ended = defaultdict(list)
    for event in events:
        if event.get("cat") == "step":
            ended[event["pid"]].append(event["ts"] + event["dur"])
    for mine, other in zip(*ended.values(), strict=True):
        assert abs(mine - other) < answer["ranks"][0]["step_s"] * 0.8e6, "the ranks end a step together"
    first, second = answer["ranks"]
    assert first["collectives_s"] > second["collectives_s"], "the first waits for the second"


@pytest.mark.parametrize("arguments", [["--workers", "2"], []])
def test_a_run_that_was_profiled_gives_the_same_losses_to_the_last_bit(start: Start, arguments: list[str]) -> None:
    visited = start("train.py", "--steps", "500", "--sleep", "0.01", *arguments)
    with traindbg.attach(visited.pid) as job:
        for _ in range(2):
            seen = job.profile(steps=60)
            assert seen.ranks[0].steps == 60, seen
    assert visited.wait() == 0
    alone = start("train.py", "--steps", "500", *arguments)
    assert alone.wait() == 0
    assert losses_of(visited) == losses_of(alone)


def test_a_job_that_does_not_step_is_seen_by_its_lines(start: Start, tmp_path: Path) -> None:
    program = start("hung_after_steps.py")
    done = ask(str(program.pid), "--seconds", "2")
    assert done.returncode == 0, done
    assert "no step came" in done.stdout, done
    assert "hung_after_steps.py:" in done.stdout, done
    done = ask(str(program.pid), "--seconds", "2", "--trace", str(tmp_path / "run.json"))
    assert (done.returncode, list(tmp_path.glob("run*"))) == (3, []), done
    assert "no trace was written: no step was recorded" in done.stderr, done


def test_steps_that_take_too_long_are_not_begun(start: Start) -> None:
    program = start("train.py", "--sleep", "0.5")
    with traindbg.attach(program.pid) as job:
        job.steps()
        done = ask(str(program.pid), "--steps", "20", "--seconds", "3")
    assert done.returncode == 2, done
    assert "are not over in 3 s" in done.stderr, done
    assert f"traindbg profile {program.pid} --steps 1 --seconds" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--trace", "run.txt"], "no ending"),
        (["--trace", "/nowhere/run.json"], "no directory /nowhere"),
        (["--sample", "--trace", "run.json"], "only what torch's profiler records"),
        (["--steps", "0"], "nothing would be recorded"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_records_nothing(start: Start, words: list[str], said: str) -> None:
    program = start("train.py", "--sleep", "0.05")
    done = ask(str(program.pid), *words)
    assert done.returncode == 2, done
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2


def test_sampling_keeps_torchs_profiler_out(start: Start) -> None:
    program = start("train.py", "--sleep", "0.01")
    answer = told(str(program.pid), "--sample")
    (rank,) = answer["ranks"]
    assert (rank["steps"], rank["operators"], rank["note"]) == (0, [], "")
    assert rank["looks"] > 20
    assert rank["stacks"][0]["frames"]


def test_a_compiled_training_is_profiled_and_compiles_nothing_again(start: Start) -> None:
    program = start("compiled.py", "aot_eager")
    with traindbg.attach(program.pid) as job:
        before = job.slow(steps=3, seconds=20)
        seen = job.profile(steps=3)
        after = job.slow(steps=3, seconds=20)
    assert seen.ranks[0].steps == 3, seen
    assert operators_of(seen) & {"CompiledFunction", "CompiledFunctionBackward", "aten::mm", "aten::addmm"}
    assert not {f.code for f in after.findings} - {f.code for f in before.findings}


def test_a_busy_kernel_is_profiled_and_the_cell_knows_nothing_of_it(kernel: Kernel) -> None:  # noqa: F811
    assert kernel.run(TRAINING).finish()["status"] == "ok"
    cell = kernel.run("print(train(100_000))")
    cell.wait_for("training")
    with traindbg.attach(f"kernel:{kernel.file}") as job:
        (rank,) = job.profile(steps=3).ranks
    assert (rank.steps, rank.note) == (3, "")
    assert rank.lines[0].frame.cell is not None, "a line of a cell"
    kernel.interrupt()
    assert cell.finish()["status"] == "error"


def test_a_process_that_has_another_number_for_itself_is_no_gpu(start: Start, tmp_path: Path) -> None:
    """In a container it is mostly 1, which is what Kineto calls it, and a second GPU."""
    need("a pid namespace (root)", os.geteuid() == 0)
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable]
    program = start("train.py", "--sleep", "0.01", command=command)
    (inside,) = procfs.descendants(program.pid)
    told(str(inside.pid), "--steps", "3", "--trace", str(tmp_path / "run.json"))
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] in ("process_name", "thread_name")]
    assert set(names) == {f"rank 0 (pid {inside.pid})", "steps", "lines of the program (sampled)", "training thread"}
    assert {event["pid"] for event in events} == {0}


def operators_of(seen: traindbg.model.Profile) -> set[str]:
    return {one.name for one in seen.ranks[0].operators}
