"""A Ray cluster as the place of a run: its nodes as a `Machine`, what the person says of the workers, and the trial of one of them."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...attach.ray.hosts import nodes_here
from ...errors import CannotAttach, UsageError
from ...language import text
from ...model import Given, Machine, MachineGpu, Maybe, NotAvailable, Plan, RayCluster, RayNode, parse_cluster
from ...outside import raystate
from ..worker_trial import Wanted, trial
from .dialects import ray as dialect
from .entries import Entry, normal
from .here import Described
from .here import machine as machine_here
from .sources import Sources

__all__ = ["OnRay", "Worker", "cluster_at", "machine_of", "said_of_workers", "tried", "wanted_of"]

READ_S = 5.0
RESOURCES = {"cpu": "ray_cpus", "gpu": "ray_gpus", "memory": "ray_memory"}
DECLARED_AS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


@dataclass(frozen=True)
class Worker:
    """A worker to start and time before the others: ``module:Class``; see `Wanted` for the rest. Its arguments: those said, else those
    that its section of the configuration has beside a ``_target_``.
    """

    name: str | None = None
    """None: the ``_target_`` of the configuration."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    method: str | None = None
    method_arguments: Sequence[Any] = ()
    working_dir: str | None = None


@dataclass(frozen=True)
class OnRay:
    """What the person says of the cluster and of the workers."""

    address: str = "auto"
    workers: str | None = None
    """How many, or the key of the configuration that says so."""
    each: Mapping[str, float] = field(default_factory=dict)
    """What every one asks Ray for, by Ray's names."""
    worker: Worker | None = None


# --- the cluster as a machine ------------------------------------------------------------------------------------------


def cluster_at(address: str, timeout: float) -> tuple[raystate.ClusterAddress, RayCluster]:
    """Where the cluster is, and what it says of itself. Costs 0.1 s. Raises what `raystate.resolve` and `raystate.read` raise."""
    ends = time.monotonic() + min(READ_S, timeout)
    asked = parse_cluster(address)
    if asked.id:
        raise UsageError(
            text("{address!r} names a job; a run that is still to be started has none", address=address),
            text("name the cluster alone"),
        )
    found = raystate.resolve(asked.address, max(0.3, ends - time.monotonic()))
    cluster = raystate.read(found, deadline_s=max(0.5, ends - time.monotonic()))
    if not any(node.alive for node in cluster.nodes):
        raise CannotAttach(
            text("no node of the cluster at {address} is alive", address=found), text("see why: `%ray_workers`")
        )
    return found, cluster


def machine_of(cluster: RayCluster, plan: Plan, described: Described) -> Machine:
    """The node of the cluster that decides, as the machine that each process of the run finds: of those with GPUs the smallest that is
    needed. What surrounds a run (disk, ports, packages) is only known where that node is this machine.
    """
    nodes = tuple(node for node in cluster.nodes if node.alive)
    node = _deciding(nodes, plan)
    total = node.memory_total_bytes if isinstance(node.memory_total_bytes, int) else 0
    used = node.memory_used_bytes if isinstance(node.memory_used_bytes, int) else 0
    place = machine_here(plan, Described(), timeout=2.0) if node.node_id in nodes_here() else Machine("")
    name = text("the Ray cluster at {address}", address=cluster.address or cluster.dashboard)
    return dataclasses.replace(
        place,
        name=name,
        cpus=described.cpus or (node.cpus if isinstance(node.cpus, int) else int(node.resources_total.get("CPU", 0))),
        memory_bytes=described.memory_bytes or total,
        memory_free_bytes=described.memory_bytes or max(0, total - used),
        gpus=_gpus(node),
        nodes=None,
        versions={**place.versions, "cluster's ray": cluster.ray_version},
        ray_nodes=nodes,
    )


def _deciding(nodes: Sequence[RayNode], plan: Plan) -> RayNode:
    """Of n nodes that a run is to use, the n-th by GPUs, then by cores: the others have no less."""
    by_size = sorted(nodes, key=lambda n: (-n.resources_total.get("GPU", 0), -n.resources_total.get("CPU", 0)))
    with_gpus = [node for node in by_size if node.resources_total.get("GPU", 0) > 0] or by_size
    wanted = plan.nodes.value if plan.nodes is not None and plan.nodes.value > 0 else 1
    return with_gpus[min(wanted, len(with_gpus)) - 1]


def _gpus(node: RayNode) -> Maybe[Sequence[MachineGpu]]:
    """As many as Ray was told of, with what the driver says of them."""
    count = int(node.resources_total.get("GPU", 0))
    devices = () if isinstance(node.devices, NotAvailable) else node.devices
    if not count:
        return ()
    known = [MachineGpu(gpu.name or "GPU", gpu.memory_total_bytes, gpu.memory_used_bytes) for gpu in devices[:count]]
    unknown = MachineGpu("GPU", NotAvailable(text("the cluster does not say")))
    return (*known, *[unknown] * (count - len(known)))


# --- what the person says of the workers -------------------------------------------------------------------------------


