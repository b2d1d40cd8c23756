"""Whom ranks that stand still are followed to, and what is seen of these: real processes, and ranks as `Watched` has them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hang_evidence import user
from standing import standing, thing, value
from support import until

from jupyter_traindbg.gather import partners
from jupyter_traindbg.model import (
    Beside,
    Channel,
    Channels,
    Coroutine,
    Frame,
    Group,
    JobProcess,
    Look,
    Pace,
    ProcessStacks,
    RankCollectives,
    TcpEnds,
    Thread,
    Wait,
)
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.outside.flows import Place

ME = os.getpid()
PATIENCE_S = 20.0
KEY = "sk-" + "a1B2" * 10
PROGRAM = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
    connection.recv(1)  # HERE
"""


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process of this user's that listens, and its port."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--api-key", KEY], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def watched(wait: Wait | None, *, tid: int | None = ME, **more: Any) -> Any:
    """This process as a rank whose training thread, `tid`, waits so at the last look."""
    own = Thread("MainThread", tid, "waiting", user(10, "step"), wait, training=True)
    looks = [Look(0.0, (ProcessStacks(0, ME, "rank", "agent", (own,)),))]
    link = SimpleNamespace(pid=ME, rank=0, ended=lambda: None)
    return SimpleNamespace(**({"link": link, "looks": looks, "pace": None, "scopes": (), "collectives": None} | more))


@contextlib.contextmanager
def debugger(pid: int = 1) -> Iterator[pytest.MonkeyPatch]:
    """`pid` stands for the process of the debugger, which this one is not here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partners.os, "getpid", lambda: pid)
        patch.setattr(partners.os, "getppid", lambda: pid)
        yield patch


def look(one: Any, *, own_pid: int = 1, more_s: float = 0.0) -> partners.Found:
    """`more_s`: so much longer where a stream may pause."""
    with debugger(own_pid) as patch:
        patch.setattr(partners, "MORE_S", more_s)
        return partners.look([one], None, time.monotonic() + PATIENCE_S)


def test_the_process_at_the_other_end_is_looked_at(server: tuple[subprocess.Popen[str], int]) -> None:
    process, port = server
    with socket.create_connection(("127.0.0.1", port)):
        until(lambda: procfs.raw_system_call(process.pid, process.pid)[0] == "recvfrom", PATIENCE_S)
        found = look(watched(Wait("network", "read")))
    partner = found.partners[process.pid]
    assert (partner.activity.role, partner.trains) == ("beside", False)
    assert "--api-key" in partner.activity.command
    assert KEY not in partner.activity.command
    assert partner.stacks is not None
    assert partner.stacks.threads[0].waiting_for == Wait("network", "read")
    assert [channel.others for channel in partner.channels.waited_at(process.pid)] == [(ME,)]
    assert any(channel.others == (process.pid,) for channel in found.channels[ME].open)


@pytest.fixture
def waited(server: tuple[subprocess.Popen[str], int]) -> Iterator[tuple[int, TcpEnds]]:
    """That process, which waits for us to speak, and the connection as it has it."""
    process, port = server
    with socket.create_connection(("127.0.0.1", port)) as ours:
        until(lambda: procfs.raw_system_call(process.pid, process.pid)[0] == "recvfrom", PATIENCE_S)
        yield process.pid, TcpEnds(*ours.getpeername(), *ours.getsockname())


def at_other_ends(asked: Sequence[TcpEnds], *ranks: int, **called: Any) -> partners.OtherEnds:
    links: Any = [SimpleNamespace(pid=pid, ended=lambda: None) for pid in ranks]
    with debugger():
        return partners.at_other_ends(links, asked, called.get("called", {}), PATIENCE_S)


OF_OTHERS = TcpEnds("10.0.0.2", 8000, "10.0.0.1", 41000)


def test_a_host_tells_who_has_a_connection_and_where_that_one_stands(waited: tuple[int, TcpEnds]) -> None:
    pid, ends = waited
    found = at_other_ends([ends, OF_OTHERS])
    assert {end: far.others for end, far in found.ends.items()} == {ends: (pid,)}
    seen = found.beside.partners[pid]
    assert seen.stacks is not None
    assert seen.stacks.threads[0].waiting_for == Wait("network", "read")
    (waits,) = seen.channels.waited_at(pid)
    assert (waits.key, waits.ends, waits.others) == (found.ends[ends].key, ends, (ME,))


def test_where_that_is_a_rank_it_is_known_already(waited: tuple[int, TcpEnds]) -> None:
    pid, ends = waited
    found = at_other_ends([ends], pid)
    assert (list(found.beside.channels), found.beside.partners) == ([pid], {})
    assert found.ends[ends].others == (pid,)


def test_one_that_was_called_is_looked_at_and_where_it_waits(waited: tuple[int, TcpEnds]) -> None:
    pid, _ = waited
    found = at_other_ends([], called={pid: JobProcess("Reward[0]")})
    seen = found.beside.partners[pid]
    assert seen.stacks is not None
    assert seen.stacks.threads[0].waiting_for == Wait("network", "read")
    assert [channel.others for channel in seen.channels.waited_at(pid)] == [(ME,)]


ASYNC = """
import asyncio

