"""What real NCCL has written, read without a GPU: dumps, a RAS report in both forms, the watchdog's log. See recorded_nccl/README.md."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.model import RasReport
from jupyter_traindbg.outside import flightrec, ras

RECORDED = Path(__file__).parent / "recorded_nccl"


def test_dumps_of_the_watchdog(capsys: pytest.CaptureFixture[str]) -> None:
    seen = flightrec.read(str(RECORDED)).collectives
    assert [(r.rank, r.groups[0].last_issued, r.groups[0].last_completed) for r in seen.ranks] == [
        (0, 38, 36),
        (1, 36, 36),
    ]
    assert (seen.world_size, seen.missing, seen.silent) == (2, (), ())
    first, second = seen.ranks
    (group,) = first.groups
    assert (group.backend, group.description, tuple(group.ranks)) == ("nccl", "default_pg", (0, 1))
    assert [(c.op, c.sequence, c.state, c.at) for c in first.calls[-2:]] == [
        ("all_reduce", 37, "issued", "/home/me/train.py:37 step"),
        ("all_reduce", 38, "issued", "/home/me/train.py:37 step"),
    ]
    assert second.calls[-1].state == "completed"
    assert cli.main(["nccl-check", str(RECORDED), "--json"]) == cli.FINDINGS
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["who"]) == ("collective_not_issued", ["rank 1"])


def test_the_log_of_the_watchdog() -> None:
    found = traindbg.diagnose_log(str(RECORDED / "timeout.log"))
    assert (found[0].code, found[0].who[0]) == ("nccl_timeout", "rank 1")


@pytest.fixture(params=["ras.json", "ras.txt"])
def service(request: pytest.FixtureRequest) -> Iterator[tuple[str, tuple[str, int]]]:
    """The name of a recorded report, and where something answers with it as NCCL did: 2.24 refuses the form, 2.28 takes it."""
    name = request.param
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            with listener.accept()[0] as client, client.makefile("rw") as lines:
                for answer in ("SERVER PROTOCOL 2", "OK", "OK" if name == "ras.json" else "ERROR: Unknown command"):
                    lines.readline()
                    lines.write(f"{answer}\n")
                    lines.flush()
                lines.readline()
                lines.write((RECORDED / name).read_text())

        threading.Thread(target=talk, daemon=True).start()
        yield name, listener.getsockname()


def test_the_report_of_its_service(service: tuple[str, tuple[str, int]]) -> None:
    name, address = service
    report = ras.ask(address, 5.0)
    assert isinstance(report, RasReport)
    assert report.nccl == "2.28.9"
    if name == "ras.txt":
        assert "different AllReduce operation counts" in report.text
        return
    (communicator,) = report.communicators
    assert (communicator.name, communicator.size) == ("0x1f0273bbe095e9a2:0x2b88d1c60ee4d9ee:0x4e6a39fcc4d968b4", 2)
    assert [(r.rank, r.pid, r.state, r.counts["AllReduce"]) for r in communicator.ranks] == [
        (0, 421, "running", 26),
        (1, 422, "running", 24),
    ]
