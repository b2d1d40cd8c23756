"""A client of NCCL's RAS service against small servers that speak as its user guide describes."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

import pytest

from jupyter_traindbg.model import NotAvailable, RasReport
from jupyter_traindbg.outside import ras

Serve = Callable[..., tuple[str, int]]


def rank(number: int, calls: int, **status: object) -> dict[str, object]:
    return {
        "rank": number,
        "host": "10.0.0.1",
        "pid": 100 + number,
        "cuda_dev": number,
        "nvml_dev": number,
        "status": {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
            **status,
        },
        "collective_counts": {"Broadcast": 1, "AllReduce": calls},
    }


def lost(number: int, *, dead: bool) -> dict[str, object]:
    return {
        "rank": number,
        "host": "10.0.0.1",
        "pid": 100 + number,
        "cuda_dev": number,
        "nvml_dev": number,
        "status": {"unresponsive": True, "considered_dead": dead},
    }


DOCUMENT = {
    "nccl_version": "2.28.9",
    "cuda_runtime_version": 12090,
    "cuda_driver_version": 13000,
    "timestamp": "2026-06-19 06:55:57",
    "communicators_count": 1,
    "communicators": [
        {
            "hash": "0xa1",
            "secondary_hash": "0x7c:0x83",
            "size": 6,
            "ranks_count": 4,
            "missing_ranks_count": 2,
            "ranks": [rank(0, 7), rank(1, 6), rank(2, 6, async_error=6), rank(3, 0, init_state=7)],
            "missing_ranks": [lost(4, dead=False), lost(5, dead=True)],
        }
    ],
    "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
}
TEXT = "NCCL version 2.24.3 compiled with CUDA 12.6\n\nJob summary\n===========\n"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(answer)``: a server whose ``answer(line)`` gives what it says to each line; None makes it hang up."""
    open_sockets: list[socket.socket] = []

    def run(answer: Callable[[str], str | None]) -> tuple[str, int]:
        listener = socket.create_server(("127.0.0.1", 0))
        open_sockets.append(listener)

        def talk() -> None:
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as client, client.makefile("rw") as lines:
                        talk_to(lines)

        def talk_to(lines: TextIO) -> None:
            for line in lines:
                said = answer(line.rstrip("\n"))
                if said is None:
                    return
                lines.write(said)
                lines.flush()
                if said.startswith(("{", "NCCL version")):
                    return

        threading.Thread(target=talk, daemon=True).start()
        host, port = listener.getsockname()
        return host, port

    yield run
    for one in open_sockets:
        one.close()


def modern(line: str) -> str:
    if line.startswith("CLIENT PROTOCOL "):
        return "SERVER PROTOCOL 2\n"
    if line.startswith("TIMEOUT ") or line == "SET FORMAT json":
        return "OK\n"
    assert line == "VERBOSE STATUS"
    return json.dumps(DOCUMENT, indent=2) + "\n"


def old(line: str) -> str:
    """2.24: no other format than text."""
    if line.startswith("SET FORMAT"):
        return f"ERROR: Unknown command {line}\n"
    return TEXT if line == "VERBOSE STATUS" else modern(line)


def test_ranks_their_states_and_counts(serve: Serve) -> None:
    report = ras.ask(serve(modern), 5)
    assert isinstance(report, RasReport)
    assert (report.nccl, report.text) == ("2.28.9", "")
    (communicator,) = report.communicators
    assert (communicator.name, communicator.size) == ("0xa1:0x7c:0x83", 6)
    assert [r.state for r in communicator.ranks] == ["running", "running", "failed", "starting", "silent", "dead"]
    assert [r.counts.get("AllReduce") for r in communicator.ranks] == [7, 6, 6, 0, None, None]
    assert communicator.ranks[1].pid == 101


def test_an_old_service_has_words_only(serve: Serve) -> None:
    report = ras.ask(serve(old), 5)
    assert report == RasReport("2.24.3", (), TEXT)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda line: "", "did not answer in 0.3 s"),
        (lambda line: "HTTP/1.1 400 Bad Request\n", "something else listens there"),
        (lambda line: None, "hung up"),
        (lambda line: "{}" if line == "VERBOSE STATUS" else modern(line), "a form that is not known"),
        (lambda line: "{ no JSON" if line == "VERBOSE STATUS" else modern(line), "a form that is not known"),
    ],
    ids=["silent", "another service", "hangs up", "another form", "no JSON"],
)
@pytest.mark.timeout(30)
def test_what_goes_wrong_is_a_reason(serve: Serve, answer: Callable[[str], str | None], reason: str) -> None:
    report = ras.ask(serve(answer), 0.3 if "0.3 s" in reason else 20)
    assert isinstance(report, NotAvailable)
    assert reason in report.reason


def test_another_job_on_the_same_port_is_not_taken_for_ours(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives a connection to any of the processes that listen there; its report tells which job they are of."""
    ours = {**rank(0, 7), "pid": os.getpid()}
    communicator = DOCUMENT["communicators"][0]  # type: ignore[index]
    mine = json.dumps({**DOCUMENT, "communicators": [{**communicator, "ranks": [ours], "missing_ranks": []}]})
    reports = [modern("VERBOSE STATUS"), modern("VERBOSE STATUS"), mine]

    def answer(line: str) -> str:
        return reports.pop(0) if line == "VERBOSE STATUS" else modern(line)

    monkeypatch.setattr(ras, "PORT", serve(answer)[1])
    report = ras.report([os.getpid()], 10)
    assert isinstance(report, RasReport)
    assert [r.pid for r in report.communicators[0].ranks] == [os.getpid()]

    empty = json.dumps({**DOCUMENT, "communicators": []})
    reports += [empty, empty, mine]  # a process that used NCCL once
    report = ras.report([os.getpid()], 10)
    assert isinstance(report, RasReport)
    assert report.communicators

    reports += [empty, modern("VERBOSE STATUS")] * ras.TRIES
    nobody = ras.report([os.getpid()], 10)
    assert isinstance(nobody, NotAvailable)
    assert "of another job" in nobody.reason


def test_a_job_that_has_no_communicator_yet(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = json.dumps({**DOCUMENT, "communicators": []})
    monkeypatch.setattr(ras, "PORT", serve(lambda line: empty if line == "VERBOSE STATUS" else modern(line))[1])
    assert ras.report([os.getpid()], 10) == RasReport("2.28.9", (), "")


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        report = ras.ask(unused.getsockname(), 0.5)
    assert isinstance(report, NotAvailable)
    assert "refused" in report.reason


def test_the_service_of_a_rank_is_found_by_its_socket() -> None:
    code = (
        "import os, socket, time; s = socket.create_server(('127.0.0.1', int(os.environ['NCCL_RAS_ADDR'].split(':')[1])));"
        "print('in', flush=True); time.sleep(60)"
    )
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    environment = {**os.environ, "NCCL_RAS_ADDR": f"localhost:{port}"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"in\n"
            assert ras.listening([os.getpid(), process.pid]) == ("127.0.0.1", port)
        finally:
            process.kill()
    nothing = ras.report([os.getpid()], 1)
    assert isinstance(nothing, NotAvailable)
    assert "no RAS service" in nothing.reason
