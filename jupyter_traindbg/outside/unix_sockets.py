"""Which Unix sockets belong together. /proc does not tell; the kernel does over netlink (linux/unix_diag.h)."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from typing import NamedTuple

from . import sock_diag

__all__ = ["UnixSocket", "table"]

_SHOW = 0x1 | 0x4 | 0x8 | 0x10
"""Names, peers, the queues of listeners, and what is queued."""
_NAME, _PEER, _ICONS, _QUEUES = 0, 2, 3, 4
_REQUEST = struct.Struct("=BBHIII2I")
_ROW = struct.Struct("=BBBBI2I")


class UnixSocket(NamedTuple):
    """One of this network namespace, by inode. ``peer``: the socket at the other end, 0 where it has none. ``asking``: of a listener, those
    that have connected and were not accepted. ``unread_bytes`` have arrived and were not read.
    """

    peer: int
    name: str
    asking: tuple[int, ...] = ()
    unread_bytes: int = 0


def table() -> dict[int, UnixSocket]:
    """All Unix sockets by inode, 1 us each; empty where the kernel does not tell."""
    found: dict[int, UnixSocket] = {}
    question = _REQUEST.pack(socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW, 0xFFFFFFFF, 0xFFFFFFFF)
    with contextlib.suppress(OSError, struct.error):  # it does not speak netlink, or answers otherwise
        found.update(map(_row, sock_diag.rows(question)))
    return found


def _row(raw: bytes) -> tuple[int, UnixSocket]:
    inode = _ROW.unpack_from(raw)[4]
    attributes = dict(sock_diag.attributes(raw[_ROW.size :]))
    peer = int.from_bytes(attributes.get(_PEER, b"")[:4], "little" if struct.pack("=H", 1)[0] else "big")
    asking = attributes.get(_ICONS, b"")
    queues = attributes.get(_QUEUES, b"")
    return inode, UnixSocket(
        peer,
        _name(attributes.get(_NAME, b"")),
        struct.unpack(f"={len(asking) // 4}I", asking),
        struct.unpack("=II", queues)[0] if len(queues) == 8 and not asking else 0,
    )


def _name(raw: bytes) -> str:
    """A path, or ``@name`` of one that is in no folder."""
    if not raw:
        return ""
    return os.fsdecode(b"@" + raw[1:] if raw[:1] == b"\0" else raw.rstrip(b"\0"))
