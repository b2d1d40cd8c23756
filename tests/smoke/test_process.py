"""One plain process: entered, looked at by every verb, changed and put back, and left as it was."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from support import Program, Start
from traces import footprint, settled
from visits import ask_everything, losses_of, visit

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.model import Wait


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What a verb says as JSON, whether it found something or not."""
    status = cli.main([*words, "--json"])
    out, err = capsys.readouterr()
    assert status in (cli.DONE, cli.FINDINGS), (words, err)
    found: dict[str, Any] = json.loads(out)
    return found


def test_every_verb_answers_and_nothing_is_left(trainee: Program, capsys: pytest.CaptureFixture[str]) -> None:
    pid = str(trainee.pid)
    before = footprint(trainee.pid)
    assert [t["pid"] for t in answer(capsys, "targets")["targets"] if str(t["pid"]) == pid] == [trainee.pid]
    assert answer(capsys, "attach", pid)["ranks"][0]["way"] == "injected"
    (seen,) = answer(capsys, "stacks", pid)["processes"]
    assert (seen["source"], seen["threads"][0]["training"]) == ("agent", True)
    assert any(f["function"] == "main" and f["file"].endswith("train.py") for f in seen["threads"][0]["frames"])
    assert [g["name"] for g in answer(capsys, "grads", pid)["ranks"][0]["grads"]][:2] == ["0.weight", "0.bias"]
    (optimizer,) = answer(capsys, "lr", pid)["ranks"][0]["optimizers"]
    assert (optimizer["optimizer"], optimizer["scheduler"]) == ("AdamW", "CosineAnnealingLR")
    (cpu,) = answer(capsys, "memory", pid)["ranks"][0]["shares"]
    assert cpu["optimizer_bytes"] >= 2 * cpu["parameters_bytes"] > 0
    steps = answer(capsys, "steps", pid, "--last", "3")["ranks"][0]["steps"]
    printed = losses_of(trainee)
    assert [printed[str(s["optimizer_step"])] for s in steps] == [s["loss"] for s in steps]
    assert answer(capsys, "diagnose", pid)["findings"] == []
    assert answer(capsys, "nccl-check", pid)["ranks"][0]["pid"] == trainee.pid
    assert "OMP_NUM_THREADS" in [row["name"] for row in answer(capsys, "environ", pid)["rows"]]
    status = cli.main(["gpu", pid, "--json"])
    out, err = capsys.readouterr()
    if status == cli.COULD_NOT:  # there is none here, and that is told
        assert ("NVIDIA" in json.loads(out)["problem"], err.count("\n")) == (True, 1)
    else:
        assert json.loads(out)["devices"]
    assert answer(capsys, "watch", pid, "--once")["state"] == "training"
    assert answer(capsys, "detach", pid)["processes"] == 1
    assert settled(trainee.pid, before) == before


def test_a_run_that_was_visited_gives_the_same_losses_to_the_last_bit(start: Start) -> None:
    words = ["--steps", "900", "--sleep", "0.02", "--workers", "2"]
    undisturbed, disturbed = start("train.py", *words), start("train.py", *words)
    visit(disturbed.pid)
    assert len(losses_of(disturbed)) < 900, "it ended before we were done with it"
    assert disturbed.wait() == undisturbed.wait() == 0
    assert len(losses_of(disturbed)) == 900
    assert losses_of(disturbed) == losses_of(undisturbed)


def test_a_rate_is_changed_and_released_from_the_terminal(trainee: Program, capsys: pytest.CaptureFixture[str]) -> None:
    pid = str(trainee.pid)
    before = footprint(trainee.pid)
    # The schedule may be anywhere between 1e-3 and nothing by now.
    (rank,) = answer(capsys, "lr", pid, "5e-4", "--force")["ranks"]
    assert (rank["state"], rank["groups"][0]["after"]) == ("verified", 5e-4)
    (shown,) = answer(capsys, "lr", pid)["ranks"][0]["in_force"]
    assert (shown["action"], shown["effective"]) == ("hold 0.0005", 5e-4)
    assert cli.main(["lr", pid, "50"]) == 3
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "--force" in err, "an absurd rate is refused, and the way round it is told"
    assert answer(capsys, "lr", pid, "--release")["ranks"][0]["groups"][0]["action"] == "released"
    assert settled(trainee.pid, before) == before, "with nothing in force any more the agent has left"


def test_bad_input_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words, status, wanted in (
        (["stacks", "4194000"], 3, "there is no process 4194000"),
        (["attach", "nonsense"], 2, "is not a target"),
        (["steps", "torchrun:4194000"], 3, "4194000"),
        (["checkpoint", "4711"], 2, "directory"),
    ):
        assert cli.main(words) == status, words
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), wanted in err) == ("", 1, True), (words, err)


def test_a_process_that_was_started_prepared_is_found_and_keeps_its_agent(start: Start) -> None:
    program = start("prepared.py", env={"TRAINDBG": "1"})
    with traindbg.attach(program.pid) as job:
        assert [r.way for r in job.ranks] == ["found running"]
        assert job.steps(last=1).ranks[0].steps
    assert footprint(program.pid).directory


def test_while_c_code_holds_the_gil_the_outside_answers(start: Start) -> None:
    program = start("gil_held_later.py", ready="free")
    os.kill(program.pid, signal.SIGUSR1)
    program.wait_for("held")
    with traindbg.attach(program.pid, timeout=5) as job:
        assert "GIL" in job.ranks[0].note
        stacks = job.stacks(timeout=2).processes[0]
        assert stacks.source == "py-spy"
        assert any(t.holds_gil is True for t in stacks.threads)


def test_a_hung_training_is_read_where_it_stands(start: Start) -> None:
    program = start("hung_after_steps.py")
    with traindbg.attach(program.pid) as job:
        (rank,) = job.grads(timeout=4).ranks
        assert not rank.safe_point
        assert "not at a safe point" in rank.at
        assert [g.name for g in rank.grads] == ["weight", "bias"]
        assert job.stacks().processes[0].threads[0].waiting_for == Wait("native")


def test_a_stopped_process_is_looked_at_from_outside(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    os.kill(program.pid, signal.SIGSTOP)
    with traindbg.attach(program.pid, timeout=3) as job:
        assert not job.ranks[0].agent
        assert "-CONT" in job.ranks[0].note
        assert job.stacks(timeout=3).processes[0].source == "py-spy"


def test_two_clients_share_one_agent_and_the_last_one_takes_it_along(trainee: Program) -> None:
    before = footprint(trainee.pid)
    first = traindbg.attach(trainee.pid)
    with traindbg.attach(trainee.pid) as second:
        assert [r.way for r in second.ranks] == ["found running"]
        first.close()
        ask_everything(second)
    assert settled(trainee.pid, before) == before