async def serve():
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


def test_what_runs_in_an_event_loop_is_told_in_place_of_the_loop(tmp_path: Path) -> None:
    """The stacks have no coroutine; its agent told of them before."""
    at = tmp_path / "serve.py"
    at.write_text(ASYNC)
    frames = (Frame(str(at), 6, "serve"),)
    awaits, ready = Coroutine(1, "serve", frames, "Event.wait"), Coroutine(2, "other", frames, None)
    with subprocess.Popen([sys.executable, str(at)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "up\n"
            until(lambda: procfs.raw_system_call(process.pid, process.pid)[0] == "epoll_wait", PATIENCE_S)
            found = at_other_ends([], called={process.pid: JobProcess("Async[0]", coroutines=[awaits, ready])})
        finally:
            process.kill()
    stacks = found.beside.partners[process.pid].stacks
    assert stacks is not None
    told = [(t.tid, t.waiting_for, t.frames) for t in stacks.threads]
    assert told == [(process.pid, Wait("coroutine", on="Event.wait"), frames)]
    assert found.sources[f"{at}:6"].text == "await asyncio.Event().wait()"


def test_of_connections_that_it_does_not_have_a_host_says_nothing() -> None:
    assert at_other_ends([OF_OTHERS]) == partners.OtherEnds({}, Beside(), {})


def test_a_program_that_is_no_python_has_no_stacks() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            until(lambda: procfs.raw_system_call(process.pid, process.pid)[0] == "read", PATIENCE_S)
            partner = look(watched(Wait("pipe", "read"))).partners[process.pid]
        finally:
            process.kill()
    assert partner.stacks is None
    assert [thread.call for thread in partner.activity.threads] == ["read"]


@pytest.mark.parametrize(
    ("wait", "more"),
    [
        (None, {}),
        (Wait("loader"), {}),
        (Wait("collective", "all_reduce"), {}),
        (Wait("network", "read"), {"pace": Pace(10, 10, 0.1, 0.1, steps_in_window=3)}),
    ],
)
def test_ranks_that_wait_for_nobody_outside_are_not_followed(wait: Wait | None, more: dict[str, Any]) -> None:
    assert look(watched(wait, **more)) == partners.Found()


def test_in_a_collective_it_is_followed_where_a_group_met_elsewhere() -> None:
    group = Group("weights", "", "gloo", (0, 1), 1, 0, met_at="127.0.0.1:4000")
    told = RankCollectives(0, ME, "agent", (group,), ())
    assert ME in look(watched(Wait("collective", "broadcast"), collectives=told)).channels


def test_the_ports_that_the_variables_of_a_sleeping_rank_name(server: tuple[subprocess.Popen[str], int]) -> None:
    process, port = server
    text = "def wait():\n    time.sleep(1)  # 0\n"
    given: Sequence[dict[str, Any]] = [
        {"port": value(port)},
        {"url": value(f"http://127.0.0.1:{port}/health")},
        {"client": thing("Client", port=str(port))},
    ]
    for variables in given:
        scopes = standing(text, variables)[0]
        found = look(watched(Wait("sleep"), scopes=scopes))
        assert process.pid in found.partners, variables
        assert [c.others for c in found.channels[ME].open if c.kind == "port"] == [(process.pid,)]
    elsewhere = standing(text, {"steps": value(port - 70000), "flag": value(True)})[0]
    locked = standing(text, given[0])[0]
    for found in (look(watched(Wait("sleep"), scopes=elsewhere)), look(watched(Wait("lock"), scopes=locked))):
        assert not any(channel.kind == "port" for channel in found.channels[ME].open)


HOLDS = """
import fcntl, sys, time
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("has it", flush=True)
    time.sleep(600)
"""


def test_who_holds_the_lock_of_a_file_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "cache.lock"
    with subprocess.Popen([sys.executable, "-c", HOLDS, path], stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        with path.open("a") as file:
            waits = threading.Thread(target=fcntl.flock, args=(file, fcntl.LOCK_EX))
            try:
                assert keeper.stdout.readline() == "has it\n"
                waits.start()
                until(lambda: procfs.raw_system_call(ME, waits.native_id or 0)[0] == "flock", PATIENCE_S)
                found = look(watched(Wait("lock", "file"), tid=waits.native_id))
            finally:
                keeper.kill()
            waits.join(PATIENCE_S)
    assert keeper.pid in found.partners


def test_the_debugger_itself_is_left_out(server: tuple[subprocess.Popen[str], int]) -> None:
    process, port = server
    with socket.create_connection(("127.0.0.1", port)):
        found = look(watched(Wait("network", "read")), own_pid=process.pid)
    assert process.pid not in found.partners


STREAMS = """
import socket, sys, time
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
    sys.stdin.readline()
    time.sleep(1)
    connection.sendall(b"token")
    time.sleep(600)
"""


def test_a_stream_that_pauses_is_waited_for() -> None:
    """As long as the last piece of it is no longer ago, and no longer than until the next one has come."""
    with subprocess.Popen(
        [sys.executable, "-c", STREAMS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with socket.create_connection(("127.0.0.1", int(process.stdout.readline()))) as near:
                reader = threading.Thread(target=near.recv, args=(64, socket.MSG_WAITALL))
                reader.start()
                until(lambda: procfs.raw_system_call(ME, reader.native_id or 0)[0] == "recvfrom", PATIENCE_S)
                rank = watched(Wait("network", "read"), tid=reader.native_id)
                (silent,) = look(rank).channels[ME].waited_at(reader.native_id or 0)
                process.stdin.write("go on\n")
                process.stdin.flush()
                (speaks,) = look(rank, more_s=PATIENCE_S).channels[ME].waited_at(reader.native_id or 0)
                near.shutdown(socket.SHUT_RDWR)
                reader.join(PATIENCE_S)
        finally:
            process.kill()
    assert silent.flow is None
    assert silent.silent_s is not None
    assert silent.others == (process.pid,)
    assert speaks.flow is not None
    assert speaks.flow.bytes == 5


def test_who_reads_a_key_of_torchs_store_waits_for_no_stream() -> None:
    assert not partners._may_be_sent_something(watched(Wait("store", "get")))
    assert partners._may_be_sent_something(watched(Wait("network", "read")))


def test_what_comes_is_looked_at_along_the_way() -> None:
    """Rank 1000 waits for 70, which has asked 71 and is asked itself; 73 has to do with it, and it does not wait there."""

    def of(kind: str, key: str, other: int, *, answers: bool = False) -> Channel:
        return Channel("tcp" if kind == "tcp" else "pipe", key, key, (other,), answers=answers)

    known = {
        1000: Channels((of("tcp", "a", 70), of("pipe", "x", 73)), {1001: ("a",)}),
        70: Channels((of("tcp", "A", 1000, answers=True), of("pipe", "b", 71)), {7: ("A",), 8: ("b",)}),
        71: Channels((of("pipe", "B", 70), of("pipe", "c", 70)), {9: ("B", "c"), 10: ("c",)}),
        73: Channels((of("pipe", "X", 1000),), {11: ("X",)}),
    }
    assert sorted(partners._places_beyond([1000], known, [70, 71])) == [Place(70, 8, ["b"]), Place(71, 10, ["c"])]
    assert list(partners._places_beyond([1000], known, [71])) == []
