"""Where ranks are to meet, looked at from outside: real listeners on loopback, and what is not there."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from jupyter_traindbg.model import Joining, MeetingPoint
from jupyter_traindbg.outside import meeting, procfs
from jupyter_traindbg.outside.meeting import meeting_points


def at(address: str, port: int, deadline_s: float = 2.0) -> MeetingPoint:
    (found,) = meeting_points([(os.getpid(), Joining(0, 2, address, port))], deadline_s)
    return found


def test_a_listener_on_this_host_is_named_without_being_asked(free_port: str) -> None:
    with socket.create_server(("127.0.0.1", int(free_port))) as listener:
        listener.setblocking(False)
        found = at("localhost", int(free_port))
        assert (found.state, found.local, found.holder_pid) == ("open", True, os.getpid())
        assert found.holder_command == " ".join(procfs.command(os.getpid()))
        with pytest.raises(BlockingIOError):
            listener.accept()  # nobody knocked


def test_a_listener_at_all_addresses_counts_for_each(free_port: str) -> None:
    with socket.create_server(("", int(free_port))):
        assert at("127.0.0.3", int(free_port)).state == "open"


def test_nobody_listens(free_port: str) -> None:
    found = at("127.0.0.1", int(free_port))
    assert (found.state, found.local, found.holder_pid, found.holder_command) == ("refused", True, None, "")


@pytest.mark.parametrize("name", ["no-such-host.invalid", "x" * 300])
def test_a_name_that_does_not_resolve(name: str) -> None:
    found = at(name, 29500)
    assert (found.state, found.addresses) == ("unresolved", ())


@pytest.mark.timeout(30)
def test_a_name_server_that_does_not_answer_costs_the_deadline_only(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [answered.wait()] * 0)
    try:
        assert at("slow.example", 29500, deadline_s=0.2).state == "unresolved"
    finally:
        answered.set()


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat loopback as if it were another host, so that a connection is made."""
    monkeypatch.setattr(meeting, "_is_ours", lambda address: False)


def test_another_host_is_asked_with_a_connection(monkeypatch: pytest.MonkeyPatch, free_port: str) -> None:
    elsewhere(monkeypatch)
    assert at("127.0.0.1", int(free_port)).state == "refused"
    with socket.create_server(("127.0.0.1", int(free_port))):
        found = at("127.0.0.1", int(free_port))
    assert (found.state, found.local) == ("open", False)


@pytest.mark.timeout(30)
def test_no_answer_at_all(monkeypatch: pytest.MonkeyPatch, free_port: str) -> None:
    """A listener whose queue is full drops what comes, as a firewall does."""
    elsewhere(monkeypatch)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", int(free_port)))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", int(free_port)))
        try:
            assert at("127.0.0.1", int(free_port), deadline_s=0.3).state == "filtered"
        finally:
            for client in waiting:
                client.close()


def test_no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", Nowhere)
    elsewhere(monkeypatch)
    assert at("192.0.2.1", 29500).state == "unreachable"


def test_each_place_is_looked_at_once_and_unknown_ones_not_at_all(free_port: str) -> None:
    told = [Joining(n, 3, "127.0.0.1", int(free_port)) for n in range(2)] + [Joining(2, 3, None, None)]
    assert len(meeting_points([(os.getpid(), one) for one in told], 1.0)) == 1
