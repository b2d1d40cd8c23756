"""What the kernel tells of sockets over netlink and nowhere in /proc, as it does to ss (sock_diag(7)). Of this network namespace alone."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

__all__ = ["attributes", "rows"]

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_ERROR, _DONE = 2, 3
_REQUEST_ALL = 0x1 | 0x100 | 0x200
"""NLM_F_REQUEST, NLM_F_ROOT and NLM_F_MATCH (linux/netlink.h)."""
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_ANSWER_BYTES = 1 << 16
_PATIENCE_S = 0.5


def rows(question: bytes) -> Iterator[bytes]:
    """The answers to a request of sock_diag(7), one for each socket. Raises OSError where the kernel does not speak that."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_PATIENCE_S)
        kernel.send(_HEADER.pack(_HEADER.size + len(question), _SOCK_DIAG_BY_FAMILY, _REQUEST_ALL, 1, 0) + question)
        while True:
            answer = kernel.recv(_ANSWER_BYTES)
            at = 0
            while at + _HEADER.size <= len(answer):
                length, kind, _, _, _ = _HEADER.unpack_from(answer, at)
                if kind in (_ERROR, _DONE) or length < _HEADER.size:
                    return
                yield answer[at + _HEADER.size : at + length]
                at += _aligned(length)


def attributes(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """What stands behind the fixed part of a row, by the numbers of its header file."""
    at = 0
    while at + _ATTRIBUTE.size <= len(raw):
        length, kind = _ATTRIBUTE.unpack_from(raw, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind, raw[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
