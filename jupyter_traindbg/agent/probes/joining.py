"""What a rank was told that is still on its way into its process group: who it is, and where the others are to be met; and which group a
rank makes beside that one.
"""

from __future__ import annotations

import datetime
import os
import types
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional

from ..reachable import frames_of_others

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.1 ms; reads numbers and words among the locals of torch's own frames"

_C10D = os.path.join("torch", "distributed", "distributed_c10d.py")
_RENDEZVOUS = os.path.join("torch", "distributed", "rendezvous.py")
INIT = "init_process_group"
STORE = "_create_c10d_store"
MAKERS = {
    "_new_process_group_helper": "global_ranks_in_group",
    "_new_group_with_tag": "ranks",
    "new_group": "ranks",
    "split_group": "my_group",
}
"""Who makes a group: the variable with its ranks. Its name is ``GROUP`` in all of them."""
GROUP = "group_name"
MOST_RANKS = 16384
_TO_LISTEN = "TORCHELASTIC_USE_AGENT_STORE"
"""Set by torchrun where it is the launcher that listens, and not rank 0."""


def run(agent: Agent) -> Dict[str, Any]:
    """``joining`` is None for a process in which no thread is inside ``init_process_group``; ``making`` for one in which none makes another
    group: ``new_group``, ``init_device_mesh``.
    """
    for frame in frames_of_others().values():
        inside = list(_until_init(frame))
        if inside:
            return {"joining": _told(inside), "making": None}
        making = _made_by(frame)
        if making is not None:
            return {"joining": None, "making": making}
    return {"joining": None, "making": None}


def _until_init(frame: Optional[types.FrameType]) -> Iterator[types.FrameType]:
    """The frames of torch.distributed from the innermost to ``init_process_group``; none where that is not on the stack."""
    found = []
    while frame is not None:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if file.endswith((_C10D, _RENDEZVOUS)):
            found.append(frame)
            if function == INIT:
                yield from found
                return
        frame = frame.f_back


def _told(inside: list[types.FrameType]) -> Dict[str, Any]:
    local = {f.f_code.co_name: f.f_locals for f in inside}
    init, store = local[INIT], local.get(STORE, {})
    rank = _number(store, "rank", _number(init, "rank", _from_environment("RANK")))
    return {
        "rank": rank,
        "world_size": _number(store, "world_size", _number(init, "world_size", _from_environment("WORLD_SIZE"))),
        "address": _word(store.get("hostname")) or os.environ.get("MASTER_ADDR"),
        "port": _number(store, "port", _from_environment("MASTER_PORT")),
        "backend": _word(init.get("backend")),
        "timeout_s": _seconds(init.get("timeout")),
        "serves": rank == 0 and os.environ.get(_TO_LISTEN) != "True",
    }


def _made_by(frame: Optional[types.FrameType]) -> Optional[Dict[str, Any]]:
    """The name and the ranks of the group that the thread of `frame` makes, by the outermost of torch's functions that knows both."""
    found = None
    while frame is not None:
        ranks = MAKERS.get(frame.f_code.co_name)
        if ranks is not None and frame.f_code.co_filename.endswith(_C10D):
            local = frame.f_locals
            found = _group(_word(local.get(GROUP)), local.get(ranks)) or found
        frame = frame.f_back
    return found


def _group(name: Optional[str], ranks: Any) -> Optional[Dict[str, Any]]:
    if name is None or not isinstance(ranks, (list, tuple)) or len(ranks) > MOST_RANKS:
        return None
    return {"name": name, "ranks": [int(rank) for rank in ranks]} if all(isinstance(r, int) for r in ranks) else None


def _number(local: Any, name: str, otherwise: Optional[int] = None) -> Optional[int]:
    value = local.get(name)
    return value if isinstance(value, int) and value >= 0 else otherwise  # -1: not given


def _from_environment(name: str) -> Optional[int]:
    words = os.environ.get(name, "")
    return int(words) if words.isdigit() else None


def _word(value: Any) -> Optional[str]:
    return str.__str__(value) if isinstance(value, str) else None  # torch's Backend is a subclass of str


def _seconds(value: Any) -> Optional[float]:
    return value.total_seconds() if isinstance(value, datetime.timedelta) else None
