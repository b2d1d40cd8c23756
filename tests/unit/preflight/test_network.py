"""Names, ports and ways as `preflight.network` sees them, on the loopback; what cannot be had there is in the integration test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from jupyter_traindbg.model import NotAvailable, PreflightPort
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.preflight import network


@pytest.fixture
def listening() -> Iterator[int]:
    """The port of a listener on the loopback that nobody accepts from."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(8)
        yield s.getsockname()[1]


@pytest.fixture
def saturated() -> Iterator[int]:
    """A listener whose queue is full: the kernel drops what comes, as a firewall does."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(s.getsockname())
        time.sleep(0.05)
        yield s.getsockname()[1]
        for one in waiting:
            one.close()


@pytest.mark.timeout(30)
def test_who_answers_who_refuses_and_who_is_silent(listening: int, saturated: int, free_port: str) -> None:
    assert network.knock("127.0.0.1", listening, 2)[0] == "open"
    state, why, seconds = network.knock("127.0.0.1", int(free_port), 2)
    assert (state, why) == ("refused", "Connection refused")
    assert seconds > 0
    state, why, _ = network.knock("127.0.0.1", saturated, 0.3)
    assert (state, why) == ("filtered", "no answer in 0.3 s")


def test_a_port_of_this_machine_is_looked_up_and_not_disturbed(listening: int, free_port: str) -> None:
    taken = network.port("127.0.0.1", listening, 2)
    assert (taken.state, taken.holder_pid) == ("taken", os.getpid())
    assert taken.holder == " ".join(procfs.command(os.getpid()))
    assert network.port("localhost", int(free_port), 2) == PreflightPort("localhost", int(free_port), "free")
    again = network.port("127.0.0.1", int(free_port), 2)
    assert again.state == "free", "the trial left nothing behind"


def test_a_listener_at_all_addresses_holds_the_port_of_each() -> None:
    with socket.socket(socket.AF_INET6) as s:
        s.bind(("::", 0))
        s.listen()
        assert network.port("127.0.0.1", s.getsockname()[1], 2).state == "taken"


STORE = """
import os, socket, time
s = socket.socket()
s.bind(("127.0.0.1", int(os.environ["MASTER_PORT"])))
s.listen()
print("listening", flush=True)
time.sleep(60)
"""


def test_a_port_that_the_job_itself_holds_is_not_taken_from_it(free_port: str) -> None:
    environ = {"MASTER_PORT": free_port}
    store = subprocess.Popen([sys.executable, "-c", STORE], env=environ, stdout=subprocess.PIPE, text=True)
    try:
        assert store.stdout is not None
        assert store.stdout.readline() == "listening\n"
        seen = network.port("127.0.0.1", int(free_port), 2)
        assert (seen.state, seen.holder_pid) == ("open", store.pid)
    finally:
        store.kill()
        store.communicate(timeout=10)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may listen anywhere")
def test_a_port_for_root_only() -> None:
    assert network.port("127.0.0.1", 81, 2).state == "not permitted"


@pytest.mark.parametrize("name", ["no-such-host.invalid", "", "a" * 300, "bad..name", "\u2603" * 80])
def test_a_name_that_means_nothing(name: str) -> None:
    host = network.host(name, 29500, 2)
    if not host.addresses:
        assert host.problem
        assert network.port(name, 29500, 2).state == "unresolved"
    else:
        assert host.local, "the empty name is this machine"


def test_the_way_to_oneself(listening: int, free_port: str) -> None:
    for port in (listening, int(free_port)):
        host = network.host("localhost", port, 2)
        assert host.local
        assert host.problem == ""
        assert host.interface == "lo"
        assert isinstance(host.latency_s, float)
        assert host.latency_s > 0


@pytest.mark.timeout(30)
def test_a_host_that_is_silent_is_not_waited_for_again(saturated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    knocked: list[int] = []

    def knock(address: str, at: int, deadline_s: float) -> tuple[str, str, float]:
        knocked.append(at)
        return really(address, at, deadline_s / 2)  # time is left for more

    really = network.knock
    monkeypatch.setattr(network, "knock", knock)
    host = network.host("127.0.0.1", saturated, 0.6)
    assert knocked == [saturated]
    assert isinstance(host.latency_s, NotAvailable)
    assert host.problem == f"nothing answers at port {saturated}: filtered"


def test_interfaces_of_this_machine() -> None:
    found = {i.name: i for i in network.interfaces()}
    assert found["lo"].loopback
    assert "127.0.0.1" in found["lo"].addresses
    assert not any("%" in address for i in found.values() for address in i.addresses)
    assert network.source_address("127.0.0.1") == "127.0.0.1"


@pytest.mark.timeout(30)
def test_one_that_does_not_answer_in_time_costs_the_others_nothing() -> None:
    released = threading.Event()

    def never() -> int:
        released.wait()
        return 0

    try:
        assert network.all_at_once([lambda: 1, never, lambda: 3], 0.3, lambda i: -i) == [1, -1, 3]
    finally:
        released.set()
