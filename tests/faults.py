"""Trainings that run and are not sound, and some that are: how each is started, and what a cold `traindbg diagnose` has to say of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import Program, launch

NANOGPT = "faults/nanogpt.py"
ASKED_S = 60
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@dataclass(frozen=True)
class Fault:
    """``ready``: what it prints when there is something to be seen. ``where``: how the place ends that the first finding points at."""

    name: str
    code: str
    state: str
    ready: str = "iter 20:"
    ranks: int = 1
    who: Sequence[str] = ("rank 0",)
    where: str = ""
    verb: str = ""
    """The verb of the topic that is not well."""


FAULTS = (
    Fault("lr", "lr_implausible", "unsound", verb="lr"),
    Fault("nan-grad", "nonfinite_loss", "unsound", ready="iter 30:", verb="steps"),
    Fault("zero-grad", "zero_gradients", "unsound", verb="grads"),
    Fault("no-lr", "lr_zero", "unsound", verb="lr"),
    Fault("scaler", "scaler_skips", "unsound", verb="steps"),
    Fault("leak", "graphs_kept", "progressing", ready="iter 60:", where=" main", verb="memory"),
    Fault("slow-item", "data_wait", "slow", ready="iter 5:", where="Windows.__getitem__", verb="slow"),
    Fault("slow-worker", "data_wait", "slow", ready="iter 5:", where="Windows.__getitem__", verb="slow"),
    Fault("slow-batch", "host_wait", "slow", ready="iter 5:", where="Windows.__getitem__", verb="slow"),
    Fault("gc", "full_collections", "slow", ready="iter 5:", where=" main", verb="slow"),
    Fault("unequal-lr", "lr_differs", "unsound", ranks=2, who=("rank 1",), verb="lr"),
    Fault("straggler", "straggler", "slow", ready="iter 3:", ranks=2, who=("rank 1",), where=" main"),
    Fault("mild-straggler", "straggler", "slow", ready="iter 5:", ranks=2, who=("rank 1",), where=" main"),
)
SOUND = ("ordinary", "gan", "mixed", "trainer", "with_accelerate", "with_lightning")
"""Programs of tests/programs/sound, all of one process."""


@dataclass(frozen=True)
class Answer:
    status: int
    result: dict[str, Any]

    @property
    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.result["findings"]
        return found

    @property
    def codes(self) -> list[str]:
        return [finding["code"] for finding in self.findings]

    @property
    def told(self) -> str:
        """For a test that fails."""
        return json.dumps(self.result, indent=1, ensure_ascii=False)


@contextmanager
def faulty(fault: str, folder: Path, *, ready: str, ranks: int = 1) -> Iterator[Program]:
    """The nanoGPT-shaped program with one fault, alone or under torchrun, from the moment it prints `ready` on."""
    program = launch(folder, NANOGPT, "--fault", fault, command=TORCHRUN if ranks > 1 else None)
    try:
        program.wait_for(ready, 120)
        yield program
    finally:
        program.stop()


@contextmanager
def sound(name: str, folder: Path, *args: str) -> Iterator[Program]:
    """A program in which nothing is wrong, from the moment it has told its first loss."""
    program = launch(folder, f"sound/{name}.py", *args, env={"TMPDIR": str(folder)})
    try:
        program.wait_for("critic" if name == "gan" else "loss", 120)
        yield program
    finally:
        program.stop()


def ask(target: str) -> Answer:
    """A cold `traindbg diagnose`, as somebody at a shell asks it."""
    command = [sys.executable, "-m", "jupyter_traindbg.cli", "diagnose", target, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ASKED_S, check=False)
    assert done.stdout, done.stderr
    return Answer(done.returncode, json.loads(done.stdout))


def of_fault(fault: Fault, folder: Path) -> Answer:
    with faulty(fault.name, folder, ready=fault.ready, ranks=fault.ranks) as program:
        return ask(f"torchrun:{program.pid}" if fault.ranks > 1 else str(program.pid))


def assert_right(answer: Answer, fault: Fault) -> None:
    """The first finding is the fault, on whom and where; the job's state and the topic's verb follow."""
    assert answer.codes, answer.told
    first = answer.result["findings"][0]
    assert (first["code"], list(first["who"]), answer.status) == (fault.code, list(fault.who), 1), answer.told
    assert (first["where"] or "").endswith(fault.where), answer.told
    assert answer.result["state"] == fault.state, answer.told
    troubled = {check["verb"] for check in answer.result["checks"] if check["state"] == "trouble"}
    assert not fault.verb or fault.verb in troubled, answer.told
