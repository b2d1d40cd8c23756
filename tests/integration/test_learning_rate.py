"""Settings of live jobs: the same step on all ranks or none, whoever is stopped or killed, and bit-exact against code that says so."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import Program, Start, running, until
from traces import footprint, settled

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.attach.discover import launcher_ranks
from jupyter_traindbg.errors import ActionRefused
from jupyter_traindbg.job import Job, connect
from jupyter_traindbg.model import available

PINNED = 2.5e-3
LONG_S = 600.0
"""The deadline of a call that is to come back long before: longer than its test may take."""


def printed(program: Program) -> dict[str, str]:
    """``"RANK STEP"`` -> its loss as printed, ``"RANK parameters"`` -> their SHA-256."""
    return dict(re.findall(r"^(\d \w+) (\S+)$", program.output(), re.MULTILINE))


def lrs(job: Job) -> list[dict[int, float]]:
    """For each rank, the learning rate that each step used, by the optimizer's own count."""
    return [{s.optimizer_step or 0: s.lr[0] or 0.0 for s in rank.steps} for rank in job.steps().ranks]


def assert_ranks_agree(job: Job) -> None:
    one, other = lrs(job)
    shared = one.keys() & other.keys()
    assert len(shared) > 3
    assert {step: one[step] for step in shared} == {step: other[step] for step in shared}


def program_step(program: Program, job: Job, local: int) -> int:
    """The number by the program's own count of the step that the agent of rank 0 counts as `local`."""
    loss = next(s.loss for s in job.steps().ranks[0].steps if s.step == local)
    assert loss is not None
    (step,) = {int(key[2:]) for key, value in printed(program).items() if key[0] == "0" and value == loss.hex()}
    return step


# --- bit-exact ------------------------------------------------------------------------------------------------------


def test_two_ranks_with_a_live_change_are_bit_identical_to_code_that_has_it(start: Start) -> None:
    """AdamW, whose ranks tell steps by its own count, and SGD, which has none; the agents of the latter come at different times."""
    words = {name: ["--optimizer", name, "--steps", "250", "--sleep", "0.01"] for name in ("adamw", "sgd")}
    live = {name: start("tuned.py", *words[name], ready=None) for name in words}
    steps = {}
    for name, program in live.items():
        program.wait_for("ready", 90)
        if name == "sgd":
            with traindbg.attach(launcher_ranks(program.pid)[1].pid) as alone:
                alone.keep()
                until(lambda: len(alone.steps().ranks[0].steps) > 3, "some steps that only its agent counts")
        with traindbg.attach(f"torchrun:{program.pid}") as job:
            changed = job.set_lr(PINNED)
            assert [rank.state for rank in changed.ranks] == ["verified", "verified"], changed.to_dict()
            after = changed.ranks[0].after_step
            assert isinstance(after, int)
            steps[name] = program_step(program, job, after + 1)
            if name == "adamw":
                assert changed.ranks[0].optimizer_step == changed.ranks[1].optimizer_step == steps[name]
            else:
                assert changed.ranks[1].after_step != after, "its agents came at different times"
                assert not available(changed.ranks[0].optimizer_step)
    reference = {
        name: start("tuned.py", *words[name][:4], "--lr-at", str(steps[name]), str(PINNED), ready=None)
        for name in words
    }
    for name, program in live.items():
        assert program.wait(90) == reference[name].wait(90) == 0
        assert len(printed(program)) == 2 * 250 + 2
        assert printed(program) == printed(reference[name]), name
        assert printed(program)["0 parameters"] == printed(program)["1 parameters"]


# --- all ranks or none -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Two ranks that train for ever."""
    with running(tmp_path_factory.mktemp("ranks"), "tuned.py", "--sleep", "0.005") as program:
        yield program


@pytest.fixture
def ranks(trained: Program) -> Iterator[tuple[Program, Job]]:
    """They, and a job attached to them, in which nothing is in force: whatever test came before, and however it ended."""
    with traindbg.attach(f"torchrun:{trained.pid}") as job:
        if any(rank.in_force for rank in job.lr().ranks):
            job.release()
        yield trained, job


