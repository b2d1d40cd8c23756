"""Trainings without an optimizer, and steps that take minutes or never come: what is said of them is true, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cases import each
from support import Program, Start, torchrun, until
from visits import losses_of

import traindbg
from jupyter_traindbg.errors import ActionRefused

KINDS = ("by-hand", "tensors", "lbfgs", "accumulating", "skipping")


def program(start: Start, kind: str, *words: str) -> Program:
    return start("odd_steps.py", kind, "--sleep", "0.03", *words)


def losses(program: Program) -> dict[int, float]:
    return {int(number): loss for number, loss in losses_of(program).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_looking_changes_no_loss(start: Start, kind: str) -> None:
    disturbed = program(start, kind)
    for _ in range(2):
        with traindbg.attach(disturbed.pid) as job:
            for timeout in (2.0, 1.0):
                assert job.grads(timeout=timeout).ranks[0].safe_point
            job.memory(timeout=1.0)
            job.steps(timeout=1.0)
            assert job.detach() > 0
    seen = len(losses(disturbed))
    until(lambda: len(losses(disturbed)) > seen + 20, "passes after we have gone")
    disturbed.stop()
    told = losses(disturbed)
    undisturbed = start("odd_steps.py", kind, "--passes", str(len(told)))
    assert undisturbed.wait(60) == 0
    assert losses(undisturbed) == told


# --- no optimizer -----------------------------------------------------------------------------------------------------


def test_steps_by_hand_are_recorded_judged_and_saved(start: Start, tmp_path: Path) -> None:
    trained = program(start, "by-hand")
    with traindbg.attach(trained.pid) as job:
        until(lambda: len(job.steps().ranks[0].steps) > 10, "steps")
        steps = job.steps().ranks[0].steps
        assert {s.loss for s in steps[:-1]} <= set(losses(trained).values())
        assert {s.optimizer for s in steps} == {None}
        assert {s.clip_norm for s in steps[:-1]} == {1.0}
        assert "each backward pass counts as a step" in str(job.steps())
        diagnosis = job.diagnose()
        checks = {check.topic: check for check in diagnosis.checks}
        saved = job.checkpoint(tmp_path / "saved")
    assert (diagnosis.state, diagnosis.verdict) == ("healthy", ())
    assert checks["gradients"].state == "fine"
    assert checks["learning rate"].state == "not known"
    assert "the program's own" in checks["learning rate"].words
    assert (saved.taken, saved.exact) == ("loop boundary", False)
    assert any("no optimizer of torch's was found" in why for why in saved.inexact)
    weights = torch.load(tmp_path / "saved" / "model.pt", weights_only=True)
    assert all(bool(w.isfinite().all()) for w in weights.values())


def test_a_loss_that_is_lost_by_hand_is_the_first_finding(start: Start) -> None:
    lost = program(start, "by-hand", "--lr", "1e30")
    with traindbg.attach(lost.pid) as job:
        found = job.diagnose()
    assert found.verdict[0].code == "nonfinite_loss"
    assert found.verdict[0].severity == "critical"


def test_ranks_by_hand_are_compared_and_saved_at_one_step(start: Start, free_port: str, tmp_path: Path) -> None:
    trained = start("odd_steps.py", "by-hand", "--sleep", "0.03", command=torchrun(2, free_port), timeout_s=90)
    with traindbg.attach(f"torchrun:{trained.pid}") as job:
        until(lambda: all(len(r.steps) > 3 for r in job.steps().ranks), "steps of both ranks")
        grads = job.grads()
        saved = job.checkpoint(tmp_path / "saved")
    assert grads.same_step is True
    assert grads.ranks[0].total_norm == pytest.approx(grads.ranks[1].total_norm)
    assert (saved.taken, saved.mixed, len(saved.ranks)) == ("loop boundary", False, 2)


def test_tensors_of_no_module_have_the_names_of_their_variables(start: Start) -> None:
    trained = program(start, "tensors")
    with traindbg.attach(trained.pid) as job:
        until(lambda: len(job.steps().ranks[0].steps) > 3, "steps")
        assert {g.name for g in job.grads().ranks[0].grads} == {"first", "second"}
        with pytest.raises(ActionRefused, match="changes its weights by itself"):
            job.set_lr(0.1)


# --- steps that do not come -------------------------------------------------------------------------------------------


@each(
    "kind, words",
    [
        ("lbfgs", "LBFGS.step() is under way, and evaluates its closure again and again"),
        ("accumulating", "gradients are being accumulated"),
        ("skipping", "and has skipped every one"),
    ],
)
def test_what_comes_in_the_place_of_steps_is_told(start: Start, kind: str, words: str) -> None:
    trained = program(start, kind)
    with traindbg.attach(trained.pid) as job:
        grads = job.grads(timeout=2.0).ranks[0]
        steps = job.steps(timeout=2.0)
        diagnosis = job.diagnose()
    assert grads.safe_point
    assert grads.passes is not None
    assert grads.passes > 0
    assert len(grads.grads) == 4
    assert steps.ranks[0].steps == ()
    assert words in " ".join(str(steps).split())
    assert diagnosis.state == ("unsound" if kind == "skipping" else "progressing")
    assert ("scaler_skips" in [f.code for f in diagnosis.verdict]) is (kind == "skipping")
    assert any("backward passes during the look" in why for why in diagnosis.why)


def test_weights_of_a_closure_are_no_checkpoint(start: Start, tmp_path: Path) -> None:
    trained = program(start, "lbfgs")
    with traindbg.attach(trained.pid) as job:
        job.grads(timeout=1.0)
        with pytest.raises(ActionRefused, match=r"middle of optimizer\.step"):
            job.checkpoint(tmp_path / "saved", timeout=2.0)
    assert not (tmp_path / "saved").exists()


def test_while_gradients_are_accumulated_the_weights_can_be_saved(start: Start, tmp_path: Path) -> None:
    trained = program(start, "accumulating")
    with traindbg.attach(trained.pid) as job:
        saved = job.checkpoint(tmp_path / "saved", timeout=2.0)
    assert saved.taken == "hung"
    assert "no step came, and it was saved as it stood" in str(saved)
    torch.manual_seed(0)
    first = torch.nn.Linear(16, 64)
    weights = torch.load(tmp_path / "saved" / "model.pt", weights_only=True)
    assert torch.equal(weights["0.weight"], first.weight)