def said_of_workers(plan: Plan, sources: Sources, asked: OnRay) -> Plan:
    """`plan` with the person's own words about the workers, and with resources of the configuration that have names of their own.

    Raises `UsageError` for a key that is not there.
    """
    said: dict[str, Any] = {}
    if asked.workers is not None:
        said["ray_workers"] = many = _how_many(asked.workers, sources)
        if plan.workers is not None and plan.workers.key == many.key:
            said["workers"] = None  # it looked like a DataLoader's
    for name, value in asked.each.items():
        field_name = RESOURCES.get(name.lower())
        if field_name is not None:
            said[field_name] = Given(int(value) if name == "memory" else value, f"--each {name}", "command line")
    custom = {**_custom(sources), **{n: Given(v, f"--each {n}", "command line") for n, v in asked.each.items()}}
    said["ray_custom"] = {name: given for name, given in custom.items() if name.lower() not in RESOURCES}
    return dataclasses.replace(plan, **said)


def _how_many(words: str, sources: Sources) -> Given[int]:
    if words.isdigit():
        return Given(int(words), "--workers", "command line")
    path = normal(words)
    found = [e for e in sources.entries if e.path == path or e.path.endswith(f".{path}")]
    number = found[-1].value if found else None
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise UsageError(
            text("--workers {words}: it says {number!r}, which is no number", words=words, number=number)
            if found
            else text("--workers {words}: no such key in what was read", words=words),
            text("say how many, or the key that does: --workers 100, --workers selfplay.num_workers"),
        )
    return Given(number, found[-1].key, found[-1].file, found[-1].line)


def _custom(sources: Sources) -> dict[str, Given[float]]:
    """``resources_per_worker: {fast_disk: 1}``"""
    found = {}
    for entry in sources.entries:
        section, _, name = entry.key.rpartition(".")
        if section.lower().endswith(dialect.PER_WORKER) and isinstance(entry.value, (int, float)):
            found[name] = Given(float(entry.value), entry.key, entry.file, entry.line)
    return found


# --- one of them, tried ------------------------------------------------------------------------------------------------


def tried(plan: Plan, wanted: Wanted, at: raystate.ClusterAddress, cluster: RayCluster, deadline_s: float) -> Plan:
    """`plan` with the trial of one worker in it, and with what that says it asks Ray for, where nobody else does."""
    done = trial(at, cluster.nodes, wanted, deadline_s)
    said: dict[str, Any] = {"ray_trial": done}
    by_class = text("declared by {name}", name=wanted.name)
    custom = dict(plan.ray_custom)
    for name, value in done.resources.items():
        field_name = RESOURCES.get(name.lower())
        if field_name is None:
            custom.setdefault(name, Given(value, name, by_class))
        elif getattr(plan, field_name) is None:
            said[field_name] = Given(int(value) if name == "memory" else value, DECLARED_AS[name], by_class)
    return dataclasses.replace(plan, **said, ray_custom=custom)


def wanted_of(worker: Worker, plan: Plan, sources: Sources) -> Wanted:
    """What to try. Raises `UsageError` where that cannot be told."""
    target, section = _target(worker.name, sources)
    module, _, name = target.rpartition(":") if ":" in target else target.rpartition(".")
    if not module or not all(part.isidentifier() for part in [*module.split("."), name]):
        raise UsageError(
            text("{target!r} names no class", target=target),
            text("say MODULE:CLASS, as in --time-worker scai.selfplay.worker:SelfPlayWorker"),
        )
    if worker.working_dir is not None and not Path(worker.working_dir).is_dir():
        raise UsageError(
            text("--working-dir {path} is no directory", path=worker.working_dir),
            text("name the one that the module is in"),
        )
    each = {
        "CPU": plan.ray_cpus, "GPU": plan.ray_gpus, "memory": plan.ray_memory, **plan.ray_custom,
    }  # fmt: skip
    return Wanted(
        module,
        name,
        worker.arguments or section,
        worker.method,
        worker.method_arguments,
        {key: float(given.value) for key, given in each.items() if given is not None and given.value > 0},
        worker.working_dir,
        () if worker.working_dir else (os.getcwd(), str(sources.folder.absolute())),
    )


def _target(named: str | None, sources: Sources) -> tuple[str, dict[str, Any]]:
    """The class, and what its section of the configuration has besides."""
    if named is not None:
        return named, {}
    found = [e for e in sources.entries if e.last == "_target_" and isinstance(e.value, str)]
    if len(found) != 1:
        keys = text(", ").join(e.key for e in found)
        raise UsageError(
            text("the configuration names {count} classes ({keys}) to try", count=len(found), keys=keys)
            if found
            else text("the configuration names no class (_target_) to try"),
            text("say which: --time-worker MODULE:CLASS"),
        )
    prefix = found[0].key.rpartition(".")[0]
    return str(found[0].value), {
        e.key.rpartition(".")[2]: e.value for e in sources.entries if _beside(e, prefix, found[0])
    }


def _beside(entry: Entry, prefix: str, target: Entry) -> bool:
    return entry is not target and entry.key.rpartition(".")[0] == prefix
