"""`threads` for real: two that wait for each other's locks, a process that is stopped, the ranks of a launcher with their workers."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import support
from support import Start

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.model import NotAvailable


def asked(capsys: pytest.CaptureFixture[str], *words: str, status: int) -> dict[str, Any]:
    assert cli.main(["threads", *words, "--json"]) == status
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_threads_that_wait_for_each_others_locks_are_found_and_the_training_is_seen_to_compute(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    program = start("two_locks.py", ready="ready")
    told = asked(capsys, str(program.pid), status=cli.FINDINGS)
    (finding,) = told["findings"]
    assert (finding["code"], finding["severity"], finding["confidence"]) == ("thread_deadlock", "warning", "high")
    assert {line.partition(" waits for ")[0] for line in finding["evidence"]} == {"saver", "logger"}
    assert "two_locks.py" in finding["where"]
    assert any("with " in line for line in finding["source"]["lines"])
    process, worker = told["processes"]
    assert (worker["role"], worker["rank"], worker["locks"]) == (
        "DataLoader worker",
        0,
        {"not_available": "only of the ranks themselves"},
    )
    assert worker["pid"] in {thread["tid"] for thread in worker["threads"]}
    by_name = {thread["name"]: thread for thread in process["threads"]}
    assert sorted(process["rings"][0]) == sorted(by_name[name]["tid"] for name in ("saver", "logger"))
    assert (by_name["saver"]["lock"]["name"], by_name["saver"]["lock"]["holder"]) == ("second", "logger")
    assert by_name["logger"]["holds"] == ["second"]
    main = by_name["MainThread"]
    assert main["training"]
    assert main["cpu_share"] > by_name["saver"]["cpu_share"]
    assert main["cpu_share"] <= process["process_cpu_share"]
    assert "traindbg" in by_name, "what this debugger costs is shown as well"


def test_a_process_that_is_stopped_is_looked_at_from_outside_and_its_locks_are_not_known(start: Start) -> None:
    program = start("two_locks.py", ready="ready")
    os.kill(program.pid, signal.SIGSTOP)
    try:
        with traindbg.attach(program.pid, timeout=3) as job:
            result = job.threads(timeout=4)
    finally:
        os.kill(program.pid, signal.SIGCONT)
    process = result.processes[0]
    assert {thread.state for thread in process.threads} == {"stopped by a signal"}
    assert isinstance(process.locks, NotAvailable)
    main = next(thread for thread in process.threads if thread.name == "MainThread")
    assert main.where is not None
    assert Path(main.where.file).name == "two_locks.py"
    assert result.findings == ()


def test_all_ranks_are_in_one_table(start: Start, free_port: str) -> None:
    program = start("train.py", "--sleep", "0.005", command=support.torchrun(2, free_port), timeout_s=90)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        result = job.threads()
    assert list(result.ranks) == [0, 1]
    assert not result.silent
    for process in result.processes:
        assert process.locks is True
        assert any(thread.python and thread.training for thread in process.threads)
    frame = result.to_frame()
    assert {"rank", "pid", "role", "tid", "name", "cpu_share", "where_line"} <= set(frame.columns)
    assert len(frame) == sum(len(process.threads) for process in result.processes)
