"""NCCL's own flight recorder, read while its GPU works: at once, and with the calls that the GPU has not done yet as under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

import torch.distributed as dist  # noqa: E402

from jupyter_traindbg import agent as agent_package  # noqa: E402
from jupyter_traindbg.agent.core import Agent  # noqa: E402
from jupyter_traindbg.evidence_collectives import collectives  # noqa: E402
from jupyter_traindbg.model import RankCollectives  # noqa: E402


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    directory = tmp_path / "agent"
    directory.mkdir(mode=0o700)
    running = agent_package.start(str(directory), keep=True)
    yield running
    running.stop()


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process only."""
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda:0"))
    yield
    dist.destroy_process_group()


def asked(agent: Agent) -> RankCollectives:
    return collectives(0, 1, agent.call("collectives", {}))


def test_calls_that_are_done_and_calls_under_way(agent: Agent, alone: None) -> None:
    x = torch.ones(1000, device="cuda")
    for _ in range(3):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    done = asked(agent)
    (group,) = done.groups
    assert (group.backend, group.last_issued, group.last_completed, tuple(group.ranks)) == ("nccl", 3, 3, (0,))
    assert [(c.op, c.sequence, c.state) for c in done.calls] == [("all_reduce", n, "completed") for n in (1, 2, 3)]

    torch.cuda._sleep(4_000_000_000)  # some seconds, before which the next call cannot begin
    dist.all_reduce(x)
    done_by = torch.cuda.Event()
    done_by.record()
    busy = asked(agent)
    assert not done_by.query(), "the answer came before the GPU had done it"
    assert (busy.calls[-1].sequence, busy.calls[-1].state, busy.groups[0].last_issued) == (4, "issued", 4)
    torch.cuda.synchronize()
    assert asked(agent).calls[-1].state == "completed"
