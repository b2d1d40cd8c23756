"""To which Ray job a process belongs, told by what it has open: real processes, a cluster by name only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_traindbg.outside import procfs
from jupyter_traindbg.outside.raystate import membership as module
from jupyter_traindbg.outside.raystate.local import LocalCluster
from jupyter_traindbg.outside.raystate.membership import Membership, membership

OPENS = """
import os, sys
held = [open(path.replace("PID", str(os.getpid())), "a") for path in sys.argv[1:]]
child = os.fork()
if not child:
    os.read(0, 1)  # as a DataLoader worker, which has the same files open
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""
Opens = Callable[..., tuple[int, int]]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "session_1" / "logs").mkdir(parents=True)
    return tmp_path / "session_1"


@pytest.fixture
def cluster(session: Path) -> LocalCluster:
    return LocalCluster("10.0.0.1:6379", "", str(session), os.getpid(), os.getuid())


@pytest.fixture
def opens(session: Path) -> Iterator[Opens]:
    """Start a process with such logs open; its pid, and that of its child."""
    running: list[subprocess.Popen[str]] = []

    def start(*names: str, **environ: str) -> tuple[int, int]:
        command = [sys.executable, "-c", OPENS, *(str(session / "logs" / name) for name in names)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **environ})
        running.append(process)
        assert process.stdout is not None
        return process.pid, int(process.stdout.readline())

    yield start
    for process in running:
        process.communicate(timeout=30)


def log(kind: str, beginning: str, pid: str = "PID") -> str:
    return f"python-core-{kind}-{beginning}{'f' * (56 - len(beginning))}_{pid}.log"


def test_a_driver_is_told_by_its_log_and_what_it_forks_is_none(opens: Opens, cluster: LocalCluster) -> None:
    pid, child = opens(log("driver", "03000000"))
    found = membership(pid, [cluster])
    assert found == Membership("10.0.0.1:6379", "03000000", driver=True)
    assert found.target == "ray:03000000@10.0.0.1:6379"
    assert membership(child, [cluster]) is None


def test_who_has_joined_twice_is_in_the_last_job(opens: Opens, cluster: LocalCluster) -> None:
    pid, _ = opens(log("driver", "01000000"), log("driver", "02000000"))
    found = membership(pid, [cluster])
    assert found is not None
    assert found.job_id == "02000000"


def test_a_worker_belongs_to_the_job_that_it_was_started_for(opens: Opens, cluster: LocalCluster) -> None:
    pid, _ = opens(log("worker", "54294e14"), RAY_JOB_ID="05000000")
    assert membership(pid, [cluster]) == Membership("10.0.0.1:6379", "05000000", driver=False)
    early, _ = opens(log("worker", "54294e14"), RAY_JOB_ID="ffffffff")
    found = membership(early, [cluster])
    assert found is not None
    assert found.target == "ray:@10.0.0.1:6379"


def test_without_its_cluster_and_without_such_a_log_it_belongs_to_none(opens: Opens, cluster: LocalCluster) -> None:
    pid, _ = opens(log("driver", "03000000"))
    assert membership(pid, []) is None
    other, _ = opens("events.log", log("driver", "03000000", pid="1"))
    assert membership(other, [cluster]) is None
    assert membership(4_194_000, [cluster]) is None


def test_a_client_is_told_by_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "maps_library", lambda pid, name: True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            assert membership(os.getpid(), []) is None
            monkeypatch.setattr(module, "CLIENT_PORT", port)
            assert membership(os.getpid(), []) == Membership(f"ray://127.0.0.1:{port}", "", driver=True)
            monkeypatch.setattr(module, "client_servers", lambda: {port: "10.0.0.1:6379"})
            assert membership(os.getpid(), []) == Membership("10.0.0.1:6379", "", driver=True)
        monkeypatch.setattr(procfs, "maps_library", lambda pid, name: False)
        with socket.create_connection(("127.0.0.1", port)):
            assert membership(os.getpid(), []) is None, "it has nothing of Ray loaded"
