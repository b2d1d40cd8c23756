"""The collectives that this process has issued, by torch's flight recorder, and its process groups with their ranks and counts.

No stacks (`call_sites` has them), and no tensor is touched. A blocking send or receive over gloo, which its
recorder leaves out, is a call under way whose ``sequence`` counts all operations of its group, and whose time is that of our first look.
"""

from __future__ import annotations

import pickle
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from .. import exchanges, flight
from ..saying import Said, joined, said
from ..training_thread import training_thread

if TYPE_CHECKING:
    from ..core import Agent

COST = "about 40 ms for a full recorder (2000 calls), 20 of them with the GIL; 0.5 ms for 15 calls"
NOT_IN_USE = said("torch.distributed is not in use in this process")
_OF_TORCHS_OWN = "user:pt2_"
"""Begins the tags of the groups in which torch.compile asks all ranks: ``user:pt2_guard_pg``, ``user:pt2_compile_pg``."""
NAMELESS = said(
    "under TORCH_DISTRIBUTED_DEBUG=DETAIL gloo's recorder gives no names to groups, and waits in the barrier that torch puts before"
    " every collective do not show: see the stacks"
)


def run(agent: Agent, last: int = flight.LAST) -> Dict[str, Any]:
    """What `flight.summary` says, with ``now_s`` (Unix time) and ``note``: why there is less than there could be."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(c10d, "_world", None)
    known = [] if world is None else groups(world)
    if not known:
        return {**flight.summary([]), "now_s": time.time(), "note": NOT_IN_USE}
    dumps, notes = _dumps(known)
    answer = flight.summary(dumps, known, last)
    answer["calls"] += _exchange(agent, world, known)
    answer["groups"] = [g for g in answer["groups"] if _alive(g, known, answer["calls"])]
    alive = {g["name"] for g in answer["groups"]}
    answer["calls"] = [row for row in answer["calls"] if row[0] in alive]
    unrecorded = not answer["calls"] and any(group.number for group in known)
    if dumps and unrecorded:
        notes.append(said("the flight recorder is empty although collectives ran: TORCH_FR_BUFFER_SIZE may be 0"))
    if any(g["name"].startswith(flight.UNNAMED) for g in answer["groups"]):
        notes.append(NAMELESS)
    return {**answer, "now_s": time.time(), "note": joined(notes)}


def groups(world: Any) -> List[flight.Known]:
    """The process groups of which this process is a member. `world` is `torch.distributed.distributed_c10d._world`."""
    found = []
    of_the_job = _store_of(world.pg_map.get(world.default_pg, ("", None))[1])
    for group, (backend, store) in list(world.pg_map.items()):
        by_group_rank = sorted((own, rank) for rank, own in dict(world.pg_group_ranks.get(group, {})).items())
        name = str(world.pg_names.get(group, ""))
        description = str(getattr(group, "group_desc", "") or "")
        tag = str(getattr(world, "pg_to_tag", {}).get(group, ""))
        if description in ("", "undefined") and tag.startswith(_OF_TORCHS_OWN):
            description = tag.partition(":")[2]
        ranks = [rank for _, rank in by_group_rank]
        met_at = _store_of(store)
        elsewhere = met_at if of_the_job and met_at != of_the_job else ""
        found.append(flight.Known(name, description, str(backend), ranks, _number(group), elsewhere))
    return found


def _store_of(store: Any) -> str:
    """``127.0.0.1:29500``, or the file, of the store that lies under all prefixes; empty where this torch does not tell (before 2.0)."""
    while getattr(store, "underlying_store", None) is not None:
        store = store.underlying_store
    try:
        return str(store.path) if hasattr(store, "path") else f"{store.host}:{store.port}"
    except AttributeError:  # none, or one of another kind
        return ""


def _number(group: Any) -> Optional[int]:
    try:
        number: int = group._get_sequence_number_for_group()
    except (AttributeError, RuntimeError):  # a backend without numbers
        return None
    return number


def _exchange(agent: Agent, world: Any, known: List[flight.Known]) -> List[List[Any]]:
    training = training_thread(agent)
    found = exchanges.under_way(training, world, known)
    if found is None:
        return []
    return [[found.group, found.number, found.op, [], [], [], "issued", True, found.peer, found.since_s, None, None]]


def _alive(group: Dict[str, Any], known: List[flight.Known], calls: List[Any]) -> bool:
    """Groups that were destroyed stay in the record; they matter only while a call on them is under way."""
    name = group["name"]
    if any(name in (g.name, f"{g.name}/{group['backend']}") for g in known):
        return True
    return any(row[0] == name and row[6] != "completed" for row in calls)


def _dumps(known: List[flight.Known]) -> Tuple[List[Dict[str, Any]], List[Said]]:
    found, notes = [], []
    for kind, content in dumps(known):
        if content is None:
            what = "NCCL" if kind == "nccl" else "gloo"
            notes.append(said("this torch has no flight recorder for {what}", what=what))
        else:
            found.append(content)
    return found, notes


def dumps(known: List[flight.Known], stacks: bool = False) -> Iterator[Tuple[str, Optional[Dict[str, Any]]]]:
    """What `dump` gives of each recorder that these groups may be in: torch keeps one for NCCL (since 2.2), and one for the others, gloo
    among them (2.8).
    """
    native = sys.modules.get("torch._C._distributed_c10d")
    nccl = any("nccl" in flight.libraries(group.backend) for group in known)
    for kind in ("nccl", "fr") if nccl else ("fr",):
        yield kind, dump(native, kind, stacks)


def dump(native: Any, kind: str, stacks: bool = False) -> Optional[Dict[str, Any]]:
    """What the recorder of this kind has; None where this torch has none.

    As a pickle, which torch has just made here, of numbers and texts: twice as fast as its JSON. With `stacks`, of those that issued calls.
    """
    recorded = getattr(native, f"_dump_{kind}_trace", None)
    if recorded is None:
        return None
    content = pickle.loads(recorded(True, stacks, False))
    return content if isinstance(content, dict) else {"entries": content}


__all__ = ["COST", "dump", "dumps", "groups", "run"]
