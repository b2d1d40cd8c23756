"""Two ranks of a real NCCL job on one GPU: its flight recorder live and on disk, its RAS service, its hangs, and what is saved of it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpointing import TWO_RANKS, good
from cuda_support import torch
from support import Program, Start

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.model import RasReport
from jupyter_traindbg.outside import procfs, ras

if not torch.distributed.is_nccl_available():
    pytest.skip("needs a torch with NCCL", allow_module_level=True)
if torch.cuda.nccl.version() < (2, 28):
    pytest.skip("needs NCCL 2.28 for RAS in JSON", allow_module_level=True)

Job = Callable[..., Program]
WAIT_S = 3.0


@pytest.fixture
def job(start: Start, tmp_path: Path) -> Job:
    """``job("skip")``: two ranks that train, in a folder of their own, until `hang` is called."""

    def run(how: str) -> Program:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = str(s.getsockname()[1])
        folder = tmp_path / f"job-{port}"
        folder.mkdir()
        dumps = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
        for name in (
            "TORCH_FR_DUMP_TEMP_FILE",
            "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        ):  # its name since torch 2.9, and before
            dumps[name] = str(folder / "nccl_trace_rank_")
        program = start("nccl_ranks.py", str(folder), "--how", how, command=[*TWO_RANKS, port], env=dumps, timeout_s=90)
        program.folder = folder  # type: ignore[attr-defined]
        return program

    return run


def hang(program: Program) -> None:
    (program.folder / "go").touch()  # type: ignore[attr-defined]
    ends = time.monotonic() + 30
    while program.output().count("hung") < 2:
        assert time.monotonic() < ends, program.output()
        time.sleep(0.05)
    time.sleep(WAIT_S)


def asked(verb: str, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = cli.main([verb, *words, "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, answer


def ranks_of(program: Program) -> list[int]:
    return [p.pid for p in procfs.children([program.pid], procfs.processes())]


def test_a_rank_that_leaves_a_collective_out(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    program = job("skip")
    target = f"torchrun:{program.pid}"
    status, healthy = asked("nccl-check", target, capsys=capsys)
    assert (status, healthy["findings"]) == (0, [])
    assert {(g["backend"], tuple(g["ranks"])) for r in healthy["ranks"] for g in r["groups"]} == {("nccl", (0, 1))}

    hang(program)
    status, answer = asked("nccl-check", target, capsys=capsys)
    assert status == 1
    (finding,) = answer["findings"]
    assert (finding["code"], finding["who"]) == ("collective_not_issued", ["rank 1"])
    assert finding["where"].endswith(" wait_for_shard")
    with traindbg.attach(target) as attached:
        seen = attached.diagnose()
    assert seen.state == "stuck"
    (why,) = seen.findings
    assert (why.code, tuple(why.who)) == ("python_wait", ("rank 1",))
    assert any("rank 0 waits in all_reduce" in line for line in why.evidence)
    assert any("issued fewer AllReduce" in line for line in why.evidence), "RAS says so, too"
    assert seen.ranks[0].doing.startswith("waits in all_reduce")


def test_the_kernel_before_a_collective_never_ends_and_the_job_is_saved(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = job("kernel")
    with traindbg.attach(f"torchrun:{program.pid}") as attached:
        time.sleep(0.5)
        hang(program)
        (finding,) = attached.diagnose().findings
        assert finding.code == "hang_unexplained"
        assert "does not complete" in finding.title
        saved = attached.checkpoint(str(tmp_path / "ck"))
    assert (saved.taken, saved.exact, saved.mixed) == ("hung", False, False)
    assert any("1 optimizer step still to do" in why for why in saved.inexact)
    good(tmp_path / "ck")


def test_what_the_watchdog_of_torch_writes_at_its_time_out(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    program = job("timeout")
    hang(program)
    folder: Path = program.folder  # type: ignore[attr-defined]
    ends = time.monotonic() + 60
    while len(list(folder.glob("nccl_trace_rank_?"))) < 2:
        assert time.monotonic() < ends, program.output()
        time.sleep(0.2)
    time.sleep(1.0)
    program.stop()
    status, answer = asked("nccl-check", str(folder), capsys=capsys)
    assert (status, answer["world_size"], answer["silent"]) == (1, 2, [])
    (finding,) = answer["findings"]
    assert (finding["code"], finding["who"]) == ("collective_not_issued", ["rank 1"])
    found = traindbg.diagnose_log(str(program.log))
    assert (found[0].code, found[0].who[0]) == ("nccl_timeout", "rank 1")


def test_of_two_jobs_on_a_host_each_has_its_own_report(job: Job) -> None:
    """All their processes listen on one port, and whichever the kernel picks answers."""
    for program in [job("skip"), job("skip")] * 4:
        pids = ranks_of(program)
        report = ras.report(pids, 5.0)
        assert isinstance(report, RasReport), report
        (communicator,) = report.communicators
        assert communicator.size == 2
        assert sorted(r.pid for r in communicator.ranks) == sorted(pids)
        assert all(r.state == "running" and r.counts["AllReduce"] > 0 for r in communicator.ranks)
