"""Keeps the nodes of a Ray cluster: what ``ray start`` starts, but as children of one process that says their pids.

A request is a line of JSON on stdin, its answer a line on stdout: ``{"start": {...}}`` with words of Ray's RayParams starts the head, and
then further nodes. With the end of stdin, or of this process in whatever way, the nodes end too: the kernel sees to that, so
that tests that were killed leave no cluster behind. ``ray start --block`` would end everything as soon as the dashboard is
killed, and plain ``ray start`` nothing ever.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from ray import _raylet
from ray._private import ray_constants, services
from ray._private.node import Node
from ray._private.parameter import RayParams
from ray._private.utils import write_ray_address

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # Ray prints, and so do libraries
nodes: list[Node] = []
ASKED = "NodeHead,JobHead,StateHead,EventHead,TaskEventsHead,TrainHead"
"""The parts of the dashboard that anybody here asks, each a process that takes a second to start; not metrics, profiles, Serve and Data."""
start_any = services.start_ray_process


def start_ray_process(command: list[str], process_type: str, *args: Any, **words: Any) -> Any:
    """As Ray's own, but that a dashboard loads those parts only. Where there is to be none, Ray itself has named the one that it needs."""
    if process_type == ray_constants.PROCESS_TYPE_DASHBOARD and "--disable-frontend" not in command:
        command.append(f"--modules-to-load={ASKED}")
    return start_any(command, process_type, *args, **words)


services.start_ray_process = start_ray_process


class Ready(Node):
    """A node that need not wait for its agents to tell it their ports: on a busy machine it would die of that, after 15 s."""

    def start_ray_processes(self) -> None:
        for name, port in (
            (_raylet.METRICS_AGENT_PORT_NAME, self._ray_params.metrics_agent_port),
            (_raylet.METRICS_EXPORT_PORT_NAME, self._ray_params.metrics_export_port),
            (_raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME, self._ray_params.dashboard_agent_listen_port),
            (_raylet.RUNTIME_ENV_AGENT_PORT_NAME, self._ray_params.runtime_env_agent_port),
        ):
            _raylet.persist_port(self._session_dir, self._node_id, name, port)
        super().start_ray_processes()


def start(words: dict[str, Any]) -> dict[str, Any]:
    if nodes:
        words["gcs_address"] = nodes[0].gcs_address
    # Ports of workers are the kernel's choice.
    params = RayParams(**{"min_worker_port": 0, "max_worker_port": 0, **words})
    head = not nodes and "gcs_address" not in words
    node = Ready(params, head=head, shutdown_at_exit=True, spawn_reaper=True)
    nodes.append(node)
    write_ray_address(
        node.gcs_address, words["temp_dir"]
    )  # where Ray's own job manager looks; it takes any cluster it finds instead
    return {
        "node_id": node.node_id,
        "gcs": node.gcs_address,
        "session_dir": node.get_session_dir_path(),
        "pids": {kind: processes[0].process.pid for kind, processes in node.all_processes.items()},
    }


def reap() -> None:
    """No zombies: whoever looks for a killed process must find it gone. And no orphans, also while a node is on its way."""
    parent = os.getppid()
    while True:
        time.sleep(0.1)
        if os.getppid() != parent:
            os._exit(1)
        for node in list(nodes):
            node.dead_processes()


threading.Thread(target=reap, daemon=True).start()
for line in sys.stdin:
    print(json.dumps(start(json.loads(line)["start"])), file=answers, flush=True)
