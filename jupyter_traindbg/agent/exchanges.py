"""The blocking send or receive that the training thread is in. gloo's recorder leaves these out; the thread's frames and the group's
number of operations tell them all the same.
"""

from __future__ import annotations

import sys
import time
from types import FrameType
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import flight

C10D = "torch.distributed.distributed_c10d"
PEERS = {"send": ("dst", "group_dst"), "recv": ("src", "group_src")}
MOST_FRAMES = 32

_Key = Tuple[str, str, Optional[int], int]
_seen: Dict[_Key, float] = {}
"""The one that was seen last, and since when: torch has no time of it."""


class Exchange(NamedTuple):
    """``peer`` is a global rank, None where any may send. ``since_s``: Unix time at which we first saw it under way."""

    group: str
    number: int
    op: str
    peer: Optional[int]
    since_s: float


def under_way(thread: Optional[int], world: Any, known: List[flight.Known]) -> Optional[Exchange]:
    """What `thread` is in, on a group of `known` that only gloo serves. `world` is torch's table of process groups. Some 20 us."""
    found = _found(sys._current_frames().get(thread) if thread is not None else None, world, known)
    if found is None:
        _seen.clear()
        return None
    since = _seen.get(found, time.time())
    _seen.clear()
    _seen[found] = since
    name, op, peer, number = found
    return Exchange(name, number, op, peer, since)


def _found(frame: Optional[FrameType], world: Any, known: List[flight.Known]) -> Optional[_Key]:
    for _ in range(MOST_FRAMES):
        if frame is None:
            return None
        op = frame.f_code.co_name
        if op in PEERS and frame.f_globals.get("__name__") == C10D:
            local = frame.f_locals
            who = local.get("group"), local.get(PEERS[op][0]), local.get(PEERS[op][1])
            del local  # it holds a tensor of the training
            return _named(op, who, world, known)
        frame = frame.f_back
    return None


def _named(op: str, who: Tuple[Any, Any, Any], world: Any, known: List[flight.Known]) -> Optional[_Key]:
    """`who`: the group, and the peer's rank among all and in the group, as far as the caller gave them."""
    group, peer, own = who
    group = group if group is not None else getattr(world, "default_pg", None)
    name = str(world.pg_names.get(group, ""))
    of = next((g for g in known if g.name == name), None)
    if of is None or of.number is None or flight.libraries(of.backend) != ["gloo"]:
        return None
    if type(peer) is not int and type(own) is int and own < len(of.ranks):
        peer = of.ranks[own]
    return name, op, peer if type(peer) is int else None, of.number


__all__ = ["Exchange", "under_way"]
