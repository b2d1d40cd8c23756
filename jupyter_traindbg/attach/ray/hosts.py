"""The nodes of a cluster as places where functions of this package run: right here where a node is this machine, else in a helper there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from ...errors import MissingPiece
from ...hosts import wire
from ...hosts.base import HERE, LINGER_S, Hosts, short
from ...language import text
from ...model import RayNode
from ...outside import procfs
from ...outside.raystate import brokered
from ...outside.raystate.addresses import ClusterAddress
from ...tasks import Task
from .brokers import Broker, broker

__all__ = ["RayHosts", "open_hosts"]

HELPERS = "TRAINDBG_RAY_HELPERS"
"""``always``: also for the nodes of this machine, as tests of simulated nodes want it."""
SESSION = "jupyter_traindbg.attach.ray.session"


class RayHosts(Hosts):
    """The nodes of one cluster, by their ids: see `open_hosts`. Several may share one; who has opened it closes it."""

    def __init__(self, address: ClusterAddress) -> None:
        self.address = address
        self._here: frozenset[str] = frozenset()
        self._names: dict[str, str] = {}
        self._opened = 0
        self._linger: threading.Timer | None = None

    # --- where ------------------------------------------------------------------------------------------------------

    def is_here(self, node_id: str) -> bool:
        """See `Hosts.is_here`; `HERE` is, whichever nodes of the cluster it is."""
        return node_id == HERE or node_id in self._here

    def answering(self, node_id: str) -> bool:
        """See `Hosts.answering`."""
        return self.is_here(node_id) or self.broker.alive

    @property
    def tier(self) -> tuple[str, ...]:
        """In words, how the nodes are reached."""
        here = [n for n in self._names if n in self._here]
        there = [n for n in self._names if n not in self._here]
        notes = []
        if here:
            notes.append(f"{_nodes(len(here))} of this machine: looked at from here")
        if there:
            notes.append(f"{_nodes(len(there))} through a helper actor each (no CPU, ends with this process)")
        return tuple(notes)

    @property
    def broker(self) -> Broker:
        """The child process that joins the cluster for us; started by its first call."""
        return broker(str(self.address), self.address.token)

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self, node_id: str, function: str, /, *args: Any, deadline_s: float, **kwargs: Any) -> Any:
        """See `Hosts.run`. A helper is made where there is none (2 s, more on a busy node); after that a call takes some milliseconds and
        its own time. Raises also `MissingPiece` without ray, `RayVersion` where the cluster has another.
        """
        if self.is_here(node_id):
            task = Task(lambda: wire.function(function)(*args, **kwargs), short(function))
            return task.result(time.monotonic() + deadline_s)
        return self._relay(node_id, wire.request(function, args, kwargs), deadline_s)

    def _relay(self, node_id: str, request: bytes, deadline_s: float) -> Any:
        _require_ray()
        reply = self.broker.call(
            f"{SESSION}:run", _joined_at(self.address), node_id, request, deadline_s, deadline_s=deadline_s
        )
        return wire.answered(reply, f"node {node_id[:12]}")

    # --- opening and closing ----------------------------------------------------------------------------------------

    def opened(self, nodes: Iterable[RayNode]) -> RayHosts:
        with _making:
            self._opened += 1
            if self._linger is not None:
                self._linger.cancel()
        self._names.update({node.node_id: node.name or node.ip for node in nodes if node.alive})
        self._here = frozenset() if os.environ.get(HELPERS) == "always" else nodes_here() & self._names.keys()
        return self

    def close(self) -> None:
        """See `Hosts.close`: broker and helpers."""
        with _making:
            self._opened = max(0, self._opened - 1)
            if self._opened == 0 and self.broker.alive:
                self._linger = threading.Timer(LINGER_S, self._end_if_unused)
                self._linger.daemon = True
                self._linger.start()

    def end(self) -> None:
        """End broker and helpers now; the next call starts them anew."""
        self.broker.end(f"{SESSION}:leave")

    def _end_if_unused(self) -> None:
        if self._opened == 0:
            self.end()


_known: dict[tuple[str, str | None], RayHosts] = {}
_making = threading.Lock()


def open_hosts(
    address: ClusterAddress,
    nodes: Sequence[RayNode],
    pids: Mapping[str, Sequence[int]] | None = None,
    deadline_s: float = 10.0,
) -> RayHosts:
    """The living `nodes` of the cluster at `address`, as places to run functions; the same object again for the same cluster.

    Costs a look at this machine's processes (a few ms) and starts nothing yet: broker and helpers come with the first `Hosts.run` that
    needs them. A node is taken for this machine where its raylet runs here and its processes may be looked into.
    """
    with _making:
        hosts = _known.setdefault((str(address), address.token), RayHosts(address))
    return hosts.opened(nodes)


def nodes_here() -> frozenset[str]:
    """The ids of the Ray nodes whose raylet runs on this machine, visible to us and ours to look into.

    Not those in a container with process numbers of its own: Ray tells these, which here are those of others.
    """
    found: set[str] = set()
    ours = procfs.pid_namespace(os.getpid())
    for process in procfs.processes().values():
        if process.comm == "raylet" and process.state not in "ZX":
            uid = procfs.uid(process.pid)
            if uid is not None and os.geteuid() in (0, uid) and procfs.pid_namespace(process.pid) == ours:
                words = procfs.command(process.pid)
                found.update(word.partition("=")[2] for word in words if word.startswith(("--node_id=", "--node-id=")))
    return frozenset(found)


def ask(address: ClusterAddress, function: str, *arguments: Any, deadline_s: float) -> Any:
    """Run a function in the broker of `address`. Raises `MissingPiece` without ray, and whatever it raises."""
    _require_ray()
    return broker(str(address), address.token).call(function, *arguments, deadline_s=deadline_s)


brokered.set_broker(ask)


def _joined_at(address: ClusterAddress) -> str:
    """Where the broker joins: by the way that was named, the Ray client's being the only one from outside the cluster."""
    return address.client or address.gcs


def _require_ray() -> None:
    if find_spec("ray") is None:
        raise MissingPiece(
            text("ray is not installed here, and a helper on another node needs it"),
            text(
                "pip install 'ray[default]', in the version of the cluster; `traindbg ray-workers --tier 0` works "
                "without"
            ),
        )


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"
