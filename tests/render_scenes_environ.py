"""The environment of a job, and a machine before one, as results: for the tests of rendering."""

from __future__ import annotations

from jupyter_traindbg.model import (
    AllReduce,
    AllReduceSize,
    Environ,
    EnvironRow,
    EnvironValue,
    Finding,
    Interface,
    NotAvailable,
    Preflight,
    PreflightHost,
    PreflightPort,
    Silent,
    Subject,
)

GONE = NotAvailable("not measured here")


def environ(ranks: int, odd: int = 1) -> Environ:
    """One variable that nobody reads, one that one rank has alone, one misspelt, one of another backend, and many that are well."""
    everybody, others = tuple(range(ranks)), tuple(rank for rank in range(ranks) if rank != odd)
    detail = (EnvironValue(None, others), EnvironValue("DETAIL", (odd,)))
    rows = [
        EnvironRow(
            "TORCH_DISTRIBUTED_DEBUG",
            detail,
            "differs",
            "PyTorch",
            "checks every collective",
            "set it to the same value",
            "https://p.t/d",
        ),
        EnvironRow(
            "NCCL_TIMEOUT",
            (EnvironValue("1800", everybody),),
            "does nothing",
            "nobody",
            "neither NCCL nor PyTorch reads it",
            "Instead: init_process_group(timeout=...).",
            "https://docs.pytorch.org/docs/stable/distributed.html",
        ),
        EnvironRow(
            "MY_CLUSTER_NCCL", (EnvironValue("", everybody),), "unknown", "not known", "a script of yours may read it"
        ),
        EnvironRow("NCCL_DEBUG", (EnvironValue("INFO", everybody),), "unused here", "NCCL", "how much NCCL says"),
        EnvironRow(
            "RANK",
            tuple(EnvironValue(str(r), (r,)) for r in everybody),
            "real",
            "PyTorch",
            "the number of this process",
        ),
        EnvironRow("HF_TOKEN", (EnvironValue("(hidden)", everybody),), "real", "huggingface_hub", "the access token"),
    ]
    finding = Finding(
        "environment", "critical", "TORCH_DISTRIBUTED_DEBUG is not the same on all ranks", who=[Subject("rank", odd)]
    )
    return Environ(
        "torchrun:900", everybody, tuple(rows), (finding,), (Silent(ranks, 77, "process 77 has ended", "attach again"),)
    )


def preflight(hosts: int, *, failed: bool = False) -> Preflight:
    """A machine of two, from which one host is reached, one is not; the trial all_reduce went well, or `failed`."""
    named = [
        PreflightHost("node0", ("10.0.0.1",), 0.001, True, "", "eth0", 2e-5),
        *(
            PreflightHost(f"node{n}", (f"10.0.{n // 250}.{n % 250}",), 0.002, False, "", "eth0", 3e-4)
            for n in range(1, hosts)
        ),
        PreflightHost("nodeX", (), 0.8, False, "Name or service not known", GONE, GONE),
    ]
    ports = (PreflightPort("node0", 29500, "taken", "", 4711, "/usr/bin/python -m http.server 29500", GONE),)
    interfaces = (
        Interface("eth0", True, ("10.0.0.1", "fe80::1"), 25000, 1500),
        Interface("lo", True, ("127.0.0.1",), 0, 65536, True),
        Interface("ib0", False, (), GONE, GONE),
    )
    sizes = tuple(AllReduceSize(size, 20, 2e-4, 4.2e9) for size in (4, 1024, 2**20))
    trial = AllReduce("gloo", 2, GONE if failed else 3.1, 0.4, () if failed else sizes)
    if failed:
        problem = "rank 1, init_process_group: RuntimeError: connect timed out"
        trial = AllReduce(
            "gloo", 2, GONE, GONE, (), problem, ("Traceback (most recent call last):", "RuntimeError: timed out")
        )
    finding = Finding(
        "init_incomplete", "critical", "Port 29500 of this machine is taken", evidence=["pid 4711: python"]
    )
    return Preflight(
        "node0", "gloo", 2, 4, 16, GONE if failed else 4, tuple(named), ports, interfaces, ("eth0",), "gloo takes the address of node0",
        2**33, 2**34, {"nofile": 1024, "memlock": -1}, {"torch": "2.13.0", "Python": "3.11"}, trial, (finding,),
        ("ports 32768 to 60999",), 0.4,
    )  # fmt: skip


def alone() -> Preflight:
    """A machine of which little is known."""
    return Preflight("here", "gloo", 1, 1, 2, GONE)
