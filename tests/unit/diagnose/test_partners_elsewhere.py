"""A wait that leads to processes of other hosts, whose pids others may have as well. From hand-made evidence."""

from __future__ import annotations

import dataclasses

import pytest
from hang_evidence import job, stuck, user, waiting
from partner_evidence import ASKING, ASKS, C10D, ENGINE, IN_A_BROADCAST, OTHERS, SOCKET, channels, partner, stands, tcp

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.model import (
    Beside,
    Channel,
    Channels,
    Diagnosis,
    Flow,
    Frame,
    Partner,
    RankEvidence,
    TcpEnds,
    Wait,
)

HERE, THERE, BEYOND = "node-1", "gamma", "delta"
OVER = tcp(40001, 8000)
MINE = dataclasses.replace(OVER, others=(70,), host=THERE)
ITS = dataclasses.replace(tcp(8000, 40001), others=(ASKS,), host=HERE)
AT_IT = channels(MINE, at={ASKS: MINE})
ANSWERS = stands((Frame(ENGINE, 12, "answer"),), Wait("sleep"))


def diagnosed(
    *there: Partner,
    has: Channels = AT_IT,
    asking: RankEvidence = ASKING,
    here: tuple[Partner, ...] = (),
    others: tuple[RankEvidence, ...] = OTHERS,
    **more: Beside,
) -> Diagnosis:
    """The rank that asks has these channels on its own host; `there` are processes of another one, `more` what is known on a third."""
    beside = {
        HERE: Beside({ASKS: has}, {p.pid: p for p in here}),
        THERE: Beside({}, {p.pid: p for p in there}),
        **more,
    }
    return running.diagnose(job(*others, asking, beside=beside))


def test_the_process_is_named_with_its_host() -> None:
    """Another one has its pid on the rank's own host, and nothing to do with it."""
    works = partner(70, stands((Frame(ENGINE, 40, "other"),), None), cpu=0.9)
    found = diagnosed(partner(70, ANSWERS, has=channels(ITS)), here=(works,)).findings[0]
    assert (found.code, found.who, found.where) == ("io_wait", ("rank 2", "pid 70 on gamma"), f"{ENGINE}:12 answer")
    assert found.title.endswith("and process 70 (engine.py) on gamma sleeps at engine.py:12 answer")
    way = f"rank 2 waits for process 70 (`/usr/bin/python3 /srv/engine.py --port 8000`) on gamma over {MINE}; that one sleeps"
    assert any(line.startswith(way) for line in found.evidence)


def test_what_to_do_there_says_where() -> None:
    found = diagnosed(partner(70, ANSWERS, state="T", has=channels(ITS))).findings[0]
    assert found.next_steps[0] == "On gamma: Let it go on: kill -CONT 70"


def test_one_that_works_there_is_no_hang() -> None:
    works = partner(70, stands((Frame(ENGINE, 12, "answer"),), None), cpu=0.9, has=channels(ITS))
    found = diagnosed(works)
    assert (found.state, found.findings[0].code) == ("progressing", "cpu_phase")
    assert "`) on gamma, for which it waits, uses 90% of a CPU" in " ".join(found.findings[0].evidence)


def test_who_sends_something_from_there_is_named() -> None:
    flowing = dataclasses.replace(MINE, flow=Flow(0.5, 2048))
    found = diagnosed(partner(70, ANSWERS, has=channels(ITS)), has=channels(flowing, at={ASKS: flowing}))
    assert found.state == "progressing"
    assert "`) on gamma, for which it waits, has sent or taken 2 KiB" in " ".join(found.findings[0].evidence)


def test_a_ring_over_two_hosts_is_closed() -> None:
    """The worker there waits for the rank in a broadcast; a process of the same pid as the rank is another one."""
    back = dataclasses.replace(tcp(9000, 40005), others=(ASKS,), host=HERE)
    engine = partner(70, stands(*IN_A_BROADCAST), has=channels(ITS, back), trains=True)
    found = diagnosed(engine).findings[0]
    assert (found.code, found.who) == ("process_deadlock", ("rank 2", "pid 70 on gamma"))
    assert "process 70 on gamma waits in broadcast for rank 2" in found.evidence
    elsewhere = dataclasses.replace(back, host=THERE)
    first = diagnosed(partner(70, stands(*IN_A_BROADCAST), has=channels(elsewhere), trains=True)).findings[0]
    assert first.code != "process_deadlock"


