"""``nccl-check --preflight`` and ``environ`` for real: an all_reduce that works, one that cannot, networks that are silent, live ranks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support import PROGRAMS, Program, Start

from jupyter_traindbg.model import NotAvailable
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.questions.jobless import preflight
from jupyter_traindbg.questions.jobless.preflight import PlannedJob

CLI = [sys.executable, "-m", "jupyter_traindbg.cli"]


def workers() -> list[int]:
    return [
        p.pid for p in procfs.descendants(os.getpid()) if any(w.endswith("worker.py") for w in procfs.command(p.pid))
    ]


# --- the all_reduce ------------------------------------------------------------------------------------------------------


def test_two_processes_sum_over_gloo_and_say_how_fast() -> None:
    """The environment of another job, in which this runs, is none of theirs."""
    environ = {**os.environ, "RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "nowhere.invalid", "MASTER_PORT": "1"}
    words = ["nccl-check", "--all-reduce", "2", "--backend", "gloo", "--timeout", "60", "--json"]
    done = subprocess.run([*CLI, *words], env=environ, capture_output=True, text=True, timeout=100, check=False)
    found = json.loads(done.stdout)
    trial = found["all_reduce"]
    assert (trial["processes"], trial["problem"]) == (2, ""), trial
    assert [s["size_bytes"] for s in trial["sizes"]] == [4, 1024, 2**20, 16 * 2**20]
    for size in trial["sizes"]:
        assert size["calls"] >= 3
        assert size["median_s"] > 0
        assert size["bus_bytes_per_s"] == pytest.approx(size["size_bytes"] / size["median_s"])
    assert 0 < trial["init_s"] < trial["start_s"], "the one is a part of the other"
    assert found["findings"] == []
    assert done.returncode == 0, done.stderr


def test_one_that_cannot_work_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch0")
    found = preflight.ask(PlannedJob(backend="gloo", all_reduce=2), timeout=60)
    assert found.all_reduce is not None
    assert "Unable to find address for: nosuch0" in found.all_reduce.problem
    assert found.all_reduce.problem.startswith("rank ")
    assert "init_process_group" in found.all_reduce.problem
    assert any("nosuch0" in line for line in found.all_reduce.last_lines)
    assert isinstance(found.all_reduce.start_s, NotAvailable)
    titles = [finding.title for finding in found.findings]
    assert any("GLOO_SOCKET_IFNAME=nosuch0: there is no such interface" in title for title in titles)
    assert any("An all_reduce over gloo among 2 processes of this machine does not work" in title for title in titles)
    assert workers() == []


def test_the_deadline_holds_and_nobody_is_left() -> None:
    found = preflight.ask(PlannedJob(backend="gloo", all_reduce=6), timeout=1.0)  # six times torch: seconds
    assert found.all_reduce is not None
    assert found.all_reduce.problem.startswith("it was not done after 1 s (rank 0: ")
    assert len(found.all_reduce.sizes) < 4, "as far as it came"
    assert workers() == []


# --- networks ------------------------------------------------------------------------------------------------------------

NETWORK = """
ip link set lo up && ip link add v0 type veth peer name v1 && ip addr add 10.9.0.1/24 dev v0 && ip link set v0 up && ip link set v1 up
ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev v0 nud permanent && ip route add unreachable 10.9.1.0/24 || exit 77
exec "$@"
"""
"""A network namespace of its own, where 10.9.0.2 swallows what is sent to it, and the kernel knows that 10.9.1.0/24 is out of reach."""


def in_a_network(*words: str) -> dict[str, Any]:
    """The JSON answer of the command line in `NETWORK`."""
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("needs iproute2 and unshare")
    command = ["unshare", "--user", "--map-root-user", "--net", "bash", "-c", NETWORK, "bash", *CLI, *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_firewall_and_a_missing_way_are_told_apart() -> None:
    found = in_a_network(
        "nccl-check", "--nnodes", "2", "--rdzv-endpoint", "10.9.0.2:29400", "--hosts", "10.9.1.1", "--timeout", "3"
    )
    assert found["ports"][0]["state"] == "filtered"
    titles = [finding["title"] for finding in found["findings"] if finding["severity"] == "critical"]
    assert "10.9.0.2:29400 does not answer at all" in titles
    assert "There is no way to 10.9.1.1" in titles
    way = next(host for host in found["hosts"] if host["name"] == "10.9.0.2")
    assert way["interface"] == "v0"


# --- the environment of live ranks ---------------------------------------------------------------------------------------


@pytest.fixture
def ranks(start: Start, free_port: str) -> Program:
    """Three ranks without torch, one of which has a variable that the others have not."""
    words = [
        "--nproc-per-node",
        "3",
        "--master-port",
        free_port,
        str(PROGRAMS / "differing_rank.py"),
        "TORCH_DISTRIBUTED_DEBUG=DETAIL",
    ]
    environ = {
        "NCCL_TIMEOUT": "1800",
        "HF_TOKEN": "hf_secret",
        "NCCL_SOCKET_IFNAME": "nosuch",
        "TOKENIZERS_PARALLELISM": "false",
    }
    program = start("hangs/torchrun", *words, env=environ, ready=None)
    for rank in range(3):
        program.wait_for(f"rank {rank} is there")
    return program


def test_the_environment_of_a_job_from_cold(ranks: Program) -> None:
    command = [*CLI, "environ", f"torchrun:{ranks.pid}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["ranks"] == [0, 1, 2]
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["TORCH_DISTRIBUTED_DEBUG"]["standing"] == "differs"
    assert rows["TORCH_DISTRIBUTED_DEBUG"]["values"] == [
        {"value": None, "ranks": [0, 2]},
        {"value": "DETAIL", "ranks": [1]},
    ]
    assert rows["NCCL_SOCKET_IFNAME"]["standing"] == "harmful"
    assert rows["NCCL_TIMEOUT"]["standing"] == "does nothing"
    assert rows["RANK"]["standing"] == "real"
    assert rows["HF_TOKEN"]["values"] == [{"value": "(hidden)", "ranks": [0, 1, 2]}]
    assert "hf_secret" not in done.stdout
    first = found["findings"][0]
    assert (first["code"], first["severity"]) == ("environment", "critical")
    blamed = {finding["title"].split()[0].split("=")[0]: finding["who"] for finding in found["findings"]}
    assert blamed["TORCH_DISTRIBUTED_DEBUG"] == ["rank 1"]


def test_a_rank_that_ended_is_named_and_the_others_are_read(ranks: Program) -> None:
    from jupyter_traindbg.job import connect

    with connect(f"torchrun:{ranks.pid}") as job:
        gone = procfs.children([ranks.pid], procfs.processes())[2]
        os.kill(gone.pid, 9)
        deadline = time.monotonic() + 60
        while procfs.exists(gone.pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        found = job.environ(timeout=5)
    assert list(found.ranks) == [0, 1]
    assert [(s.rank, s.pid) for s in found.silent] == [(2, gone.pid)]


def test_no_rank_at_all_is_an_error(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=subprocess.PIPE
    )
    try:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        from jupyter_traindbg.errors import TargetGone
        from jupyter_traindbg.job import connect

        with connect(str(sleeper.pid)) as job:
            sleeper.kill()
            sleeper.wait(10)
            with pytest.raises(TargetGone):
                job.environ()
    finally:
        sleeper.kill()
        sleeper.communicate(timeout=10)
