"""TCP connections as the kernel has them."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Worded

__all__ = ["Socket", "TcpEnds"]


@dataclass(frozen=True)
class TcpEnds:
    """The two ends of a connection, as one of them has it. Addresses are numeric."""

    local_host: str
    local_port: int
    remote_host: str
    remote_port: int

    def turned(self) -> TcpEnds:
        """As the other end has it."""
        return TcpEnds(self.remote_host, self.remote_port, self.local_host, self.local_port)

    @property
    def leaves(self) -> bool:
        """Whether the other end may be anywhere else than next to this one: an address of the loopback means something else there."""
        return not self.remote_host.startswith("127.") and self.remote_host != "::1"


@dataclass(frozen=True)
class Socket(Worded):
    """One TCP socket. Addresses are numeric; the `remote` one of a listener is empty. ``state`` as netstat spells it.

    ``unread_bytes`` have arrived and were not read; ``unsent_bytes`` were written and not acknowledged by the other end. ``str()`` of it is
    ``tcp 10.0.0.1:41234 -> 10.0.0.2:29500 ESTABLISHED`` or ``tcp 0.0.0.0:29500 LISTEN``.
    """

    local_host: str
    local_port: int
    remote_host: str
    remote_port: int
    state: str
    unread_bytes: int = 0
    unsent_bytes: int = 0

    @property
    def connecting(self) -> bool:
        """It has asked, and was not answered yet."""
        return self.state == "SYN_SENT"

    @property
    def ends(self) -> TcpEnds:
        return TcpEnds(self.local_host, self.local_port, self.remote_host, self.remote_port)

    @property
    def listens(self) -> bool:
        return self.state == "LISTEN"

    def __str__(self) -> str:
        near = f"tcp {_address(self.local_host, self.local_port)}"
        return (
            f"{near} LISTEN"
            if self.listens
            else f"{near} -> {_address(self.remote_host, self.remote_port)} {self.state}"
        )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
