"""The network interfaces that a process sees: those of its own network namespace, which in a container are not the machine's."""

from __future__ import annotations

__all__ = ["names"]


def names(pid: int) -> list[str]:
    """Their names, as in ``NCCL_SOCKET_IFNAME``; empty where they cannot be read. 50 us."""
    try:
        with open(f"/proc/{pid}/net/dev", encoding="utf-8", errors="replace") as f:
            return [line.partition(":")[0].strip() for line in f if ":" in line]
    except OSError:
        return []
