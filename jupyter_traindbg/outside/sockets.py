"""Which connection a descriptor is: the kernel's tables of sockets, joined with what a process has open. Reads /proc only.

The tables are those of the network namespace that the process lives in, so they hold in containers as well. A row costs 2 us.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping

from ..model import Socket
from . import procfs

__all__ = ["named", "of", "polled", "rows", "table"]

_STATES = {
    1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT", 7: "CLOSE",
    8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING", 12: "SYN_RECV",
}  # fmt: skip
_MOST_POLLED = 64
_POLLFD = struct.Struct("=ihh")


def table(pid: int) -> dict[str, Socket]:
    """All TCP sockets of the network namespace of `pid`, by ``"socket:[inode]"``; empty where they cannot be read."""
    return dict(rows(pid))


def rows(pid: int) -> list[tuple[str, Socket]]:
    """The same with those that nobody has: ``"socket:[0]"``, a connection that was not accepted, or that is over."""
    lines = (line.split() for name in ("tcp", "tcp6") for line in _lines(f"/proc/{pid}/net/{name}")[1:])
    return [(f"socket:[{fields[9]}]", _tcp(fields)) for fields in lines if len(fields) > 9]


def of(pid: int, known: Mapping[str, Socket] | None = None) -> list[Socket]:
    """The TCP sockets that `pid` has open, those still connecting first; a forked child also has its parent's.

    `known` is a `table` of its namespace, to read that only once for many processes.
    """
    known = table(pid) if known is None else known
    held = {on for fd in procfs.descriptors(pid) if (on := procfs.descriptor(pid, fd)) is not None}
    order = {"SYN_SENT": 0, "ESTABLISHED": 1}
    return sorted((known[on] for on in held & known.keys()), key=lambda s: (order.get(s.state, 2), str(s)))


def named(on: str | None, known: Mapping[str, Socket]) -> str | None:
    """`on` (the target of a descriptor) with a TCP socket spelt out; anything else as it is."""
    return str(known[on]) if on is not None and on in known else on


def polled(pid: int, call: str, arguments: tuple[int, ...]) -> list[str]:
    """What a thread in `poll`, `ppoll` or an epoll call waits on, as the targets of the descriptors; empty where that is not known.

    The set of ``poll`` lies in the process's memory and is read from there, as a debugger would, without stopping it.
    """
    if call in ("poll", "ppoll"):
        numbers = _poll_set(pid, arguments[0], min(arguments[1], _MOST_POLLED))
    elif call.startswith("epoll_"):
        numbers = _epoll_set(pid, arguments[0])
    else:
        return []
    return [on for fd in numbers if (on := procfs.descriptor(pid, fd)) is not None]


def _poll_set(pid: int, address: int, count: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            raw = os.pread(memory.fileno(), count * _POLLFD.size, address)
    except (OSError, OverflowError):
        return []
    whole = len(raw) // _POLLFD.size * _POLLFD.size
    return [fd for fd, _, _ in _POLLFD.iter_unpack(raw[:whole]) if fd >= 0]


def _epoll_set(pid: int, epoll: int) -> list[int]:
    rows = (line.split() for line in _lines(f"/proc/{pid}/fdinfo/{epoll}"))
    return [int(row[1]) for row in rows if len(row) > 1 and row[0] == "tfd:"][:_MOST_POLLED]


def _tcp(fields: list[str]) -> Socket:
    near, far = _end(fields[1]), _end(fields[2])
    unsent, unread = (int(part, 16) for part in fields[4].split(":"))
    state = _STATES.get(int(fields[3], 16), fields[3])
    listens = state == "LISTEN"  # the queues of a listener count connections, not bytes
    return Socket(*near, *(("", 0) if listens else far), state, 0 if listens else unread, 0 if listens else unsent)


def _end(text: str) -> tuple[str, int]:
    """``"0100007F:D01D"`` -> ``("127.0.0.1", 53277)``: words of 32 bits in the byte order of this machine."""
    address, port = text.split(":")
    raw = b"".join(struct.pack("=I", int(address[i : i + 8], 16)) for i in range(0, len(address), 8))
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        raw = raw[12:]  # an IPv4 connection of an IPv6 socket
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, raw), int(port, 16)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            return f.read().splitlines()
    except OSError:
        return []
