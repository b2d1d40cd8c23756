"""Verdicts on a machine before a job: every one from a look that is well but for one thing."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.diagnose import preflight as rules
from jupyter_traindbg.model import AllReduce, Interface, NotAvailable, Preflight, PreflightHost, PreflightPort

NO_ANSWER = NotAvailable("nothing answers at port 29500: filtered")
ETH = Interface("eth0", True, ("10.0.0.1",), 25000, 1500)
LO = Interface("lo", True, ("127.0.0.1",), 0, 65536, True)
OWN = PreflightHost("node0", ("10.0.0.1",), 0.001, True, "", "eth0", 1e-5)
OTHER = PreflightHost("node1", ("10.0.0.2",), 0.001, False, "", "eth0", 2e-4)


def look(**changes: Any) -> Preflight:
    """Two machines of 4 GPUs that see each other well, but for the `changes`."""
    well = Preflight(
        "node0", "nccl", 2, 4, 16, 4, (OWN, OTHER), (PreflightPort("node1", 29500, "open"),), (ETH, LO), ("eth0",), "NCCL's own choice",
        2**33, 2**34, {"nofile": 65536, "memlock": -1, "nproc": -1}, {"torch": "2.13.0", "CUDA": "12.8", "driver": "570.86.15"},
    )  # fmt: skip
    return dataclasses.replace(well, **changes)


def port(state: Any, **more: Any) -> tuple[PreflightPort, ...]:
    return (PreflightPort("node1", 29500, state, **more),)


def test_a_machine_that_is_well_is_no_finding() -> None:
    assert rules.findings(look()) == []
    assert rules.findings(look(), infiniband=True) == []
    for state in ("free", "open", "refused"):
        assert rules.findings(look(ports=port(state))) == []


NOBODY = PreflightHost("nodeX", (), 0.1, False, "Name or service not known")
SILENT = PreflightHost("node1", ("10.0.0.2",), 0.1, False, NO_ANSWER.reason, "eth0", NO_ANSWER)
NO_WAY = PreflightHost(
    "node1", ("10.0.0.2",), 0.1, False, "unreachable", NotAvailable("there is no way"), NotAvailable("unreachable")
)
FAR = dataclasses.replace(OTHER, latency_s=0.08)
ELSEWHERE = dataclasses.replace(OTHER, interface="eth7")
LOOPBACK = PreflightHost("node0", ("127.0.1.1",), 0.001, True, "", "lo", 1e-5)
AT_NODE0 = (PreflightPort("node0", 29500, "free"),)
FAILED = AllReduce("nccl", 2, problem="rank 1, init_process_group: RuntimeError: timed out", last_lines=("last",))


@each(
    ("changes", "code", "severity", "title"),
    [
        (
            {"hosts": (OWN, OTHER, NOBODY), "nodes": 3},
            "init_incomplete",
            "critical",
            "The name nodeX means nothing here",
        ),
        (
            {"ports": port("taken", holder_pid=7, holder="python x.py")},
            "init_incomplete",
            "critical",
            "Port 29500 of this machine is taken",
        ),
        (
            {"ports": port("filtered", detail="no answer")},
            "init_incomplete",
            "critical",
            "node1:29500 does not answer at all",
        ),
        (
            {"ports": port("unreachable", detail="No route to host")},
            "init_incomplete",
            "critical",
            "There is no way to node1:29500",
        ),
        ({"ports": port("not permitted")}, "init_incomplete", "critical", "may not listen at port 29500"),
        ({"hosts": (OWN, SILENT), "ports": AT_NODE0}, "init_incomplete", "warning", "node1 does not answer"),
        ({"hosts": (OWN, NO_WAY), "ports": AT_NODE0}, "init_incomplete", "critical", "There is no way to node1"),
        ({"hosts": (OWN, FAR)}, "init_incomplete", "warning", "node1 is 80 ms away"),
        (
            {"ports": (PreflightPort("127.0.0.1", 29500, "free"),)},
            "init_incomplete",
            "critical",
            "127.0.0.1 is this machine, and there are 2",
        ),
        (
            {"hosts": (LOOPBACK, OTHER), "chosen": ("lo",), "backend": "gloo"},
            "init_incomplete",
            "critical",
            "gloo would use the loopback here",
        ),
        ({"hosts": (OWN, ELSEWHERE)}, "init_incomplete", "warning", "the other machines are behind eth7"),
        ({"per_node": 8}, "init_incomplete", "critical", "8 processes, and 4 GPUs here"),
        ({"nodes": 4}, "init_incomplete", "warning", "--nnodes is 4, and 2 machines are named"),
        ({"versions": {"torch": "2.13.0+cpu"}}, "environment", "critical", "was built without CUDA"),
        (
            {"versions": {"torch": "2.13.0", "CUDA": "13.0", "driver": "550.54.15"}},
            "environment",
            "critical",
            "too old for CUDA 13.0",
        ),
        ({"shm_bytes": 2**26, "shm_free_bytes": 2**26}, "shm_full", "warning", "64 MiB is Docker's default"),
        ({"shm_free_bytes": 2**20}, "shm_full", "critical", "/dev/shm is full"),
        ({"limits": {"nofile": 256}}, "environment", "warning", "The limit of open files is 256"),
        ({"limits": {"nproc": 100}}, "environment", "warning", "The limit of processes and threads is 100"),
        (
            {"all_reduce": FAILED},
            "init_incomplete",
            "critical",
            "An all_reduce over nccl among 2 processes of this machine does not work",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_thing_is_wrong(
    changes: dict[str, Any], code: str, severity: str, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finding,) = rules.findings(look(**changes))
    assert (finding.code, finding.severity) == (code, severity)
    assert title in finding.title
    assert finding.evidence
    assert finding.cause
    assert finding.next_steps
    with monkeypatch.context() as speaking:
        speaking.setenv("TRAINDBG_LANG", "zh")
        (chinese,) = rules.findings(look(**changes))
    assert re.search("[\u4e00-\u9fff]", chinese.title)
    assert re.search("[\u4e00-\u9fff]", chinese.cause)


def test_infiniband_needs_locked_memory() -> None:
    low = look(limits={"nofile": 65536, "memlock": 65536})
    assert rules.findings(low) == []
    (finding,) = rules.findings(low, infiniband=True)
    assert finding.evidence == ["ulimit -l: 64 KiB"]
    assert rules.findings(dataclasses.replace(low, backend="gloo"), infiniband=True) == []


def test_gloo_needs_no_gpu_and_one_machine_no_network() -> None:
    bare = {"backend": "gloo", "gpus": NotAvailable("none"), "versions": {}, "limits": {}, "per_node": 64}
    alone = {"nodes": 1, "hosts": (LOOPBACK,), "ports": (PreflightPort("127.0.0.1", 29500, "free"),), "chosen": ("lo",)}
    assert rules.findings(look(**bare, **alone)) == []


def test_what_is_not_known_is_not_held_against_anybody() -> None:
    unknown = NotAvailable("not measured")
    assert (
        rules.findings(
            look(
                gpus=unknown,
                shm_bytes=unknown,
                shm_free_bytes=unknown,
                limits={},
                versions={},
                interfaces=(),
                chosen=(),
            )
        )
        == []
    )