def test_changes_add_up_are_logged_and_can_be_taken_back(ranks: tuple[Program, Job]) -> None:
    _, job = ranks
    halved = job.set_lr(scale=0.5)
    assert halved.change == "learning rate: the schedule x 0.5"
    held = job.set_lr(hold=True)
    (row,) = held.ranks[1].groups
    assert row.after == row.before == held.ranks[0].groups[0].after
    assert available(row.scheduled)
    assert row.before == pytest.approx(0.5 * row.scheduled)
    shown = job.lr()
    for rank in shown.ranks:
        assert [(a.setting, a.effective) for a in rank.in_force] == [("lr", row.after)]
        assert [e.change for e in rank.log][-2:] == [halved.change, held.change]
        assert rank.log[-1].step == held.ranks[rank.rank].after_step + 1  # type: ignore[operator]
        (group,) = rank.optimizers[0].groups
        assert group.effective_lr == row.after != group.lr
    assert "in force" in str(shown)
    assert "hold" in str(shown)
    assert [g.action for g in job.undo().ranks[0].groups] == ["scale 0.5"]
    decayed = job.set_weight_decay(0.05, group=0)
    clipped = job.clip(1.0)
    assert {r.state for c in (decayed, clipped) for r in c.ranks} == {"in force"}
    assert {a.setting for a in job.lr().ranks[0].in_force} == {"lr", "weight_decay", "clip_norm"}
    released = job.release()
    assert {g.action for g in released.ranks[0].groups} == {"released"}
    assert job.lr().ranks[1].in_force == ()
    assert_ranks_agree(job)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda job: job.set_lr(100.0), "force"),
        (lambda job: job.set_lr(1e-3, group=7), "no group 7"),
        (lambda job: job.set_lr(1e-3, optimizer=3), "no optimizer 3"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    ranks: tuple[Program, Job], change: Callable[[Job], Any], why: str
) -> None:
    _, job = ranks
    before = [len(rank.log) for rank in job.lr().ranks]
    with pytest.raises(ActionRefused, match=why) as refused:
        change(job)
    assert "\n" not in str(refused.value)
    assert [len(rank.log) for rank in job.lr().ranks] == before


def test_one_rank_alone_is_refused(ranks: tuple[Program, Job]) -> None:
    _, job = ranks
    with (
        traindbg.attach(job.ranks[1].pid) as alone,
        pytest.raises(ActionRefused, match="rank 1 of 2: rank 0 would not change"),
    ):
        alone.set_lr(1e-3)
    assert job.lr().ranks[1].in_force == ()
    job.set_lr(1e-3)
    with traindbg.attach(job.ranks[1].pid) as alone, pytest.raises(ActionRefused, match="on rank 1 alone"):
        alone.detach()
    assert [len(rank.in_force) for rank in job.lr().ranks] == [1, 1]
    job.release()


def test_a_rank_that_is_stopped_is_named_and_nothing_changes(ranks: tuple[Program, Job]) -> None:
    _, job = ranks
    before = [len(rank.log) for rank in job.lr().ranks]
    stopped = job.ranks[1].pid
    os.kill(stopped, signal.SIGSTOP)
    try:
        with connect(job.name) as another:
            for client in (job, another):
                with pytest.raises(ActionRefused, match=rf"rank 1 \(pid {stopped}\) cannot take part: it is stopped"):
                    client.set_lr(1e-3, timeout=4)
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert job.set_lr(1e-3).ranks[0].state == "verified"
    assert [len(rank.log) for rank in job.lr().ranks] == [n + 1 for n in before]
    job.undo()
    assert_ranks_agree(job)


CLIENT = """
import itertools, sys
from jupyter_traindbg import cli
from jupyter_traindbg.attach.discover import launcher_ranks
print("go", flush=True)
for i in itertools.count():
    assert cli.main(["lr", sys.argv[1], "--scale", str(0.5 + i % 7 / 100)]) == 0
"""


def settled_changes(job: Job, wait_s: float = 30.0) -> int:
    """How many changes both ranks have made, the same ones, once what was decided for a step ahead has been done."""
    ends = time.monotonic() + wait_s
    while True:
        one, other = ([(e.change, e.groups) for e in rank.log] for rank in job.lr().ranks)
        if one == other or time.monotonic() > ends:
            assert one == other
            return len(one)
        time.sleep(0.02)


