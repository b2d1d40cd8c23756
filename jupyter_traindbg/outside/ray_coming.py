"""Worker processes that a Ray node is starting: Ray itself lists them only once they have registered."""

from __future__ import annotations

from typing import Literal

from ..errors import TraindbgError
from ..model import RayComing
from . import procfs
from . import stacks as outside

__all__ = ["coming"]

WORKER = "default_worker.py"
TITLE = "ray::"
"""A worker that has registered calls itself so."""
STACK_S = 1.0
CONNECT = (("/ray/_private/worker.py", "connect"), ("/ray/_private/node.py", "__init__"))


def coming(node_id: str, deadline_s: float = 3.0) -> list[RayComing]:
    """Those of the node `node_id` of this machine, oldest first; 20 ms each. Empty where its raylet is not to be found."""
    table = procfs.processes()
    raylets = {p.pid for p in table.values() if p.comm == "raylet" and _is_node(p.pid, node_id)}
    found = []
    for process in procfs.children(raylets, table):
        words = procfs.command(process.pid)
        if any(word.endswith(WORKER) for word in words) and not words[0].startswith(TITLE):
            phase = _phase(process.pid, min(STACK_S, deadline_s))
            found.append(RayComing(process.pid, node_id, procfs.running_s(process), phase))
    return found


def _is_node(pid: int, node_id: str) -> bool:
    return any(word in (f"--node_id={node_id}", f"--node-id={node_id}") for word in procfs.command(pid))


def _phase(pid: int, deadline_s: float) -> Literal["importing", "registering", "not known"]:
    try:
        threads = outside.dump(pid, deadline_s=deadline_s, children=False)[0].threads
    except TraindbgError:
        return "not known"
    frames = [(frame.file, frame.function.rpartition(".")[2]) for thread in threads for frame in thread.frames]
    connects = any(file.endswith(ending) and function == name for file, function in frames for ending, name in CONNECT)
    return "registering" if connects else "importing"
