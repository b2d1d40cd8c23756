"""How ranks come together: what each was told on its way into a process group, and where they are to meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Joining", "Making", "MeetingPoint"]


@dataclass(frozen=True)
class Joining:
    """What a rank that is still on its way into its process group was told, by the program or by its launcher. None: not known."""

    rank: int | None
    world_size: int | None
    address: str | None
    """Where the ranks are to meet: MASTER_ADDR, as a name or a number, and MASTER_PORT."""
    port: int | None
    backend: str | None = None
    timeout_s: float | None = None
    serves: bool | None = None
    """Whether this rank is to be the one who listens there."""


@dataclass(frozen=True)
class Making:
    """The process group that a rank makes beside the default one, and has not made yet: ``new_group``, ``init_device_mesh``.

    ``name``: torch counts the calls of ``new_group`` on each rank, and the count is the group's name: ``"3"``; where only its members take
    part, a hash of its ranks and of how many groups there are. ``ranks`` are global ranks.
    """

    name: str
    ranks: Sequence[int]


@dataclass(frozen=True)
class MeetingPoint:
    """The address and port where ranks are to meet, as seen from this host."""

    address: str
    port: int
    addresses: Sequence[str]
    """What the name resolves to; empty where it does not."""
    state: Literal["open", "refused", "filtered", "unreachable", "unresolved", "not known"]
    """``"filtered"``: no answer at all."""
    local: bool = False
    """Whether it is an address of this host."""
    holder_pid: int | None = None
    """The process that listens there, where it is on this host and may be looked at."""
    holder_command: str = ""
