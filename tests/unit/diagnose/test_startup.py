"""Why a process group does not come about: hand-made evidence of each reason, and of jobs in which another rule has the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hang_evidence import tcp

from jupyter_traindbg.diagnose.hang import case, startup
from jupyter_traindbg.model import (
    Activity,
    Ending,
    Finding,
    Frame,
    Group,
    HostFacts,
    JobEvidence,
    Joining,
    Look,
    MeetingPoint,
    NotAvailable,
    ProcessStacks,
    RankCollectives,
    RankEvidence,
    Socket,
    Thread,
    ThreadActivity,
    Wait,
)

C10D = "/opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
RENDEZVOUS = "/opt/lib/python3.11/site-packages/torch/distributed/rendezvous.py"
MAIN = Frame("/home/ada/train.py", 12, "main")
AT_STORE = (Frame(RENDEZVOUS, 199, "_create_c10d_store", True), Frame(C10D, 1892, "init_process_group", True), MAIN)
IN_MESH = (Frame(C10D, 2169, "_new_process_group_helper", True), Frame(C10D, 1899, "init_process_group", True), MAIN)
LOADING = (Frame("/home/ada/data.py", 30, "load"), MAIN)
PORT = 29500
HERE = MeetingPoint("10.0.0.1", PORT, ("10.0.0.1",), "open", True, 100, "python train.py")


def told(rank: int, world: int = 2, address: str = "10.0.0.1", port: int = PORT) -> Joining:
    return Joining(rank, world, address, port, "gloo", 1800.0, serves=rank == 0)


def joining(n: int, frames: Sequence[Frame] = IN_MESH, sockets: Sequence[Socket] = (), **more: Any) -> RankEvidence:
    """A living rank with this stack at every look; in ``init_process_group`` unless told otherwise."""
    pid = 100 + n
    waits = Wait("init", "init_process_group") if frames in (AT_STORE, IN_MESH) else Wait("sleep")
    thread = Thread("MainThread", pid, "waiting", tuple(frames), waits, training=True)
    look = ProcessStacks(n, pid, "rank", "agent", (thread,))
    activity = ThreadActivity(pid, "python", "S", 0.0, 0, call="poll")
    defaults: dict[str, Any] = {
        "rank": n,
        "world_size": 2,
        "local_rank": n,
        "pid": pid,
        "host": "here",
        "looks": (Look(0.0, (look,)), Look(1.5, (look,))),
        "activity": Activity(pid, "rank", "python train.py", 1.5, "S", 0.0, (activity,), sockets=tuple(sockets)),
        "joining": told(n),
        "environ": {"WORLD_SIZE": "2"},
    }
    return RankEvidence(**{**defaults, **more})


def ended(n: int, *lines: str, code: int | None = 1) -> RankEvidence:
    how = NotAvailable("nobody saw it") if code is None else code
    return RankEvidence(n, 2, n, 0, "here", ending=Ending(0, exit_code=how, last_lines=lines))


def hits(*ranks: RankEvidence, **more: Any) -> list[case.Hit]:
    world = max(r.world_size for r in ranks)
    return startup.rule(case.build(JobEvidence("torchrun:1", ranks, world, **{"nproc": world, **more})))


def verdict(*ranks: RankEvidence, **more: Any) -> tuple[Finding, list[int]]:
    (found,) = hits(*ranks, **more)
    assert found.finding.code == "init_incomplete"
    assert found.finding.severity in ("critical", "warning")
    assert found.finding.who == tuple(f"rank {n}" for n in sorted(found.ranks))
    assert found.finding.cause
    assert found.finding.next_steps
    return found.finding, list(found.ranks)


CONNECTED = (tcp("10.0.0.1:41000", f"10.0.0.1:{PORT}", "ESTABLISHED"),)


def test_an_unlike_address_is_named_with_the_rank_that_was_given_it() -> None:
    point = MeetingPoint("10.0.0.9", PORT, ("10.0.0.9",), "unreachable")
    lost = joining(1, AT_STORE, joining=told(1, address="10.0.0.9"))
    finding, blamed = verdict(joining(0, AT_STORE, CONNECTED), lost, meeting=(HERE, point))
    assert blamed == [1]
    assert finding.title.startswith("Rank 1 looks for the job at 10.0.0.9:29500, rank 0 at 10.0.0.1:29500")
    assert finding.title.endswith("there is no route to it")
    assert finding.where == "/home/ada/train.py:12 main"
    assert "rank 1 was told: meet at 10.0.0.9:29500, 2 ranks, gloo, time-out 30 min" in finding.evidence


@pytest.mark.parametrize(
    ("state", "sockets", "words"),
    [
        ("refused", (), "nobody listens there"),
        ("filtered", (tcp("10.0.0.2:41000", f"10.0.0.1:{PORT}", "SYN_SENT"),), "no answer from there"),
        ("unresolved", (), "the name does not resolve"),
    ],
)
def test_a_store_that_cannot_be_reached_says_how(state: Any, sockets: Sequence[Socket], words: str) -> None:
    addresses = () if state == "unresolved" else ("10.0.0.1",)
    point = MeetingPoint("10.0.0.1", PORT, addresses, state)
    ranks = [joining(n, AT_STORE, sockets, environ={"TORCHELASTIC_USE_AGENT_STORE": "True"}) for n in (0, 1)]
    finding, blamed = verdict(*ranks, meeting=(point,))
    assert blamed == [0, 1]
    assert finding.title == f"Ranks 0, 1 cannot reach the job's store at 10.0.0.1:29500: {words}"
    assert any("--preflight" in step for step in finding.next_steps)


def test_names_of_the_same_machine_are_one_place() -> None:
    names = (MeetingPoint("node-a", PORT, ("10.0.0.1",), "open"), MeetingPoint("10.0.0.1", PORT, ("10.0.0.1",), "open"))
    ranks = [joining(n, joining=told(n, 3, address)) for n, address in enumerate(("node-a", "10.0.0.1"))]
    finding, blamed = verdict(*ranks, meeting=names, nproc=2)
    assert blamed == [2]
    assert "world size is 3, but 2 processes were started" in finding.title


def test_a_port_that_a_stranger_listens_at() -> None:
    stranger = MeetingPoint("10.0.0.1", PORT, ("10.0.0.1",), "open", True, 4711, "python old_train.py")
    finding, blamed = verdict(
        ended(0, code=None), joining(1, AT_STORE, CONNECTED), meeting=(stranger,), launcher_pid=50
    )
    assert blamed == [0]
    assert finding.title == "The job cannot begin: port 29500 is taken by process 4711 (`python old_train.py`)"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("torch.distributed.DistNetworkError: ... (errno: 98 - Address already in use)", "port 29500 is taken"),
        ("RuntimeError: [enforce fail] Unable to find address for: eth7", "no such network interface"),
        ("torch.AcceleratorError: CUDA error: invalid device ordinal", "on a machine with 1 GPUs"),
    ],
)
def test_the_last_words_of_a_rank_that_could_not_begin(line: str, words: str) -> None:
    host = HostFacts("here", 8, 1, 1, 1, 0, 1, 1, {}, {}, {})
    finding, blamed = verdict(ended(0, "starting", line), joining(1, AT_STORE), hosts=(host,))
    assert blamed == [0]
    assert words in finding.title
    assert any(line in said for said in finding.evidence)


def test_ranks_that_were_not_started_are_named() -> None:
    finding, blamed = verdict(
        joining(0, AT_STORE, CONNECTED, joining=told(0, 3)),
        joining(1, joining=told(1, 3), sockets=CONNECTED),
        ended(2, code=None),
        nproc=None,
        meeting=(HERE,),
    )
    assert blamed == [2]
    assert finding.title == "Rank 2 never came: 2 of 3 ranks wait in init_process_group"


def test_ranks_of_other_hosts_may_be_on_their_way() -> None:
    environ = {"GROUP_WORLD_SIZE": "2", "WORLD_SIZE": "4"}
    ranks = [joining(n, AT_STORE, CONNECTED, joining=told(n, 4), environ=environ) for n in (0, 1)]
    finding, blamed = verdict(*ranks, meeting=(HERE,))
    assert blamed == [2, 3]
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    assert "other hosts" in finding.title


def test_two_processes_with_one_rank() -> None:
    ranks = [joining(n, joining=told(min(n, 1), 3)) for n in range(3)]
    finding, blamed = verdict(*ranks, meeting=(HERE,))
    assert blamed == [2]
    assert finding.title == "2 processes all join as rank 1 (pids 101, 102)"
    assert "nobody joins as rank 2" in finding.evidence


def test_unlike_world_sizes() -> None:
    ranks = [joining(n, joining=told(n, 4 if n == 2 else 3)) for n in range(3)]
    finding, blamed = verdict(*ranks, meeting=(HERE,))
    assert blamed == [2]
    assert finding.title == "Rank 2 expects 4 ranks, the others 3"


def test_ranks_that_find_the_store_and_not_each_other() -> None:
    sockets = (*CONNECTED, tcp("10.0.0.1:5000", "172.17.0.1:40001", "SYN_SENT"))
    environ = {"GLOO_SOCKET_IFNAME": "docker0"}
    finding, blamed = verdict(joining(0, sockets=sockets, environ=environ), joining(1), meeting=(HERE,))
    assert blamed == [0]
    assert "interface" in finding.title
    assert "no answer from 172.17.0.1" in finding.evidence
    assert "set: GLOO_SOCKET_IFNAME=docker0" in finding.evidence


def test_what_they_were_told_comes_from_the_environment_where_no_agent_is() -> None:
    environ = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    no_agent = NotAvailable("no agent")
    finding, blamed = verdict(joining(1, AT_STORE, joining=no_agent, environ=environ), ended(0, code=None))
    assert blamed == [0]
    assert finding.title.startswith("Rank 0 never came")


def test_a_rank_that_is_alive_elsewhere_is_another_rules_business() -> None:
    refused = MeetingPoint("10.0.0.1", PORT, ("10.0.0.1",), "refused", True)
    late = joining(0, LOADING, joining=NotAvailable("not on its way"))
    assert hits(late, joining(1, AT_STORE), meeting=(refused,)) == []


def test_a_rank_that_died_of_something_else_is_another_rules_business() -> None:
    assert hits(ended(0, "ValueError: no such model"), joining(1, AT_STORE)) == []
    assert hits(ended(0, code=137), joining(1, AT_STORE)) == []


def test_a_job_past_its_beginning_has_nothing_to_do_with_it() -> None:
    group = Group("0", "default_pg", "gloo", (0, 1), 7, 6)
    collectives = RankCollectives(0, 100, "agent", (group,), ())
    assert hits(joining(0, LOADING, collectives=collectives), joining(1, LOADING)) == []


def test_all_is_there_and_only_slow() -> None:
    assert hits(joining(0, sockets=CONNECTED), joining(1, sockets=CONNECTED), meeting=(HERE,)) == []


def test_one_that_has_not_come_past_the_store_where_the_others_have() -> None:
    """As dumps tell it: nobody has seen their sockets, and of those that are past it not where they were to meet."""
    once = NotAvailable("seen once")
    unseen: dict[str, Any] = {"activity": once, "environ": once}
    past = [joining(n, joining=Joining(n, 3, None, None), **unseen) for n in (0, 2)]
    behind = joining(1, AT_STORE, joining=told(1, 3, "10.0.0.9"), **unseen)
    finding, blamed = verdict(past[0], behind, past[1], motion_shows=once)
    assert blamed == [1]
    assert finding.title == "Rank 1 has not come past the job's store at 10.0.0.9:29500, and ranks 0, 2 have"
    assert "ranks 0, 2 were told: 3 ranks" in finding.evidence
    assert any("at the job's store, or on the way to it" in line for line in finding.evidence)
    assert any("--master-addr 10.0.0.9" in step for step in finding.next_steps)
    nothing_told = joining(1, AT_STORE, joining=once, **unseen)
    finding, _ = verdict(past[0], nothing_told, past[1], motion_shows=once)
    assert finding.title == "Rank 1 has not come past the job's store, and ranks 0, 2 have"
    assert len(finding.next_steps) == 1
    assert hits(past[0], behind, past[1]) == [], "a job that may be about to begin"
    connected = joining(1, AT_STORE, CONNECTED, joining=told(1, 3))
    assert hits(past[0], connected, past[1], motion_shows=once) == []


def test_the_verdict_speaks_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    finding, _ = verdict(joining(0, joining=told(0, 3)), joining(1, joining=told(1, 3)), nproc=2)
    assert "只启动了 2 个进程" in finding.title
