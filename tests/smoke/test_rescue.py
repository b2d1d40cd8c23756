"""A training is saved while it runs and when it hangs, and goes on from either with the losses of the run that nobody touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpointing import command, good
from resuming import goes_on
from support import Program, Start

import traindbg
from jupyter_traindbg.errors import ActionRefused


def test_a_running_training_is_saved_verified_inspected_and_compared(trainee: Program, tmp_path: Path) -> None:
    place = tmp_path / "ck"
    made = command(str(trainee.pid), "ck", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert str(place) in made.stdout
    assert good(place).exact
    for words in (["--verify", "ck"], ["--inspect", "ck"], ["--compare", "ck", str(trainee.pid)]):
        done = command(*words, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), words
    with traindbg.attach(trainee.pid) as job, pytest.raises(ActionRefused, match="exists already"):
        job.checkpoint(str(place))


def test_a_hung_training_is_saved_and_resumed_to_the_last_bit(start: Start, tmp_path: Path, free_port: str) -> None:
    goes_on(start, tmp_path, free_port, ranks=1)
