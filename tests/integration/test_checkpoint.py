"""Checkpoints of real jobs: healthy, hung and deadlocked ones, of one process, of DDP and of FSDP2, and with ranks gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from checkpointing import TWO_RANKS, Client, Gate, begun, command, good, losses, unwatched
from nbclient import NotebookClient
from small_trainings import Training
from support import Program, Start, running

import traindbg
from jupyter_traindbg import checkpoints
from jupyter_traindbg.errors import ActionRefused
from jupyter_traindbg.job import Job
from jupyter_traindbg.outside import procfs

STILL_S = 1.3
"""A job that made quick steps counts as hung after a second without one."""


@contextlib.contextmanager
def attached(program: Program) -> Iterator[Job]:
    """All ranks of a launcher, which are ended one by one at the end: a rank may outlive its launcher here."""
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        pids = [rank.pid for rank in job.ranks]
        try:
            yield job
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def only_the_scheduler_is_in_doubt(result: Any) -> None:
    """These programs have no DataLoader: what comes between the last step and the hang cannot be told apart."""
    (why,) = result.inexact
    assert why.startswith("ranks 0, 1: ")
    assert "scheduler" in why


def kill_rank_0(program: Program, job: Job) -> None:
    """End the launcher first, which would end the other rank, too."""
    program.process.kill()
    program.process.wait(10)
    os.kill(job.ranks[0].pid, signal.SIGKILL)
    while procfs.exists(job.ranks[0].pid):
        time.sleep(0.01)


def steps_of(result: Any) -> list[Sequence[int]]:
    return [list(rank.steps) for rank in result.ranks]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A training that runs through all tests that want one."""
    with running(tmp_path_factory.mktemp("healthy"), "train.py", "--sleep", "0.05") as program:
        yield program


# --- one process -------------------------------------------------------------------------------------------------------


def test_a_healthy_job_is_saved_and_goes_on_as_if_nothing_had_been(
    healthy: Program, start: Start, tmp_path: Path
) -> None:
    import torch

    program = healthy
    one = tmp_path / "one"
    with traindbg.attach(program.pid) as job:
        result = job.checkpoint(str(one))
        assert (result.taken, result.exact, result.findings, result.missing_ranks) == ("loop boundary", True, (), ())
        assert result.ranks[0].pause_s > 0, "it was measured"  # type: ignore[operator]
        assert "traindbg.resume" in str(result)
        step = result.ranks[0].steps[0]  # type: ignore[index]
        assert good(one, step=step).exact
        before = {p.name: p.read_bytes() for p in one.iterdir()}
        with pytest.raises(ActionRefused, match="exists already"):
            job.checkpoint(str(one))
        with pytest.raises(ActionRefused, match="rank 0: /proc/self/nowhere cannot be used"):
            job.checkpoint("/proc/self/nowhere/ck", overwrite=True)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").write_text("years of work")
        with pytest.raises(ActionRefused, match="no checkpoint of ours"):
            job.checkpoint(str(tmp_path / "mine"), overwrite=True)
        assert {p.name: p.read_bytes() for p in one.iterdir()} == before
        again = job.checkpoint(str(one), overwrite=True)
        assert good(one).step == again.ranks[0].steps[0] > step  # type: ignore[index]
        compared = job.compare(str(one))
        assert (compared.same, compared.differences) == (6, ())
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    model = torch.load(one / "model.pt", weights_only=True)
    assert list(model) == ["0.weight", "0.bias", "3.weight", "3.bias", "5.weight", "5.bias"]
    optimizer = torch.optim.AdamW([torch.nn.Parameter(value) for value in model.values()])
    optimizer.load_state_dict(torch.load(one / "optimizer.pt", weights_only=True))
    assert optimizer.state_dict()["state"][0]["step"].item() == good(one).step
    unwatched(start, program)


