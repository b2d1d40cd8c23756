"""The GPUs that each node's agent sees, and which processes really have memory on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...model import NotAvailable, RayGpu, RayNode
from .fields import integer, listed, number, text
from .nodes import node_id_of

__all__ = ["by_process", "of_nodes"]

MIB = 1 << 20
Answer = Mapping[str, Any]


def of_nodes(nodes: Sequence[RayNode], machines: Sequence[Answer]) -> tuple[RayNode, ...]:
    """The nodes with their devices; a node whose agent has not reported keeps none."""
    seen = {node_id_of(machine): machine["gpus"] for machine in machines if isinstance(machine.get("gpus"), list)}
    return tuple(replace(node, devices=_devices(node, seen)) for node in nodes)


def _devices(node: RayNode, seen: Mapping[str, Any]) -> Any:
    if not node.alive or node.node_id not in seen:
        return NotAvailable("the node is dead" if not node.alive else "the node's dashboard agent has not reported")
    return tuple(_device(gpu) for gpu in listed(seen[node.node_id]))


def _device(gpu: Answer) -> RayGpu:
    unsaid = NotAvailable("its driver does not say")
    total, used = (number(gpu.get(name)) for name in ("memoryTotal", "memoryUsed"))
    return RayGpu(
        index=integer(gpu.get("index")),
        name=text(gpu.get("name")),
        memory_total_bytes=int(total * MIB) if total is not None else unsaid,
        memory_used_bytes=int(used * MIB) if used is not None else unsaid,
    )


def by_process(machine: Answer) -> dict[int, dict[int, int]]:
    """By pid: the bytes that it has on each GPU of the machine, by the GPU's index. In a container pids may be the host's own."""
    found: dict[int, dict[int, int]] = {}
    for gpu in listed(machine.get("gpus")):
        for process in listed(gpu.get("processesPids")):
            on = found.setdefault(integer(process.get("pid")), {})
            on[integer(gpu.get("index"))] = integer(process.get("gpuMemoryUsage")) * MIB
    return found
