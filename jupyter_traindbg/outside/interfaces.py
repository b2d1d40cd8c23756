"""The network interfaces that a process sees: those of its own network namespace, which in a container are not the machine's."""

from __future__ import annotations

import re
import socket

__all__ = ["addresses", "names"]

_LOCAL = re.compile(r"-- ([\d.]+)\n\s+/32 host LOCAL")


def names(pid: int) -> list[str]:
    """Their names, as in ``NCCL_SOCKET_IFNAME``; empty where they cannot be read. 50 us."""
    return [line.partition(":")[0].strip() for line in _read(f"/proc/{pid}/net/dev").splitlines() if ":" in line]


def addresses(pid: int) -> frozenset[str]:
    """The addresses at which others reach it, and those of the loopback; empty where they cannot be read. 0.2 ms."""
    known = set(_LOCAL.findall(_read(f"/proc/{pid}/net/fib_trie")))
    rows = (line.split() for line in _read(f"/proc/{pid}/net/if_inet6").splitlines())
    return frozenset(known | {socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row})


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""
