"""What a job on several hosts shows of them: by its own name each, and readable where there are many."""

from __future__ import annotations

import dataclasses
from typing import Any

from jupyter_traindbg.model import (
    Attached,
    Device,
    Diagnosis,
    GpuReport,
    NotAvailable,
    Rank,
    RankState,
    Silent,
    Target,
    Targets,
)

NONE = NotAvailable("not read")


def shown(result: Any) -> str:
    return str(result)


def ranks(hosts: int) -> Attached:
    made = [
        Rank(n, 2 * hosts, 10 + n % 2, "injected", "3.11", "2.13", host=f"node{n // 2:02d}") for n in range(2 * hosts)
    ]
    return Attached("ssh:node[00-99]:torchrun", made, 0.8)


def test_the_ranks_of_a_few_hosts_have_a_row_for_each() -> None:
    lines = shown(ranks(3)).splitlines()
    assert [line.split()[5] for line in lines if line.startswith("ranks ") and "node" in line] == [
        "node00",
        "node01",
        "node02",
    ]


def test_those_of_many_share_one() -> None:
    lines = [line for line in shown(ranks(100)).splitlines() if line.startswith("ranks ")]
    assert any("100 hosts" in line for line in lines)
    assert len(lines) < 4


def test_a_host_that_was_not_reached_is_told_without_a_rank() -> None:
    lost = Silent(None, 0, "node07 cannot be reached: Connection refused", "see whether it is up", "node07")
    seen = shown(dataclasses.replace(ranks(2), silent=(lost,)))
    assert "no answer · node07" in seen
    assert "pid 0" not in seen


def test_every_host_has_a_gpu_0() -> None:
    fields = {f.name: NONE for f in dataclasses.fields(Device)}
    known = {"uuid": "GPU-1", "name": "H200", "memory_used_bytes": 1 << 30, "memory_total_bytes": 8 << 30}
    more = {"cuda_index": None, "mig_parent": None, "fault": None, "xids": ()}
    devices = [Device(**{**fields, **known, **more, "index": 0, "host": host}) for host in ("alpha", "beta")]
    seen = shown(GpuReport(devices, "550", "12.4"))
    assert seen.startswith("2 GPUs")
    assert "alpha:0" in seen
    assert "beta:0" in seen


def test_a_diagnosis_has_the_hosts_where_there_are_several() -> None:
    states = [RankState(n, 10, "waiting", "waits in all_reduce", "train.py:3 f", host=f"node{n}") for n in range(2)]
    assert "node0, node1" in shown(Diagnosis("ssh:node0,node1", "stuck", (), states))
    assert "host" not in shown(Diagnosis("41", "stuck", (), [dataclasses.replace(s, host="") for s in states]))


def test_targets_say_whose_they_are() -> None:
    target = Target("ssh:a,b:torchrun:41", 41, "launcher", "torchrun train.py", "ada", 60.0, "torch", world_size=4)
    assert "On a, b" in shown(Targets((target,), ("a", "b")))
    assert "no training process is running on a, b" in shown(Targets((), ("a", "b")))
    assert "On this host" in shown(Targets((target,)))