def test_a_client_killed_at_any_moment_leaves_the_ranks_agreed(ranks: tuple[Program, Job]) -> None:
    _, job = ranks
    chance = random.Random(7)
    before = changes = settled_changes(job)
    for attempt in range(10):
        client = subprocess.Popen([sys.executable, "-c", CLIENT, job.name], stdout=subprocess.PIPE)
        assert client.stdout is not None
        assert client.stdout.readline() == b"go\n"
        if attempt == 0:
            until(lambda: len(job.lr().ranks[0].log) > before, "a change by that client")
        time.sleep(chance.uniform(0.0, 0.6))
        client.kill()
        client.wait(10)
        client.stdout.close()
        changes = settled_changes(job)
        assert_ranks_agree(job)
    assert changes > before
    job.set_lr(5e-3)
    assert_ranks_agree(job)


def test_detaching_ends_it_and_says_so(ranks: tuple[Program, Job]) -> None:
    """Nothing is left behind."""
    _, job = ranks
    job.set_lr(1e-3)
    with traindbg.attach(job.name) as other:
        detached = other.detached()
        assert detached.processes == 2
        assert [a.action for a in detached.released] == ["hold 0.001"]
        assert detached.note == ""
        assert "schedule counts again" in str(detached)
    with traindbg.attach(job.name) as again:
        assert [rank.in_force for rank in again.lr().ranks] == [(), ()]


# --- a single process, from the terminal ----------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_a_change_from_the_terminal_stays_until_detached(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    program = start("train.py", "--sleep", "0.01")
    before = footprint(program.pid)
    pid = str(program.pid)
    status, out, _ = run(capsys, "lr", pid, "5e-4", "--json")
    (rank,) = json.loads(out)["ranks"]
    assert (status, rank["state"], rank["groups"][0]["after"]) == (0, "verified", 5e-4)
    status, out, _ = run(capsys, "lr", pid)
    assert status == 0
    assert "hold 0.0005" in out
    for words, wanted in {
        ("lr", pid, "--scale", "0.5"): "schedule x 0.5",
        ("lr", pid, "--hold"): "lr stays ",
        ("weight-decay", pid, "0.05"): "weight decay is 0.05",
        ("clip", pid, "1.0"): "clip norm is 1",
        ("clip", pid, "--release"): "gradient clipping released",
        ("clip", pid, "--undo"): "the last change of the gradient clipping undone",
    }.items():
        status, out, _ = run(capsys, *words)
        assert (status, wanted in " ".join(out.split())) == (0, True), out
    status, _, err = run(capsys, "lr", pid, "--undo")
    assert (status, err.count("\n")) == (3, 1)
    assert "the last change was one of the norm to clip at, and not of the learning rate" in err
    status, _, err = run(capsys, "lr", pid, "50")
    assert (status, err.count("\n")) == (3, 1)
    assert "force" in err
    status, out, _ = run(capsys, "detach", pid)
    assert status == 0
    assert "schedule counts again" in out
    assert settled(program.pid, before) == before


def test_a_job_that_does_not_step_is_armed(start: Start) -> None:
    program = start("hung_after_steps.py")
    with traindbg.attach(program.pid) as job:
        changed = job.set_lr(1e-3, timeout=LONG_S)  # it does not wait for a step
        assert [rank.state for rank in changed.ranks] == ["armed"]
        assert "takes effect at the next step" in str(changed)
        assert job.detach() == 1


def test_in_the_process_that_trains_it_is_done_at_once() -> None:
    """Its training thread is the one that asks, so no step can come meanwhile."""
    code = (
        "import torch, traindbg\n"
        "parameter = torch.nn.Parameter(torch.ones(2)); parameter.grad = torch.ones(2)\n"
        "optimizer = torch.optim.SGD([parameter], lr=0.5)\n"
        "optimizer.step()\n"
        "with traindbg.attach('self') as job:\n"
        "    long = {'timeout': 600.0}\n"
        "    changes = (job.set_lr, {'value': 0.25}), (job.set_lr, {'scale': 0.1}), (job.undo, {}), (job.release, {})\n"
        "    for change, words in changes:\n"
        "        change(**words, **long)\n"
        "        optimizer.step()\n"
        "    print([step.lr[0] for step in job.steps().ranks[0].steps], optimizer.param_groups[0]['lr'])\n"
        "    job.detach()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout == "[0.25, 0.05, 0.25, 0.5] 0.5\n", ended.stderr
