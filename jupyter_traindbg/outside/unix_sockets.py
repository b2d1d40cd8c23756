"""Which Unix sockets belong together. /proc does not tell; the kernel does over netlink, as it does to ss (sock_diag(7), unix_diag.h)."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["UnixSocket", "table"]

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_ERROR, _DONE = 2, 3
_REQUEST_ALL = 0x1 | 0x100 | 0x200
"""NLM_F_REQUEST, NLM_F_ROOT and NLM_F_MATCH (linux/netlink.h)."""
_SHOW = 0x1 | 0x4 | 0x8 | 0x10
"""Names, peers, the queues of listeners, and what is queued."""
_NAME, _PEER, _ICONS, _QUEUES = 0, 2, 3, 4
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBHIII2I")
_ROW = struct.Struct("=BBBBI2I")
_ATTRIBUTE = struct.Struct("=HH")
_ANSWER_BYTES = 1 << 16
_PATIENCE_S = 0.5


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
    with contextlib.suppress(OSError, struct.error):  # it does not speak netlink, or answers otherwise
        found.update(_asked())
    return found


def _asked() -> Iterator[tuple[int, UnixSocket]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_PATIENCE_S)
        question = _REQUEST.pack(socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW, 0xFFFFFFFF, 0xFFFFFFFF)
        kernel.send(_HEADER.pack(_HEADER.size + len(question), _SOCK_DIAG_BY_FAMILY, _REQUEST_ALL, 1, 0) + question)
        while True:
            answer = kernel.recv(_ANSWER_BYTES)
            at = 0
            while at + _HEADER.size <= len(answer):
                length, kind, _, _, _ = _HEADER.unpack_from(answer, at)
                if kind in (_ERROR, _DONE) or length < _HEADER.size:
                    return
                yield _row(answer[at + _HEADER.size : at + length])
                at += _aligned(length)


def _row(raw: bytes) -> tuple[int, UnixSocket]:
    inode = _ROW.unpack_from(raw)[4]
    attributes = dict(_attributes(raw[_ROW.size :]))
    peer = int.from_bytes(attributes.get(_PEER, b"")[:4], "little" if struct.pack("=H", 1)[0] else "big")
    asking = attributes.get(_ICONS, b"")
    queues = attributes.get(_QUEUES, b"")
    return inode, UnixSocket(
        peer,
        _name(attributes.get(_NAME, b"")),
        struct.unpack(f"={len(asking) // 4}I", asking),
        struct.unpack("=II", queues)[0] if len(queues) == 8 and not asking else 0,
    )


def _attributes(raw: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(raw):
        length, kind = _ATTRIBUTE.unpack_from(raw, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind, raw[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)


def _name(raw: bytes) -> str:
    """A path, or ``@name`` of one that is in no folder."""
    if not raw:
        return ""
    return os.fsdecode(b"@" + raw[1:] if raw[:1] == b"\0" else raw.rstrip(b"\0"))


def _aligned(length: int) -> int:
    return (length + 3) & ~3
