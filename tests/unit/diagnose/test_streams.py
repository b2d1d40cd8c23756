"""A rank that waits where something comes or goes gets on. From hand-made evidence."""

from __future__ import annotations

import dataclasses

from hang_evidence import STD, stuck, user
from partner_evidence import (
    ASKS,
    AT_IT,
    DATA,
    ENGINE,
    EVENTS,
    ITS,
    MINE,
    SOCKET,
    channels,
    diagnosed,
    partner,
    stands,
    tcp,
)

from jupyter_traindbg.model import (
    Channel,
    Channels,
    Flow,
    Frame,
    NotAvailable,
    Wait,
)


def test_one_that_speaks_in_small_pieces_gets_on() -> None:
    """A stream of tokens, with pauses: the server sleeps at every look."""
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), Wait("sleep")), has=channels(ITS))
    for flow, amount in ((Flow(2.0, 27), "27 B"), (Flow(2.0, NotAvailable("not counted")), "something")):
        speaks = dataclasses.replace(MINE, flow=flow)
        found = diagnosed(engine, has=channels(speaks, at={ASKS: speaks}))
        assert (found.state, [f.code for f in found.findings]) == ("progressing", ["cpu_phase"])
        said = "process 70 (`/usr/bin/python3 /srv/engine.py --port 8000`), for which it waits, has sent or taken"
        assert f"{said} {amount} within 2.0 s" in found.findings[0].evidence
    silent = dataclasses.replace(MINE, silent_s=90.0)
    found = diagnosed(engine, has=channels(silent, at={ASKS: silent}))
    assert found.state == "stuck"
    assert f"over {MINE} (silent for 1 min 30 s); that one sleeps" in " ".join(found.findings[0].evidence)


def test_what_others_ask_a_rank_is_not_what_it_waits_for() -> None:
    """A picture of its metrics that somebody looks at."""
    asked = dataclasses.replace(tcp(8000, 50001, 71), flow=Flow(2.0, 4096))
    browser = partner(71, stands(EVENTS, Wait("idle", "events")), has=channels(tcp(50001, 8000, ASKS)))
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), Wait("sleep")), has=channels(ITS))
    has = Channels((MINE, asked), {ASKS: (MINE.key, asked.key)})
    loop = stuck(2, (*EVENTS, *user(50, "rollout")), Wait("idle", "events"))
    assert diagnosed(engine, browser, asking=loop, has=has).state == "stuck"
    speaks = dataclasses.replace(MINE, flow=Flow(2.0, 27))
    has = Channels((speaks, asked), {ASKS: (MINE.key, asked.key)})
    assert diagnosed(engine, browser, asking=loop, has=has).state == "progressing"
    assert diagnosed(browser, has=channels(asked, at={ASKS: asked})).state == "progressing", "it waits there alone"


def test_one_that_gathers_a_stream_before_it_answers_works() -> None:
    up, down = dataclasses.replace(tcp(40002, 9000, 71), flow=Flow(2.0, 27)), tcp(9000, 40002, 70)
    relay = partner(70, stands((Frame(ENGINE, 12, "gather"),), SOCKET), has=channels(ITS, up, at={70: up}))
    origin = partner(71, stands((Frame(DATA, 7, "generate"),), Wait("sleep")), has=channels(down))
    found = diagnosed(relay, origin, has=AT_IT)
    assert found.state == "progressing"
    said = "process 70 (`/usr/bin/python3 /srv/engine.py --port 8000`), for which it waits, has sent or taken 27 B within 2.0 s"
    assert said in found.findings[0].evidence
    far = Channel("tcp", "socket:[40002]", "tcp 10.0.0.1:40002 -> 10.0.0.9:443 ESTABLISHED", flow=Flow(2.0, 27))
    relay = partner(70, stands((Frame(ENGINE, 12, "gather"),), SOCKET), has=channels(ITS, far, at={70: far}))
    assert diagnosed(relay, has=AT_IT).state == "progressing", "from another host"
    metrics = stands((Frame(f"{STD}/socket.py", 700, "readinto", library=True),), SOCKET, name="metrics", tid=75)
    sleeps = stands((Frame(ENGINE, 12, "answer"),), Wait("sleep"))
    other = partner(70, sleeps, metrics, has=channels(ITS, far, at={75: far}))
    assert diagnosed(other, has=AT_IT).state == "stuck", "what a library is sent is nothing for the rank"


def test_a_stream_from_another_host_is_one_too() -> None:
    there = Channel("tcp", "socket:[40001]", "tcp 10.0.0.1:40001 -> 10.0.0.9:8000 ESTABLISHED", flow=Flow(2.0, 27))
    found = diagnosed(has=channels(there, at={ASKS: there}))
    assert found.state == "progressing"
    assert f"over {there}, where it waits, 27 B came or went within 2.0 s" in found.findings[0].evidence
    silent = dataclasses.replace(there, flow=None)
    assert diagnosed(has=channels(silent, at={ASKS: silent})).state == "stuck"


def test_a_named_pipe_is_a_file_by_its_name() -> None:
    lines = Channel("named pipe", "/data/lines", "/data/lines", (70,), flow=Flow(2.0, NotAvailable("not counted")))
    reads = stuck(2, user(50, "take"), Wait("file", "read", "/data/lines"))
    feeder = partner(70, stands((Frame(ENGINE, 12, "feed"),), Wait("sleep")))
    assert diagnosed(feeder, asking=reads, has=channels(lines, at={ASKS: lines})).state == "progressing"
    silent = dataclasses.replace(lines, flow=None)
    assert diagnosed(feeder, asking=reads, has=channels(silent, at={ASKS: silent})).state == "stuck"
