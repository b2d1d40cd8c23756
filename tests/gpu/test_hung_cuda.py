"""Trainings whose GPU never finishes: named as such, and saved all the same, beside the kernel that does not end."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from checkpointing import good, losses
from cuda_support import torch
from support import Program, Start

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.model import NotAvailable

HANG_AT = 60
STILL_S = 2.0
"""A job that made quick steps counts as hung after a second without one."""


def weights(of: Program) -> str:
    return next(line.split()[1] for line in of.output().splitlines() if line.startswith("weights "))


@pytest.mark.parametrize("read_every", [1, 4])
def test_attached_before_it_hung(start: Start, tmp_path: Path, read_every: int) -> None:
    """The program has queued one step, or four, that the GPU will never do: the weights that are saved are those before."""
    words = ["--hang-at", str(HANG_AT + 1), "--read-every", str(read_every)]
    program = start("cuda_train.py", *words, "--sleep", "0.05")
    with traindbg.attach(program.pid) as job:
        program.wait_for("hung")
        time.sleep(STILL_S)
        seen = job.diagnose()
        assert seen.state == "stuck"
        (finding,) = seen.findings
        assert (finding.code, tuple(finding.who)) == ("gpu_wait", ("rank 0",))
        assert finding.where is not None
        assert finding.where.endswith(" train")
        assert "training.loss.item()" in finding.evidence[0]

        saved = job.checkpoint(str(tmp_path / "ck"))
        assert (saved.taken, saved.exact, saved.ranks[0].steps) == ("hung", False, (HANG_AT,))
        behind = [why for why in saved.inexact if "still to do" in why]
        assert f"{read_every} optimizer step" in behind[0]
        good(tmp_path / "ck", step=HANG_AT)
    unhung = start("cuda_train.py", "--steps", str(HANG_AT), ready=None)
    assert unhung.wait() == 0
    model = torch.load(tmp_path / "ck" / "model.pt", weights_only=True)
    names = [name for name in model if name.endswith(("weight", "bias"))]
    assert sum(model[name].double().sum().item() for name in names) == pytest.approx(float.fromhex(weights(unhung)))
    optimizer = torch.load(tmp_path / "ck" / "optimizer.pt", weights_only=True)
    assert {entry["step"].item() for entry in optimizer["state"].values()} == {HANG_AT}
    assert losses(program)[-1] in losses(unhung)


def test_hung_before_anybody_came(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody knows how long its steps take: what it does is said, and no verdict given."""
    program = start("cuda_train.py", "--hang-at", "30", ready="hung")
    time.sleep(1.0)
    assert cli.main(["diagnose", str(program.pid), "--json"]) == cli.COULD_NOT
    seen = json.loads(capsys.readouterr().out)
    assert (seen["state"], seen["findings"]) == ("not known", [])
    assert seen["ranks"][0]["doing"] == "waits for the GPU"
    with traindbg.attach(program.pid) as job:
        grads = job.grads(timeout=3)
        assert "not read" in grads.ranks[0].at
        assert not isinstance(job.memory(timeout=4).ranks[0].cuda, NotAvailable)
        saved = job.checkpoint(str(tmp_path / "ck"), timeout=4)
    assert (saved.taken, saved.exact) == ("hung", False)
    assert any("no step was seen before" in why for why in saved.inexact)
    good(tmp_path / "ck")


def test_long_kernels_are_no_hang(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    program = start("cuda_train.py", "--long-kernel", "2", timeout_s=90)
    with traindbg.attach(program.pid) as job:
        assert job.diagnose(timeout=20).findings == ()
        time.sleep(8)
        seen = job.diagnose(timeout=20)
    assert seen.findings == ()
    assert seen.state in ("healthy", "progressing")


def test_the_gil_is_held_in_a_call_to_cuda(start: Start) -> None:
    program = start("cuda_train.py", "--hang-at", "30", "--keep-gil", ready="hung")
    with traindbg.attach(program.pid) as job:
        seen = job.diagnose()
        assert not isinstance(job.stacks().processes[0].threads[0].holds_gil, NotAvailable)
    (finding,) = seen.findings
    assert finding.code == "gil_held"
    assert finding.where is not None
    assert finding.where.endswith(" wait_for_gpu")
