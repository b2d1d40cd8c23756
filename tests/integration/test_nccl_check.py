"""`nccl-check` and `Job.collectives` on real gloo jobs: healthy, hung, with half of it stopped, and from the dumps that it wrote."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hangs import HANGS, running
from support import PROGRAMS, Program, Start, torchrun

from jupyter_traindbg import cli
from jupyter_traindbg.job import attach
from jupyter_traindbg.model import Collectives


@pytest.fixture
def job(start: Start, tmp_path: Path, free_port: str) -> Program:
    """Four ranks that train, until the file ``dumps/go`` is made."""
    (tmp_path / "dumps").mkdir()
    launcher = [sys.executable, "-u", str(HANGS / "torchrun"), "--nproc-per-node", "4", "--master-port", free_port]
    return start("dumps_flights.py", str(tmp_path / "dumps"), command=launcher)


def nccl_check(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = cli.main(["nccl-check", *words, "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, answer


def test_a_job_that_is_healthy_then_hangs_then_is_half_stopped_then_is_gone(
    job: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, dumps = f"torchrun:{job.pid}", tmp_path / "dumps"
    _healthy(target, capsys)
    (dumps / "go").touch()
    job.wait_for("dumped")

    status, live = _once_it_is_clear(target, capsys)
    _blames_rank_2(status, live)
    assert "dumps_flights.py" in live["findings"][0]["where"]
    assert live["findings"][0]["where"].endswith(" wait_for_shard")
    source = live["findings"][0]["source"]
    assert "sleep" in source["lines"][source["line"] - source["first"]], "the blamed line is shown"
    assert live["silent"] == []

    stopped = [r["pid"] for r in live["ranks"] if r["rank"] in (1, 3)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    status, half = nccl_check(target, capsys=capsys)
    assert status == 1
    assert [(s["rank"], s["pid"]) for s in half["silent"]] == [(1, stopped[0]), (3, stopped[1])]

    job.stop()
    _from_dumps(dumps, capsys)


def _healthy(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, answer = nccl_check(target, capsys=capsys)
    assert (status, answer["findings"], answer["silent"], answer["missing"]) == (0, [], [], [])
    with attach(target) as attached:
        first = second = attached.collectives()
        ends = time.monotonic() + 30
        while any(_issued(second, r) <= _issued(first, r) for r in range(4)):
            assert time.monotonic() < ends, "a healthy job goes on"
            second = attached.collectives()
    assert all(r.where is not None and r.pid > 0 for r in second.ranks)
    assert [g.description for g in second.ranks[3].groups] == ["default_pg", "pair"]
    assert tuple(second.ranks[3].groups[1].ranks) == (2, 3)


def _once_it_is_clear(target: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """On a busy machine calls came at long intervals, and it takes longer until one that waits is odd."""
    ends = time.monotonic() + 60
    while True:
        status, answer = nccl_check(target, capsys=capsys)
        if answer["findings"] or time.monotonic() > ends:
            return status, answer


def _issued(seen: Collectives, rank: int) -> int:
    number = seen.ranks[rank].groups[0].last_issued
    assert number is not None
    return number


def _from_dumps(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, answer = nccl_check(str(dumps), capsys=capsys)
    _blames_rank_2(status, answer)
    last = next(r for r in answer["ranks"] if r["rank"] == 3)["calls"][-1]
    assert re.search(r"dumps_flights\.py:\d+ main$", last["at"])

    (dumps / "nccl_trace_rank_2").unlink()
    status, answer = nccl_check(str(dumps), capsys=capsys)
    assert (status, answer["missing"], answer["world_size"]) == (1, [2], 4)
    assert answer["findings"][0]["who"] == ["rank 2"]


def _blames_rank_2(status: int, answer: dict[str, Any]) -> None:
    assert status == 1
    (finding,) = answer["findings"]
    assert finding["code"] == "collective_not_issued"
    assert finding["who"] == ["rank 2"]
    said = " ".join([finding["title"], *finding["evidence"]])
    assert "rank 3 waits in all_reduce #1" in said, "in turn"
    assert "group pair" in said
    assert "barrier" in said
    assert [r["rank"] for r in answer["ranks"]] == [0, 1, 2, 3]
    issued = {r["rank"]: r["groups"][0]["last_issued"] for r in answer["ranks"]}
    assert issued[0] == issued[1] == issued[2] + 1 == issued[3] + 1, "0 and 1 are in the barrier"


def test_ranks_that_all_receive_first(tmp_path: Path) -> None:
    """gloo's recorder knows nothing of sends and receives; the stacks do."""
    with running("all_receive", tmp_path, launcher="patient") as hang:
        hang.wait_for("ready")
        with attach(hang.target) as job:
            seen = job.collectives()
    (finding,) = seen.findings
    assert finding.code == "collective_order"
    assert finding.who == ["rank 0", "rank 1"]
    calls = [r.calls[-1] for r in seen.ranks]
    assert [(c.op, c.p2p, c.peer) for c in calls] == [("recv", True, 1), ("recv", True, 0)]


def test_calls_that_answer_another_one_are_named_with_both_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running("mispaired_save", tmp_path, seed=1, launcher="patient") as hang:
        hang.wait_for("ready")
        status, live = nccl_check(hang.target, capsys=capsys)
    assert status == 1
    (found,) = live["findings"]
    (line,) = hang.scene.lines
    assert (found["code"], found["severity"], found["who"]) == (
        "collective_mispaired",
        "warning",
        [f"rank {hang.culprit}"],
    )
    assert found["where"].endswith(f"mispaired_save.py:{line} save")
    assert "mispaired_save.py:45 main" in found["title"]
    source = found["source"]
    assert "dist.all_reduce(total)" in source["lines"][source["line"] - source["first"]]


def test_dumps_are_compared_by_the_lines_of_their_calls(
    start: Start, tmp_path: Path, free_port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, dumps = tmp_path / "train.py", tmp_path / "dumps"
    program.write_text((PROGRAMS / "dumps_mispaired.py").read_text())
    dumps.mkdir()
    ranks = start(str(program), str(dumps), command=torchrun(3, free_port), ready=None)
    ranks.wait(90)

    status, answer = nccl_check(str(dumps), capsys=capsys)
    (found,) = answer["findings"]
    assert (status, found["code"], found["severity"]) == (1, "collective_mispaired", "warning")
    assert (found["who"], found["confidence"]) == (["rank 1"], "high")
    assert re.search(r"train\.py:\d+ accuracy$", found["where"])
    assert "60 of the last 80 calls" in " ".join(found["evidence"])
    source = found["source"]
    assert "return averaged" in source["lines"][source["line"] - source["first"]]

    assert cli.main(["diagnose", str(dumps), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [f["code"] for f in told["findings"]] == ["collective_mispaired"]
    assert told["state"] == "not known", "nobody waits"

    os.utime(
        program
    )  # what it says now may not be what ran: calls in a row that fit when moved by one tell it all the same
    status, answer = nccl_check(str(dumps), capsys=capsys)
    assert [(f["code"], f["who"], f["source"]) for f in answer["findings"]] == [
        ("collective_mispaired", ["rank 1"], None)
    ]


def test_branches_that_are_meant_are_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running("meant_branches", tmp_path, seed=1, launcher="patient") as hang:
        hang.wait_for("ready")
        status, live = nccl_check(hang.target, capsys=capsys)
    assert (status, live["findings"]) == (0, [])
