"""A torchrun that has started no rank, from its own stack and sockets."""

from __future__ import annotations

from typing import Any

import pytest
from hang_evidence import TORCH, activity, job, tcp, waiting

from jupyter_traindbg.diagnose.running import diagnose
from jupyter_traindbg.model import (
    Diagnosis,
    Finding,
    Frame,
    Look,
    MeetingPoint,
    NotAvailable,
    ProcessStacks,
    RankEvidence,
    Socket,
    Thread,
)

COMMAND = "python -m torch.distributed.run --nnodes 2 --nproc-per-node 2 --rdzv-endpoint node0:29400 train.py"
RENDEZVOUS = (
    Frame(
        f"{TORCH}/distributed/elastic/rendezvous/dynamic_rendezvous.py",
        685,
        "_DistributedRendezvousOpExecutor.run",
        library=True,
    ),
    Frame(f"{TORCH}/distributed/elastic/agent/server/api.py", 528, "SimpleElasticAgent._rendezvous", library=True),
)
WATCHING = (
    Frame(f"{TORCH}/distributed/elastic/agent/server/api.py", 923, "SimpleElasticAgent._invoke_run", library=True),
)


def unseen(rank: int) -> RankEvidence:
    gone = NotAvailable("no process of this host has this rank now")
    return RankEvidence(rank, 4, rank, 0, "", activity=gone, problem=gone.reason)


def findings(
    state: str = "open", frames: Any = RENDEZVOUS, *, sockets: tuple[Socket, ...] = (), **more: Any
) -> tuple[Finding, ...]:
    stacks = ProcessStacks(0, 99, "rank", "py-spy", (Thread("MainThread", 99, "waiting", frames),))
    told: dict[str, Any] = {
        "launcher_pid": 99,
        "launcher_command": COMMAND,
        "launcher_running_s": 60.0,
        "launcher": Look(0.0, (stacks,)),
        "launcher_activity": activity(99, sockets=sockets),
        "meeting": (MeetingPoint("node0", 29400, ("10.0.0.1",), state),),  # type: ignore[arg-type]
    }
    return judged(told | more).findings


def judged(told: dict[str, Any]) -> Diagnosis:
    return diagnose(job(*(unseen(r) for r in range(4)), **told))


@pytest.mark.parametrize(
    "sockets",
    [(tcp("10.0.0.2:5", "10.0.0.1:29400", "ESTABLISHED"),), (tcp("[::]:29400"),)],
    ids=["a guest", "the host"],
)
def test_it_waits_for_the_other_hosts(sockets: tuple[Socket, ...]) -> None:
    (found,) = findings(sockets=sockets)
    assert found.code == "init_incomplete"
    assert "--nnodes 2" in found.title
    assert "node0:29400" in found.title
    assert any(COMMAND in words for words in found.evidence)
    assert str(sockets[0]) in found.evidence


@pytest.mark.parametrize(
    ("state", "sockets", "why"),
    [
        ("refused", (), "nobody listens there"),
        ("unresolved", (), "does not resolve"),
        ("filtered", (tcp("10.0.0.2:5", "10.0.0.1:29400", "SYN_SENT"),), "SYN_SENT"),
        ("unreachable", (), "no route"),
    ],
)
def test_it_does_not_get_there(state: str, sockets: tuple[Socket, ...], why: str) -> None:
    (found,) = findings(state, sockets=sockets)
    assert found.code == "init_incomplete"
    assert why in found.title
    assert "--preflight --rdzv-endpoint node0:29400" in found.next_steps[0]


def test_it_is_given_time_and_not_accused_of_what_it_does_not_do() -> None:
    assert findings(launcher_running_s=3.0) == ()
    early = judged({"launcher_pid": 99, "launcher_command": COMMAND, "launcher_running_s": 3.0})
    assert (early.state, "has run for 3.0 s and has no ranks" in early.why[-1]) == ("not known", True)
    assert findings(frames=WATCHING) == ()
    assert findings(launcher=None) == ()
    with_ranks = job(*(waiting(r) for r in range(4)), launcher_command=COMMAND)
    assert all("torchrun waits" not in f.title for f in diagnose(with_ranks).findings)
