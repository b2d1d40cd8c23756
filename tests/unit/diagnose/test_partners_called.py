"""For whom a rank waits in `ray.get`, and for whom that one waits: processes that Ray knows, and calls of which it alone does. From
hand-made evidence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pytest
from hang_evidence import job, records, stuck, user, waiting
from partner_evidence import ENGINE, IN_A_BROADCAST, partner, stands, tcp

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.gather.called import with_calls
from jupyter_traindbg.model import Channels, Diagnosis, Frame, HostPid, JobProcess, Partner, RankEvidence, Wait

RANK, HOST = 1002, "node-1"
RAY = "/opt/venv/lib/python3.11/site-packages/ray"
GETS = (Frame(f"{RAY}/_private/worker.py", 3009, "get", library=True), *user(50, "rollout"))
LOOP = (Frame(f"{RAY}/_private/worker.py", 1069, "Worker.main_loop", library=True),)
ASKING = stuck(2, GETS, Wait("ray"))
OTHERS = (waiting(0), waiting(1), waiting(3))
NO_CALL = Wait("idle", "calls")
SCORES = (Frame(ENGINE, 12, "Reward.score"),)
CALLED: Mapping[int, Sequence[int]] = {RANK: [70]}


def diagnosed(
    *partners: Partner, calls: Mapping[int, Sequence[int]] = CALLED, asking: RankEvidence = ASKING, drives: int = 0
) -> Diagnosis:
    """`calls`: by pid, whose results it waits for; the one that `drives` is the driver."""

    def at(pid: int) -> HostPid:
        return HOST, pid

    pids = [*calls, *(p.pid for p in partners)]
    known = {at(p): JobProcess(f"Worker[{p}]", [at(c) for c in calls.get(p, ())], drives=p == drives) for p in pids}
    seen = job(*OTHERS, asking, channels={}, partners={p.pid: p for p in partners})
    return running.diagnose(with_calls(seen, known))


def test_whoever_runs_the_call_is_the_place() -> None:
    found = diagnosed(partner(70, stands(SCORES, Wait("network", "read")))).findings[0]
    assert (found.code, found.who, found.where) == (
        "python_wait",
        ("rank 2", "Worker[70]"),
        f"{ENGINE}:12 Reward.score",
    )
    assert found.title == (
        "Rank 2 waits for a result from Ray at train.py:50 rollout, and Worker[70] (process 70) waits for data from a socket at "
        "engine.py:12 Reward.score"
    )
    assert (
        "rank 2 waits for Worker[70] (process 70); that one waits for data from a socket at engine.py:12 Reward.score"
        in found.evidence
    )
    assert found.next_steps[1].startswith("Give up its call: `traindbg ray-rescue torchrun:99 --interrupt Worker[70]`")


@pytest.mark.parametrize(
    "wait", [Wait("queue"), Wait("thread"), Wait("coroutine", on="Event.wait")], ids=lambda wait: wait.kind
)
def test_in_a_call_even_who_waits_for_something_to_do_is_not_idle(wait: Wait) -> None:
    found = diagnosed(partner(70, stands(SCORES, wait))).findings[0]
    assert (found.who, found.where, found.confidence) == (("rank 2", "Worker[70]"), f"{ENGINE}:12 Reward.score", "high")


def test_a_coroutine_without_a_line_of_the_users_tells_what_it_awaits() -> None:
    """The actor of Ray's own queue."""
    found = diagnosed(partner(70, stands((), Wait("coroutine", on="Queue.get")))).findings[0]
    assert found.title.endswith("and Worker[70] (process 70) waits for Queue.get")
    assert found.next_steps[0] == "See who should bring about what it awaits: that one has ended, or waits itself."


def test_it_goes_on_by_calls_and_connections() -> None:
    """The rank waits at a call, the rollout at a socket, the engine at a call."""
    near, far = tcp(40001, 8000, 80), tcp(8000, 40001, 70)
    rollout = partner(70, stands(SCORES, Wait("network", "read")), has=Channels((near,), {70: (near.key,)}))
    engine = partner(80, stands(((Frame(ENGINE, 20, "Engine.answer")),), Wait("ray")), has=Channels((far,), {}))
    reward = partner(90, stands((Frame(ENGINE, 33, "Judge.judge"),), Wait("lock")))
    found = diagnosed(rollout, engine, reward, calls={RANK: [70], 80: [90]}).findings[0]
    assert found.who == ("rank 2", "Worker[90]")
    assert found.where == f"{ENGINE}:33 Judge.judge"