def test_both_ends_of_one_connection_may_be_far_apart() -> None:
    its = dataclasses.replace(ITS, far=MINE.key)
    mine = dataclasses.replace(MINE, far=its.key)
    hears = partner(70, stands((Frame(ENGINE, 12, "receive"),), SOCKET), has=channels(its, at={70: its}))
    first = diagnosed(hears, has=channels(mine, at={ASKS: mine})).findings[0]
    assert (first.code, first.who) == ("process_deadlock", ("rank 2", "pid 70 on gamma"))
    assert "process 70 on gamma waits for rank 2 at the other end of the same connection" in first.evidence


def test_a_chain_goes_on_to_a_third_host() -> None:
    up = dataclasses.replace(tcp(40002, 9000), others=(71,), host=BEYOND)
    down = dataclasses.replace(tcp(9000, 40002), others=(70,), host=THERE)
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), SOCKET), has=channels(ITS, up, at={70: up}))
    store = partner(71, stands((Frame(ENGINE, 7, "fetch"),), Wait("sleep")), has=channels(down))
    found = diagnosed(engine, delta=Beside({}, {71: store})).findings[0]
    assert (found.who, found.where) == (("rank 2", "pid 71 on delta"), f"{ENGINE}:7 fetch")
    assert any(line.startswith("process 70 on gamma waits for process 71") for line in found.evidence)


def test_a_rank_of_another_host_may_be_the_one() -> None:
    """It serves the others, and sleeps: it is the reason, and no process beside the job."""
    serving = dataclasses.replace(stuck(1, user(60, "serve"), Wait("sleep")), host=THERE)
    to_it = dataclasses.replace(OVER, others=(1001,), host=THERE)
    own = dataclasses.replace(tcp(8000, 40001), others=(ASKS,), host=HERE)
    found = diagnosed(
        has=channels(to_it, at={ASKS: to_it}),
        others=(waiting(0), serving, waiting(3)),
        gamma=Beside({1001: channels(own)}),
    )
    assert found.findings[0].who == ("rank 1",)
    assert found.findings[0].where == "/home/ada/train.py:60 serve"


def test_of_one_in_the_same_call_there_nothing_is_said() -> None:
    asking = stuck(2, (C10D, Frame("/home/ada/train.py", 50, "sync")), Wait("collective", "broadcast"))
    back = dataclasses.replace(tcp(9000, 40005), others=(ASKS,), host=HERE)
    engine = partner(70, stands(*IN_A_BROADCAST), has=channels(back), trains=True)
    found = diagnosed(engine, asking=asking, has=channels(dataclasses.replace(OVER, others=(70,), host=THERE)))
    assert not any("pid 70 on gamma" in f.who for f in found.findings)


# --- where nobody has looked ---------------------------------------------------------------------------------------

AWAY = Channel(
    "tcp",
    "socket:[1]",
    "tcp 10.0.0.1:40001 -> 10.0.0.9:8000 ESTABLISHED",
    ends=TcpEnds("10.0.0.1", 40001, "10.0.0.9", 8000),
)


@pytest.mark.parametrize(
    ("over", "job_name", "said"),
    [
        (AWAY, "ssh:a,b:torchrun", "the wait is followed there: `traindbg diagnose ssh:a,b,10.0.0.9:torchrun`."),
        (AWAY, "torchrun:99", "on another host, 10.0.0.9: `traindbg targets ssh:10.0.0.9` shows what runs there."),
        (dataclasses.replace(AWAY, far="socket:[2]", host=THERE), "ssh:a:torchrun", "is a process of another user."),
    ],
)
def test_where_a_wait_leads_to_nobody_known_it_is_said_how_to_see_more(over: Channel, job_name: str, said: str) -> None:
    beside = {HERE: Beside({ASKS: channels(over, at={ASKS: over})})}
    evidence = dataclasses.replace(job(*OTHERS, ASKING, beside=beside), name=job_name)
    steps = running.diagnose(evidence).findings[0].next_steps
    assert [step.endswith(said) for step in steps].count(True) == 1, steps


def test_so_it_is_where_one_comes_to_by_way_of_a_process() -> None:
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), SOCKET), has=channels(ITS, AWAY, at={70: AWAY}))
    steps = diagnosed(engine).findings[0].next_steps
    assert any("10.0.0.9: `traindbg targets ssh:10.0.0.9`" in step for step in steps), steps
