"""Nodes: what the GCS says of them, joined with what the agent on each measured, and how much of their resources is free."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...model import Maybe, NotAvailable, RayNode
from .fields import integer, number, resources, seconds, text

__all__ = ["node_id_of", "nodes"]

Answer = Mapping[str, Any]

NOT_MEASURED = NotAvailable("the node's dashboard agent has not reported")
DEAD = NotAvailable("the node is dead")
AMOUNT = r"[\d.]+(?:[KMGTP]?i?B)?"
USAGE = re.compile(
    rf"(?P<used>-?{AMOUNT})/{AMOUNT} (?P<name>\S+)"
    rf"(?: \((?P<in_groups>{AMOUNT}) used of (?P<reserved>{AMOUNT}) reserved in placement groups\))?"
)
UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}


def node_id_of(physical: Answer) -> str:
    return text((physical.get("raylet") or {}).get("nodeId"))


def nodes(listing: Sequence[Answer], summary: Sequence[Answer], usage: Mapping[str, str]) -> tuple[RayNode, ...]:
    """From ``/api/v0/nodes``, the ``summary`` of ``/nodes`` and its ``nodeLogicalResources``; the head first."""
    measured = {node_id_of(entry): entry for entry in summary}
    found = [_node(entry, measured.get(text(entry.get("node_id")), {}), usage) for entry in listing]
    return tuple(sorted(found, key=lambda node: (not node.head, not node.alive, node.name, node.node_id)))


def _node(listed: Answer, measured: Answer, usage: Mapping[str, str]) -> RayNode:
    node_id, ip = text(listed.get("node_id")), text(listed.get("node_ip"))
    alive = listed.get("state") == "ALIVE"
    total = resources(listed.get("resources_total"))
    missing = NOT_MEASURED if alive else DEAD
    memory: Sequence[float] = measured.get("mem") or []
    raylet = measured.get("raylet") or {}
    store = raylet.get("storeStats") or {}
    store_known = bool(store) and alive
    name = text(listed.get("node_name"))
    return RayNode(
        node_id=node_id,
        ip=ip,
        name=name if name and name != ip else text(measured.get("hostname")) or ip,
        head=bool(listed.get("is_head_node")) or "node:__internal_head__" in total,
        alive=alive,
        why_dead="" if alive else text(listed.get("state_message")),
        resources_total=total,
        resources_available=_available(total, usage.get(node_id) or usage.get(ip)) if alive else DEAD,
        cpus=_or(_first(measured.get("cpus")), missing),
        cpu_percent=_or_float(measured.get("cpu"), missing),
        memory_total_bytes=_or(memory[0] if len(memory) > 1 else None, missing),
        memory_used_bytes=int(memory[0] - memory[1]) if len(memory) > 1 and alive else missing,
        object_store_total_bytes=integer(store.get("objectStoreBytesAvail")) if store_known else missing,
        object_store_used_bytes=integer(store.get("objectStoreBytesUsed")) if store_known else missing,
        spilled_bytes=integer(store.get("spilledBytesTotal")) if store_known else missing,
        started_at=seconds(listed.get("start_time_ms"), "Ray does not say"),
    )


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, (list, tuple)) and values else None


def _or(value: Any, missing: NotAvailable) -> Maybe[int]:
    found = number(value)
    return missing if found is None or missing is DEAD else int(found)


def _or_float(value: Any, missing: NotAvailable) -> Maybe[float]:
    found = number(value)
    return missing if found is None or missing is DEAD else found


def _available(total: Mapping[str, float], words: str | None) -> Maybe[Mapping[str, float]]:
    """From lines such as ``1.0/2.0 CPU`` and ``0B/22.11GiB memory``: the autoscaler's monitor writes them every few seconds.

    What a placement group reserves counts as taken, though the line counts only what is used of it. A resource that no line names is free.
    """
    if words is None:
        return NotAvailable("the autoscaler's monitor has not reported")
    used: dict[str, float] = {}
    for line in words.splitlines():
        match = USAGE.match(line.strip())
        if match:
            name = match["name"]
            used[name] = _amount(match["used"]) + _amount(match["reserved"]) - _amount(match["in_groups"])
    return {name: max(0.0, amount - used.get(name, 0.0)) for name, amount in total.items()}


def _amount(written: str | None) -> float:
    """``1.5`` or ``22.11GiB``."""
    digits = (written or "0").rstrip("KMGTPiB")
    return float(digits) * UNITS[(written or "0")[len(digits) :]]