def test_one_that_computes_is_no_hang() -> None:
    found = diagnosed(partner(70, stands(SCORES, None), cpu=0.9))
    assert (found.state, found.findings[0].code) == ("progressing", "cpu_phase")
    assert "Worker[70] (process 70), for which it waits, uses 90% of a CPU" in found.findings[0].evidence


def test_who_waits_in_a_collective_for_the_rank_makes_a_ring() -> None:
    gloo = tcp(40001, 50001, RANK)
    engine = partner(70, stands(*IN_A_BROADCAST), trains=True, has=Channels((gloo,)))
    found = diagnosed(engine).findings[0]
    assert (found.code, found.who) == ("process_deadlock", ("rank 2", "Worker[70]"))
    assert "Worker[70] waits in broadcast for rank 2" in found.evidence


def test_all_of_a_ray_job_are_connected_and_that_says_nothing() -> None:
    """The driver has loaded torch, has a connection to the actor and waits for the rank: no ring, and not who keeps the actor waiting."""
    near, far = tcp(40001, 50001, 80), tcp(50001, 40001, 70)
    reward = partner(70, stands(SCORES, Wait("queue")), has=Channels((near,)))
    driver = partner(80, stands(GETS, Wait("ray")), trains=True, has=Channels((far,)))
    found = diagnosed(reward, driver, calls={RANK: [70], 80: [RANK]}, drives=80).findings[0]
    assert (found.code, found.who) == ("python_wait", ("rank 2", "Worker[70]"))


def test_a_process_that_is_passed_on_the_way_is_no_end() -> None:
    """Both calls lead to one: by itself, and through another that waits for it, too."""
    between = partner(70, stands((Frame(ENGINE, 20, "Engine.answer"),), Wait("ray")))
    last = partner(90, stands((Frame(ENGINE, 33, "Judge.judge"),), Wait("queue")))
    found = diagnosed(between, last, calls={RANK: [70, 90], 70: [90]}).findings[0]
    assert found.who == ("rank 2", "Worker[90]")


# --- actors between two calls --------------------------------------------------------------------------------------------


def rests(number: int) -> RankEvidence:
    return stuck(number, LOOP, NO_CALL)


def test_ranks_that_run_no_call_have_nothing_to_do() -> None:
    found = running.diagnose(job(rests(0), rests(1), world_size=2))
    assert (found.state, found.findings) == ("idle", ())
    assert {row.doing for row in found.ranks} == {"runs no call"}
    assert "ranks 0, 1: no call of Ray's ran at any look" in found.why


def test_one_that_runs_none_while_others_wait_in_theirs_has_left_them() -> None:
    found = running.diagnose(job(waiting(0), waiting(1), rests(2), world_size=3)).findings[0]
    assert (found.code, found.who, found.confidence) == ("python_wait", ("rank 2",), "high")
    assert found.title == "Rank 2 runs no call any more, while the others wait for it in theirs"
    assert found.where is None


def test_one_that_is_no_member_of_their_group_has_not_left_them() -> None:
    """Critics have nothing to do while the actors train."""
    known = [records(n, waits="all_reduce") for n in range(2)]
    members = [
        waiting(n, collectives=dataclasses.replace(one, groups=[dataclasses.replace(one.groups[0], ranks=(0, 1))]))
        for n, one in enumerate(known)
    ]
    found = running.diagnose(job(*members, rests(2), world_size=3))
    assert found.ranks[2].state == "idle"
    assert all("rank 2" not in f.who for f in found.findings), found.findings


def test_one_that_runs_none_is_not_to_blame_where_another_one_stands_still() -> None:
    """Only rank 2 was called: to save what all of them have, say."""
    reads = stuck(2, user(60, "save"), Wait("network", "read"))
    found = running.diagnose(job(rests(0), reads, world_size=2))
    assert [f.who for f in found.findings] == [("rank 2",)]
