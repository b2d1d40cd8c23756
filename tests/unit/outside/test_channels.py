"""Who has the other end of sockets, pipes, named pipes and shared memory. Real ones, shared with real processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing import shared_memory
from pathlib import Path

import pytest
from support import need, until

from jupyter_traindbg.model import Channel, Channels, FarEnd, TcpEnds
from jupyter_traindbg.outside import interfaces, procfs, unix_sockets
from jupyter_traindbg.outside.channels import Ends

ME = os.getpid()
READS_IT = "import os, sys; print('there', flush=True); os.read(int(sys.argv[1]), 1)"
SERVES = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0)) if len(sys.argv) == 1 else socket.socket(socket.AF_UNIX)
if len(sys.argv) > 1:
    server.bind(sys.argv[1])
    server.listen()
print(server.getsockname()[1] if len(sys.argv) == 1 else "there", flush=True)
accepted, _ = server.accept()
print("accepted", flush=True)
accepted.recv(5)
accepted.recv(5)
"""


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def started(
    cleanup: ExitStack, program: str, *words: str, fds: tuple[int, ...] = ()
) -> tuple[subprocess.Popen[str], str]:
    """A process of ours, and the first line that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        pass_fds=fds,
    )
    cleanup.enter_context(process)
    cleanup.callback(process.kill)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def waits_in(pid: int, *calls: str) -> None:
    until(lambda: procfs.raw_system_call(pid, pid)[0] in calls, 20)


def one(found: Channels, kind: str, *others: int) -> Channel:
    channels = [channel for channel in found.open if channel.kind == kind and set(channel.others) == set(others)]
    assert len(channels) == 1, found.open
    return channels[0]


def of_key(ends: Ends, pid: int, key: str) -> Channel:
    return next(channel for channel in ends.of(pid).open if channel.key == key)


def test_a_connection_is_followed_to_its_other_end(cleanup: ExitStack) -> None:
    server, port = started(cleanup, SERVES)
    assert server.stdout is not None
    waits_in(server.pid, "accept", "accept4")
    client = cleanup.enter_context(socket.create_connection(("127.0.0.1", int(port))))
    assert server.stdout.readline() == "accepted\n"
    waits_in(server.pid, "recvfrom", "read")
    client.sendall(b"12345")
    until(lambda: not one(Ends().of(ME), "tcp", server.pid).unread_there_bytes, 20)
    ends = Ends()
    mine, theirs = one(ends.of(ME), "tcp", server.pid), one(ends.of(server.pid), "tcp", ME)
    assert (mine.accepted, mine.answers, theirs.answers) == (True, False, True)
    assert mine.meets(theirs)
    assert theirs.meets(mine)
    assert ends.of(server.pid).waited_at(server.pid) == [theirs]
    assert str(mine).startswith("tcp 127.0.0.1:") and str(mine).endswith(f"-> 127.0.0.1:{port} ESTABLISHED")  # noqa: PT018


def test_a_connection_that_nobody_has_accepted_leads_to_who_listens(cleanup: ExitStack) -> None:
    server, port = started(cleanup, SERVES)
    first = cleanup.enter_context(socket.create_connection(("127.0.0.1", int(port))))
    assert server.stdout is not None
    assert server.stdout.readline() == "accepted\n"
    asking = cleanup.enter_context(socket.create_connection(("127.0.0.1", int(port))))
    asking.sendall(b"12")
    near = f"tcp 127.0.0.1:{asking.getsockname()[1]} "
    found = next(channel for channel in Ends().of(ME).open if str(channel).startswith(near))
    assert (found.others, found.accepted, found.unread_there_bytes) == ((server.pid,), False, 2)
    assert first.getsockname() != asking.getsockname()


JOINED = """
import socket, subprocess, sys
apart = subprocess.Popen(["unshare", "--net", sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
apart.stdout.readline()
for words in (
    "ip link add near type veth peer name far",
    f"ip link set far netns {apart.pid}",
    "ip addr add 10.78.0.1/24 dev near",
    "ip link set near up",
    f"nsenter -t {apart.pid} -n ip addr add 10.78.0.2/24 dev far",
    f"nsenter -t {apart.pid} -n ip link set far up",
):
    subprocess.run(words.split(), check=True)
print("go", file=apart.stdin, flush=True)
apart.stdout.readline()
connection = socket.create_connection(("10.78.0.2", 8000), timeout=20)
connection.settimeout(None)
print(apart.pid, flush=True)
connection.recv(1)
"""
"""In a network of its own, with another one beside it, as two containers have."""
APART = """
import socket
print("up", flush=True)
input()
server = socket.create_server(("10.78.0.2", 8000))
print("listens", flush=True)
accepted, _ = server.accept()
accepted.recv(1)
"""


def test_a_connection_between_two_networks_of_a_host_is_followed(cleanup: ExitStack) -> None:
    need("root, for networks of their own", os.geteuid() == 0)
    for tool in ("unshare", "nsenter", "ip"):
        need(tool, shutil.which(tool) is not None)
    process = subprocess.Popen(
        ["unshare", "--net", "--kill-child", "--fork", sys.executable, "-c", JOINED, APART],
        stdout=subprocess.PIPE,
        text=True,
    )
    cleanup.enter_context(process)
    cleanup.callback(process.kill)
    assert process.stdout is not None
    far = int(process.stdout.readline())
    near = procfs.stat(far)
    assert near is not None
    waits_in(near.parent, "recvfrom", "read")
    waits_in(far, "recvfrom", "read")
    ends = Ends()
    ours, theirs = one(ends.of(near.parent), "tcp", far), one(ends.of(far), "tcp", near.parent)
    assert ours.meets(theirs)
    assert ours.ends is not None
    assert ends.at(ours.ends.turned()) == FarEnd((far,), theirs.key)
    assert ends.at(TcpEnds("10.78.0.9", 1, "10.78.0.8", 2)) is None


def test_unix_sockets(cleanup: ExitStack, tmp_path: Path) -> None:
    path = str(tmp_path / "engine")
    server, _ = started(cleanup, SERVES, path)
    assert server.stdout is not None
    first = cleanup.enter_context(socket.socket(socket.AF_UNIX))
    first.connect(path)
    assert server.stdout.readline() == "accepted\n"
    waits_in(server.pid, "recvfrom", "read")
    ends = Ends()
    mine, theirs = one(ends.of(ME), "unix", server.pid), one(ends.of(server.pid), "unix", ME)
    assert (mine.name, mine.accepted, theirs.answers) == (f"unix socket {path}", True, True)
    assert ends.of(server.pid).waited_at(server.pid) == [theirs]
    second = cleanup.enter_context(socket.socket(socket.AF_UNIX))
    second.connect(path)
    assert [c.accepted for c in Ends().of(ME).open if c.name == f"unix socket {path}"] == [True, False]


def test_pipes_lead_to_who_has_the_other_end(cleanup: ExitStack) -> None:
    reads, writes = os.pipe()
    cleanup.callback(os.close, writes)
    reader, _ = started(cleanup, READS_IT, str(reads), fds=(reads,))
    os.close(reads)
    waits_in(reader.pid, "read")
    ends = Ends()
    key = os.readlink(f"/proc/self/fd/{writes}")
    assert ends.of(reader.pid).waited_at(reader.pid) == [of_key(ends, reader.pid, key)]
    assert (of_key(ends, ME, key).others, of_key(ends, reader.pid, key).others) == ((reader.pid,), (ME,))
    another, _ = started(cleanup, "print('there', flush=True); input()", fds=(writes,))  # has the same end as we have
    assert of_key(Ends(), ME, key).others == (reader.pid,)
    assert set(of_key(Ends(), reader.pid, key).others) == {ME, another.pid}


def test_a_named_pipe_leads_on_where_somebody_waits_at_it(cleanup: ExitStack, tmp_path: Path) -> None:
    path = tmp_path / "answers"
    os.mkfifo(path)
    writes = os.open(path, os.O_RDWR)
    cleanup.callback(os.close, writes)
    reads = os.open(path, os.O_RDONLY)
    reader, _ = started(cleanup, READS_IT, str(reads), fds=(reads,))
    os.close(reads)
    waits_in(reader.pid, "read")
    found = Ends().of(reader.pid).waited_at(reader.pid)
    assert [(c.kind, c.name, c.others) for c in found] == [("named pipe", str(path), (ME,))]


def test_shared_memory_leads_to_who_has_it_open(cleanup: ExitStack) -> None:
    memory = shared_memory.SharedMemory(create=True, size=64)
    cleanup.callback(memory.unlink)
    cleanup.callback(memory.close)
    opens = "import sys; f = open('/dev/shm/' + sys.argv[1]); print('there', flush=True); sys.stdout.close(); import time; time.sleep(60)"
    other, _ = started(cleanup, opens, memory.name)
    assert one(Ends().of(ME), "memory", other.pid).name == f"shared memory /dev/shm/{memory.name}"


def test_the_port_that_a_program_names(cleanup: ExitStack) -> None:
    server, port = started(cleanup, SERVES)
    name = socket.gethostname()
    for host in ("", "localhost", "127.0.0.1", "0.0.0.0", "::", name, f"{name}.cluster.local"):
        found = Ends().server(ME, host, int(port))
        assert found is not None
        assert (found.kind, found.name, found.others) == ("port", f"port {port}", (server.pid,))
    assert Ends().server(server.pid, "", int(port)) is None  # nobody else listens there


def test_the_port_of_another_host_is_not_one_of_this(cleanup: ExitStack) -> None:
    server, port = started(cleanup, SERVES)
    ends = Ends()
    found = ends.server(ME, "gamma.cluster", int(port))
    assert found is not None
    assert (found.name, found.others) == (f"port gamma.cluster:{port}", ())
    assert found.ends is not None
    assert ends.at(found.ends.turned()) is None
    for own in (socket.gethostname(), *interfaces.addresses(ME)):
        assert ends.at(TcpEnds(own, int(port), "", 0)) == FarEnd((server.pid,)), own


def test_threads_of_the_same_process_are_no_other_end() -> None:
    near, far = socket.socketpair()
    with near, far:
        reading = threading.Thread(target=far.recv, args=(1,))
        reading.start()
        assert all(ME not in channel.others for channel in Ends().of(ME).open)
        near.send(b"x")
        reading.join(20)


def test_the_table_of_unix_sockets_knows_peers_and_what_is_unread() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.send(b"123")
        table = unix_sockets.table()
        own, other = (os.fstat(s.fileno()).st_ino for s in (near, far))
        assert (table[own].peer, table[other].peer) == (other, own)
        assert (table[own].unread_bytes, table[other].unread_bytes) == (0, 3)


def test_where_the_kernel_does_not_tell_there_are_no_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(unix_sockets.socket, "socket", refused)
    assert unix_sockets.table() == {}
