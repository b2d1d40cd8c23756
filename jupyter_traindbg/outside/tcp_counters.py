"""How much each TCP connection has carried, and how long ago: the kernel counts it (tcp_info in linux/tcp.h), and ss shows it."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import NamedTuple

from . import sock_diag

__all__ = ["Carried", "table"]

_INFO = 2
"""INET_DIAG_INFO (linux/inet_diag.h)."""
_NO_LISTENERS = 0xFFFFFFFF & ~(1 << 10)
_REQUEST = struct.Struct("=BBBBI48x")
_ROW = struct.Struct("=4x48x16xI")
_TIMES, _BYTES = struct.Struct("=44xI4xI"), struct.Struct("=120xQQ")


class Carried(NamedTuple):
    """By one connection since it was made, as this end has it: bytes that have come, and bytes that the other end has taken. ``silent_s``:
    how long neither came nor went anything but acknowledgements.
    """

    received_bytes: int
    taken_bytes: int
    silent_s: float


def table() -> dict[int, Carried]:
    """All connections of this network namespace by inode, some 2 us each; empty where the kernel does not tell, or is older than 4.1."""
    found: dict[int, Carried] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        question = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _NO_LISTENERS)
        with contextlib.suppress(OSError, struct.error):  # it does not speak netlink, or answers otherwise
            found.update(one for raw in sock_diag.rows(question) if (one := _row(raw)) is not None)
    return found


def _row(raw: bytes) -> tuple[int, Carried] | None:
    inode = _ROW.unpack_from(raw)[0]
    info = dict(sock_diag.attributes(raw[_ROW.size :])).get(_INFO, b"")
    if not inode or len(info) < _BYTES.size:
        return None
    taken, received = _BYTES.unpack_from(info)
    return inode, Carried(received, taken, min(_TIMES.unpack_from(info)) / 1e3)