def test_at_a_terminal(healthy: Program, tmp_path: Path) -> None:
    program = healthy
    made = command(str(program.pid), "here", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert str(tmp_path / "here") in made.stdout
    assert "--verify" in made.stdout
    good(tmp_path / "here")
    as_json = command(str(program.pid), str(tmp_path / "two"), "--json")
    told = json.loads(as_json.stdout)
    assert (told["exact"], told["taken"], told["kind"], told["findings"]) == (True, "loop boundary", "replicated", [])
    there = command(str(program.pid), "here", cwd=tmp_path)
    assert (there.returncode, there.stdout) == (3, "")
    assert there.stderr.count("\n") == 1
    assert "exists already" in there.stderr
    assert command("--verify", "here", cwd=tmp_path).returncode == 0
    inspected = command("--inspect", "here", "--json", cwd=tmp_path)
    assert inspected.returncode == 0, inspected.stderr
    assert len(json.loads(inspected.stdout)["keys"]) == 6
    assert command("--compare", "here", "two", cwd=tmp_path).returncode == 0
    assert command("--compare", "here", str(program.pid), cwd=tmp_path).returncode == 0
    assert command("4711").returncode == 2


def test_a_job_that_hung_before_we_came_is_saved_and_the_result_says_what_is_lost(start: Start, tmp_path: Path) -> None:
    program = start("hung_after_steps.py")
    made = command(str(program.pid), str(tmp_path / "ck"), "--json", "--timeout", "3")
    assert made.returncode == 1, made.stderr
    told = json.loads(made.stdout)
    assert (told["taken"], told["exact"], told["ranks"][0]["pause_s"]["not_available"]) == (
        "hung",
        False,
        "it made no steps anyway",
    )
    assert [finding["code"] for finding in told["findings"]] == ["checkpoint_not_exact"]
    assert not good(tmp_path / "ck").exact


# --- two ranks -----------------------------------------------------------------------------------------------------------


def test_ddp_healthy_then_hung_then_with_one_rank_left(start: Start, free_port: str, tmp_path: Path) -> None:
    words = ["--hang", "400", "--sleep", "0.01"]
    program = start("sharded.py", *words, command=[*TWO_RANKS, free_port], timeout_s=90)
    with attached(program) as job:
        healthy = job.checkpoint(str(tmp_path / "healthy"))
        assert (healthy.taken, healthy.exact, healthy.kind) == ("loop boundary", True, "replicated")
        assert steps_of(healthy)[0] == steps_of(healthy)[1]
        assert good(tmp_path / "healthy").steps == dict.fromkeys((0, 1), healthy.ranks[0].steps[0])  # type: ignore[index]
        assert {"rank-0.pt", "rank-1.pt", "model.pt"} <= {f.name for f in healthy.files}
        program.wait_for("hung")
        time.sleep(STILL_S)
        hung = job.checkpoint(str(tmp_path / "hung"), timeout=4)
        assert (hung.taken, hung.missing_ranks, steps_of(hung)) == ("hung", (), [[400], [400]])
        only_the_scheduler_is_in_doubt(hung)
        good(tmp_path / "hung", step=400)
        kill_rank_0(program, job)
        alone = job.checkpoint(str(tmp_path / "alone"), timeout=4)
        assert (alone.missing_ranks, alone.exact, [r.rank for r in alone.ranks]) == ((0,), False, [1])
        assert "rank 0 had no part in it" in alone.findings[0].evidence[0]
        assert good(tmp_path / "alone", step=400).ranks == (1,)
        assert (tmp_path / "alone" / "model.pt").read_bytes() == (tmp_path / "hung" / "model.pt").read_bytes()
    assert all(int(line.split()[1]) <= 400 for line in losses(program))


def test_fsdp2_healthy_then_deadlocked_then_with_a_rank_gone(start: Start, free_port: str, tmp_path: Path) -> None:
    words = ["--mode", "fsdp2", "--hang", "200", "--sleep", "0.01"]
    program = start("sharded.py", *words, command=[*TWO_RANKS, free_port], timeout_s=90)
    with attached(program) as job:
        healthy = job.checkpoint(str(tmp_path / "healthy"))
        assert (healthy.taken, healthy.exact, healthy.kind) == ("loop boundary", True, "sharded")
        assert steps_of(healthy)[0] == steps_of(healthy)[1]
        good(tmp_path / "healthy")
        program.wait_for("hung")
        hung = job.checkpoint(str(tmp_path / "hung"), timeout=4)  # at once: it is not known to hang yet
        assert (hung.taken, hung.missing_ranks, steps_of(hung)) == ("hung", (), [[200], [200]])
        only_the_scheduler_is_in_doubt(hung)
        good(tmp_path / "hung", step=200)
        assert "torch.distributed.checkpoint.load" in str(hung)
        kill_rank_0(program, job)
        with pytest.raises(ActionRefused, match="the shards of rank 0 are missing"):
            job.checkpoint(str(tmp_path / "alone"))
        assert not (tmp_path / "alone").exists()
    whole(tmp_path / "hung")


def whole(directory: Path) -> None:
    """A sharded checkpoint is a standard one: torch's own tools make one file of it."""
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(directory, directory.parent / "whole.pt")
    state = torch.load(directory.parent / "whole.pt", weights_only=True)
    flat = json.dumps(dict.fromkeys(_flat(state)))
    assert "model.inner.0.weight" in flat
    assert "exp_avg" in flat


def _flat(tree: Any, above: str = "") -> Iterator[str]:
    for key, value in tree.items():
        name = f"{above}.{key}" if above else str(key)
        yield name
        if isinstance(value, dict):
            yield from _flat(value, name)


def test_ranks_on_both_sides_of_a_step(start: Start, free_port: str, tmp_path: Path) -> None:
    program = start("sharded.py", "--straddle", "9", command=[*TWO_RANKS, free_port], ready="hung", timeout_s=90)
    with attached(program) as job:
        program.wait_for("\n0 9 ")
        with pytest.raises(ActionRefused, match="rank 0 at step 9; rank 1 at step 8") as refused:
            job.checkpoint(str(tmp_path / "ck"), timeout=3)
        assert "--allow-mixed" in refused.value.next_step
        assert list(tmp_path.glob("*ck*")) == []
        mixed = job.checkpoint(str(tmp_path / "ck"), timeout=2, allow_mixed=True)
        assert (mixed.mixed, mixed.exact, steps_of(mixed)) == (True, False, [[9], [8]])
    manifest = checkpoints.read_manifest(tmp_path / "ck")
    assert (manifest.mixed, manifest.steps, manifest.sealed) == (True, {0: 9, 1: 8}, True)
    assert [f.code for f in checkpoints.verify(tmp_path / "ck").findings] == ["checkpoint_mixed_steps"]


# --- in a notebook ---------------------------------------------------------------------------------------------------------


def test_in_a_notebook(healthy: Program, tmp_path: Path) -> None:
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=60, kernel_name="python3", allow_errors=True)

    def run(source: str) -> str:
        cell = nbformat.v4.new_code_cell(source)
        client.nb.cells.append(cell)
        client.execute_cell(cell, len(client.nb.cells) - 1)
        return "".join(
            o.get("text", "") + o.get("data", {}).get("text/plain", "") + o.get("evalue", "") for o in cell.outputs
        )

    ck = tmp_path / "ck"
    with client.setup_kernel():
        run(f"%load_ext traindbg\n%attach {healthy.pid}")
        assert "saved, and exact" in run(f"%checkpoint {ck}")
        again = run(f"%checkpoint {ck}")
        assert "exists already" in again
        assert "Traceback" not in again
        assert run(f"x = %checkpoint {ck} --overwrite\nprint(x.exact, x.kind)") == "True replicated\n"
        assert "every byte" in run(f"%checkpoint --verify {ck}")
        assert "--allow-mixed" in run("print(get_ipython().find_line_magic('checkpoint').__doc__)")
    good(ck)


def test_a_forked_child_that_ends_leaves_the_checkpoint_and_the_agent_alone(client: Client, gate: Gate) -> None:
    training = Training(600)
    training.step()
    begun(client, gate)
    child = os.fork()
    if child == 0:
        try:
            client.agent._at_exit()  # as it is registered
        finally:
            os._exit(0)  # pytest goes on in its own process alone
    os.waitpid(child, 0)
    gate.open()
    client.commit(client.finished())
    good(client.directory)
    assert os.path.isdir(client.agent.directory)
