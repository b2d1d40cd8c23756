"""What stacks and verdicts call the place and the phase of programs that are mostly libraries' code. All of it real."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support import Program, Start, need, torchrun

import traindbg
from jupyter_traindbg.errors import CannotAttach
from jupyter_traindbg.frames.phases import phase_of
from jupyter_traindbg.frames.whose import where
from jupyter_traindbg.model import Diagnosis, Frame, Stacks
from jupyter_traindbg.outside import stacks

LOOKS = 60
PATIENCE_S = 60.0
STEP_PARTS = {"in a forward pass", "in its backward pass", "in its optimizer step"}
FACES = """
import torch


class Faces(torch.utils.data.Dataset):
    def __init__(self, bad):
        self.bad = bad

    def __len__(self):
        return 1000

    def __getitem__(self, i):
        return self.read(f"face-{i:04}.jpg")

    def read(self, name):
        if name == self.bad:
            with open(name, "rb") as f:  # HERE
                f.read()
        return torch.zeros(1)
"""


def looks_at(pid: int, number: int) -> Iterator[Sequence[Frame]]:
    """The stack of the main thread so many times, of up to twice as many looks: code that runs tears some of them."""
    came = 0
    for _ in range(2 * number):
        with contextlib.suppress(CannotAttach):
            (process,) = stacks.dump(pid, deadline_s=30.0, children=False)
            yield process.threads[0].frames
            came += 1
        if came == number:
            return
    raise AssertionError(f"{came} looks of {2 * number} came to something")


def words(frames: Sequence[Frame]) -> str:
    phase = phase_of(frames)
    return phase.english if phase is not None else ""


def test_a_compiled_model_that_merely_runs_is_not_compiling(start: Start, tmp_path: Path) -> None:
    need("a C++ compiler", shutil.which("g++") is not None)
    cache = tmp_path / "cache"
    program = start("compiled.py", "inductor", env={"TORCHINDUCTOR_CACHE_DIR": str(cache)}, ready=None)
    program.wait_for("ready", 240)
    seen = list(looks_at(program.pid, LOOKS))
    assert {words(frames) for frames in seen} - {""} <= STEP_PARTS
    assert len({words(frames) for frames in seen} & STEP_PARTS) > 1
    assert any(f.file.startswith(str(cache)) for frames in seen for f in frames), "no look fell into what was compiled"
    assert {os.path.basename(at.file) for frames in seen if (at := where(frames))} == {"compiled.py"}
    found = diagnosed(str(program.pid))
    assert (found.state, [r.doing for r in found.ranks]) == ("healthy", ["makes steps"])


def test_a_model_at_which_the_compiler_works_is(start: Start) -> None:
    program = start("compiled.py", "aot_eager", "again")
    deadline = time.monotonic() + PATIENCE_S
    while "compiling" not in {words(frames) for frames in looks_at(program.pid, 5)} and time.monotonic() < deadline:
        pass  # it imports the compiler
    assert [words(frames) for frames in looks_at(program.pid, LOOKS)].count("compiling") > LOOKS / 2


def test_fsdp2_takes_steps_and_compiles_nothing(start: Start, free_port: str) -> None:
    program = start("sharded.py", "--mode", "fsdp2", command=torchrun(2, free_port), timeout_s=90)
    found = diagnosed(f"torchrun:{program.pid}")
    assert (found.state, {r.doing for r in found.ranks}) == ("healthy", {"makes steps"})
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        seen = [words(p.threads[0].frames) for _ in range(LOOKS) for p in job.stacks(children=False).processes]
    assert set(seen) - {""} <= STEP_PARTS
    assert set(seen) & STEP_PARTS


@pytest.mark.parametrize(
    ("trainer", "shown"), [("transformers", "Trainer.evaluate"), ("lightning", "_EvaluationLoop.run")]
)
def test_a_librarys_loop_shows_the_frame_that_tells_what_it_does(start: Start, trainer: str, shown: str) -> None:
    need(trainer, importlib.util.find_spec(trainer) is not None)
    program = start("trainer_evaluates.py", trainer)
    found = stacks_when(program, "evaluating", shown)
    text = str(found)
    assert "training thread" in text
    assert any(line.rstrip().endswith(shown) and line.lstrip().startswith("┆") for line in text.splitlines()), text
    assert "at trainer_evaluates.py:" in text


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_that_is_stuck_in_a_librarys_code_is_named_with_its_place(
    start: Start, tmp_path: Path, method: str
) -> None:
    package = tmp_path / "site-packages" / "faces"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FACES)
    os.mkfifo(tmp_path / "face-0007.jpg")
    program = start("loader_library.py", method, str(tmp_path))
    deadline = time.monotonic() + PATIENCE_S
    while not (found := diagnosed(str(program.pid))).findings and time.monotonic() < deadline:
        time.sleep(0.5)
    finding = found.findings[0]
    assert (found.state, finding.code) == ("stuck", "dataloader_worker_stuck")
    here = next(n for n, line in enumerate(FACES.splitlines(), 1) if line.endswith("# HERE"))
    assert (finding.where or "").startswith(f"{package}/__init__.py:{here} ")
    assert f"faces/__init__.py:{here}" in finding.title
    evidence = " ".join(finding.evidence)
    assert str(tmp_path / "face-0007.jpg") in evidence, evidence
    assert "its other workers have nothing to do" in evidence
    assert "could not be read" not in str(found)


def diagnosed(target: str) -> Diagnosis:
    with traindbg.attach(target) as job:
        return job.diagnose(timeout=30.0)


def stacks_when(program: Program, phase: str, within: str) -> Stacks:
    """The stacks of a look at which the training thread was in `phase`, and that function ran."""
    deadline = time.monotonic() + PATIENCE_S
    with traindbg.attach(str(program.pid)) as job:
        while time.monotonic() < deadline:
            found = job.stacks()
            frames = found.processes[0].threads[0].frames
            if words(frames) == phase and any(frame.function == within for frame in frames):
                return found
    raise AssertionError(f"it was never {phase}: {found}")
