"""What the tests of checkpoints share: the command, what a good one is, and that a job goes on as if nothing had been."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support import PROGRAMS, Program, Start

from jupyter_traindbg import checkpoints

TWO_RANKS = [sys.executable, str(PROGRAMS / "torchrun")]
CLI = [sys.executable, "-m", "jupyter_traindbg.cli", "checkpoint"]


def command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """``traindbg checkpoint WORDS``."""
    return subprocess.run([*CLI, *words], check=False, capture_output=True, text=True, timeout=60, cwd=cwd)


def losses(program: Program) -> list[str]:
    """The lines with a step and its loss."""
    return [line for line in program.output().splitlines() if "0x" in line]


def unwatched(start: Start, program: Program, *args: str) -> None:
    """What `program` has printed until now and a little later is what train.py prints with `args` when nobody looks."""
    n = len(losses(program)) + 10
    program.wait_for(f"\n{n} ")
    reference = start("train.py", *args, "--steps", str(n), ready=None)
    assert reference.wait() == 0
    assert losses(program)[:n] == losses(reference)


def good(directory: Path, *, step: int | None = None) -> checkpoints.Manifest:
    """The manifest of a complete, undamaged checkpoint with no unfinished one beside it."""
    assert checkpoints.verify(directory).findings == ()
    manifest = checkpoints.read_manifest(directory)
    assert step is None or manifest.step == step
    assert unfinished(directory) == []
    return manifest


def unfinished(directory: Path) -> list[str]:
    """Names of what was begun beside `directory` and not finished."""
    return [p.name for p in directory.parent.iterdir() if ".partial-" in p.name]
