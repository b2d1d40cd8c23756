"""What a Ray node works on before a worker is up: Ray itself lists its process only once that has registered."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Literal

from ..errors import TraindbgError
from ..model import RayBuild, RayComing
from . import procfs
from . import stacks as outside

__all__ = ["on_the_way"]

WORKER = "default_worker.py"
TITLE = "ray::"
"""A worker that has registered calls itself so."""
AGENT, AGENT_PROGRAM = "ray::RuntimeEnvAgent", "/runtime_env/agent/main.py"
"""Which builds the runtime_envs of its node; by its own title, and before it has given itself one."""
STACK_S = 1.0
CONNECT = (("/ray/_private/worker.py", "connect"), ("/ray/_private/node.py", "__init__"))


def on_the_way(node_id: str, deadline_s: float = 3.0) -> tuple[list[RayComing], list[RayBuild]]:
    """The workers of the node `node_id` of this machine that are being started, 20 ms each, and the programs that build an environment for
    one; oldest first. Empty where its raylet is not to be found.
    """
    table = procfs.processes()
    raylets = {p.pid for p in table.values() if p.comm == "raylet" and _is_node(p.pid, node_id)}
    below = {p: procfs.command(p.pid) for p in procfs.children(raylets, table)}
    workers = [p for p, words in below.items() if _is_new_worker(words)]
    agents = [p.pid for p, words in below.items() if _is_agent(words)]
    coming = [RayComing(p.pid, node_id, procfs.running_s(p), _phase(p.pid, min(STACK_S, deadline_s))) for p in workers]
    return coming, list(_builds(agents, node_id, table))


def _is_new_worker(words: tuple[str, ...]) -> bool:
    return any(word.endswith(WORKER) for word in words) and not words[0].startswith(TITLE)


def _is_agent(words: tuple[str, ...]) -> bool:
    return bool(words) and (words[0].startswith(AGENT) or any(word.endswith(AGENT_PROGRAM) for word in words))


def _builds(agents: list[int], node_id: str, table: Mapping[int, procfs.Process]) -> Iterator[RayBuild]:
    for process in procfs.children(agents, table):
        if words := procfs.command(process.pid):
            yield RayBuild(process.pid, node_id, procfs.running_s(process), _in_short(words))


def _in_short(words: tuple[str, ...]) -> str:
    """``pip install`` of ``/tmp/.../bin/python -m pip install -r ...``; no other words, which may be secrets."""
    named = words[words.index("-m") + 1 :] if "-m" in words else (os.path.basename(words[0]), *words[1:])
    return " ".join(word for word in named[:2] if word.isidentifier()) or os.path.basename(words[0])


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
