"""What comes over the channels at which threads wait: real connections, pipes and Unix sockets of this process."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from support import until

from jupyter_traindbg.model import Flow, NotAvailable
from jupyter_traindbg.outside import flows, procfs, runs, tcp_counters
from jupyter_traindbg.outside.flows import Flows, Place

ME = os.getpid()
PATIENCE_S = 20.0


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def key_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def connected(cleanup: ExitStack, family: socket.AddressFamily = socket.AF_INET) -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection."""
    with socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family) as server:
        near = cleanup.enter_context(socket.create_connection(server.getsockname()[:2]))
        far = cleanup.enter_context(server.accept()[0])
    return near, far


def waits(
    cleanup: ExitStack, read: Callable[[], bytes], call: str, *keys: str, end: Callable[[], object] = lambda: None
) -> Place:
    """A thread that reads until there is no more, at its first wait in that system call. `keys`: of the channels at which that is; `end`
    gets it out of there.
    """

    def run() -> None:
        with contextlib.suppress(OSError):
            while read():
                pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    cleanup.callback(thread.join, PATIENCE_S)
    cleanup.callback(end)
    assert thread.native_id is not None
    tid = thread.native_id
    stands(tid, call)
    return Place(ME, tid, keys)


def stands(tid: int, call: str) -> None:
    """Wait until the kernel has put a thread to sleep in that call."""
    until(lambda: procfs.raw_system_call(ME, tid)[0] == call, PATIENCE_S)


def test_bytes_that_come_over_a_connection_are_counted(cleanup: ExitStack) -> None:
    near, far = connected(cleanup)
    key = key_of(near.fileno())
    place = waits(cleanup, lambda: near.recv(64), "recvfrom", key, end=lambda: far.shutdown(socket.SHUT_RDWR))
    seen = Flows([place])
    assert seen.now() == {}
    assert seen.may_come, "it was made just now"
    far.sendall(b"token")
    until(lambda: (ME, key) in seen.now(), PATIENCE_S)
    flow = seen.now()[ME, key]
    assert flow.bytes == 5
    assert 0 < flow.within_s < PATIENCE_S
    assert 0 <= seen.silences()[ME, key] < PATIENCE_S


def test_one_that_has_been_silent_for_long_need_not_be_looked_at_for_longer(
    cleanup: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = connected(cleanup)
    seen = Flows(
        [
            waits(
                cleanup,
                lambda: near.recv(64),
                "recvfrom",
                key_of(near.fileno()),
                end=lambda: far.shutdown(socket.SHUT_RDWR),
            )
        ]
    )
    monkeypatch.setattr(flows, "RECENT_S", 0.0)
    assert not seen.may_come


def test_what_a_thread_that_reads_sends_meanwhile_is_not_what_it_waits_for(cleanup: ExitStack) -> None:
    """A keep-alive, by another thread."""
    near, far = connected(cleanup)
    key = key_of(near.fileno())
    seen = Flows([waits(cleanup, lambda: near.recv(64), "recvfrom", key, end=lambda: far.shutdown(socket.SHUT_RDWR))])
    before = tcp_counters.table()[int(key[8:-1])].taken_bytes
    near.sendall(b"ping")
    until(lambda: tcp_counters.table()[int(key[8:-1])].taken_bytes == before + 4, PATIENCE_S)
    assert seen.now() == {}


def test_a_reader_that_takes_what_is_sent(cleanup: ExitStack) -> None:
    near, far = connected(cleanup, socket.AF_INET6)
    key = key_of(near.fileno())

    def send() -> bytes:
        near.sendall(bytes(1 << 20))
        return b"more"

    seen = Flows([waits(cleanup, send, "sendto", key, end=lambda: near.shutdown(socket.SHUT_RDWR))])
    taken = 0
    while taken < 1 << 21:
        taken += len(far.recv(1 << 16))
    until(lambda: (ME, key) in seen.now(), PATIENCE_S)


def pipe(cleanup: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    cleanup.callback(os.close, reading)
    return reading, writing


def pair(cleanup: ExitStack) -> tuple[int, int]:
    near, far = socket.socketpair()
    return cleanup.enter_context(near).fileno(), far.detach()


@pytest.mark.parametrize("make", [pipe, pair])
def test_at_a_pipe_who_waits_without_a_limit_is_woken_by_what_comes(
    cleanup: ExitStack, make: Callable[[ExitStack], tuple[int, int]]
) -> None:
    reading, writing = make(cleanup)
    key = key_of(reading)
    place = waits(cleanup, lambda: os.read(reading, 64), "read", key, end=lambda: os.close(writing))
    seen = Flows([place])
    assert seen.now() == {}
    assert seen.may_come
    os.write(writing, b"line\n")
    until(lambda: (ME, key) in seen.now(), PATIENCE_S)
    assert isinstance(seen.now()[ME, key].bytes, NotAvailable)
    assert seen.silences() == {}


def test_who_looks_now_and_then_wakes_up_by_itself(cleanup: ExitStack) -> None:
    reading, writing = pipe(cleanup)
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    place = waits(
        cleanup, lambda: b"" if poll.poll(50) else b"again", "poll", key_of(reading), end=lambda: os.close(writing)
    )
    seen = Flows([place])
    ran = runs.count(ME, place.tid)
    assert ran is not None
    until(lambda: (runs.count(ME, place.tid) or 0) > ran + 2, PATIENCE_S)
    stands(place.tid, "poll")
    assert seen.now() == {}
    assert not seen.may_come


def test_without_the_kernels_counts_a_connection_is_as_a_pipe(
    cleanup: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of another network namespace."""
    monkeypatch.setattr(tcp_counters, "table", dict)
    near, far = connected(cleanup)
    key = key_of(near.fileno())
    seen = Flows([waits(cleanup, lambda: near.recv(64), "recvfrom", key, end=lambda: far.shutdown(socket.SHUT_RDWR))])
    assert seen.may_come
    far.sendall(b"token")
    until(lambda: (ME, key) in seen.now(), PATIENCE_S)
    assert isinstance(seen.now()[ME, key], Flow)


def test_an_event_loop_is_woken_by_any_of_its_channels(cleanup: ExitStack) -> None:
    """So that it wakes up tells nothing of one of them; the bytes of a connection do."""
    reading, writing = pipe(cleanup)
    near, far = connected(cleanup)
    with select.epoll() as loop:
        loop.register(reading, select.EPOLLIN)
        loop.register(near, select.EPOLLIN)

        def read() -> bytes:
            ready = [fd for fd, _ in loop.poll()]
            return b"".join(os.read(fd, 64) for fd in ready)

        keys = key_of(reading), key_of(near.fileno())
        place = waits(cleanup, read, "epoll_wait", *keys)
        seen = Flows([place])
        ran = runs.count(ME, place.tid)
        os.write(writing, b"line\n")
        until(lambda: runs.count(ME, place.tid) != ran, PATIENCE_S)
        assert seen.now() == {}
        far.sendall(b"token")
        until(lambda: (ME, keys[1]) in seen.now(), PATIENCE_S)
        os.close(writing)
        until(lambda: not os.path.exists(f"/proc/self/task/{place.tid}"), PATIENCE_S)


def test_nowhere() -> None:
    seen = Flows([])
    assert (seen.may_come, seen.now(), seen.silences()) == (False, {}, {})
