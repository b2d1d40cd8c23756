"""Could a job come up on this machine, and reach the others? One look at the machine and at the ways from it, before a start."""

from __future__ import annotations

import dataclasses
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...diagnose import environment
from ...diagnose import preflight as rules
from ...errors import UsageError
from ...language import text
from ...model import AllReduce, Finding, NotAvailable, Preflight, PreflightHost, PreflightPort
from ...outside import host as host_facts
from ...outside import procfs
from ...preflight import machine, network

__all__ = ["DEFAULT_PORT", "PlannedJob", "ask"]

DEFAULT_PORT = 29500
"""torchrun's."""
NETWORK_S = 3.0
"""For all names and ports together."""
LIMITS = ("nofile", "nproc", "memlock")


@dataclass(frozen=True)
class PlannedJob:
    """A job that is to be started. ``per_node``, ``backend`` None: as this machine suggests; ``address`` None: this machine, alone."""

    nodes: int = 1
    per_node: int | None = None
    address: str | None = None
    port: int | None = None
    hosts: Sequence[str] = ()
    backend: str | None = None
    all_reduce: int | None = None


def ask(job: PlannedJob, *, timeout: float = 10.0) -> Preflight:
    """Whether `job` could come up on this machine: names, ports, interfaces, GPUs, shared memory, limits, versions, environment.

    Takes 0.2 s where all names resolve and all hosts answer, at most `timeout`; with ``job.all_reduce`` about 5 s more. Connects to
    the hosts that are named, at the port that is named, and to nothing else. Raises `UsageError` where the job contradicts itself.
    """
    began = time.monotonic()
    ends = began + timeout
    facts = host_facts.facts([os.getpid()], deadline_s=min(2.0, timeout))
    gpus = machine.visible_gpus(facts.gpus)
    backend = job.backend or ("nccl" if gpus else "gloo")
    _check(job, backend, gpus)
    hosts, ports = _ask(job, min(NETWORK_S, timeout * 0.6))
    interfaces = network.interfaces()
    chosen, chosen_by = machine.chosen_interfaces(backend, interfaces)
    found = Preflight(
        host=facts.name,
        backend=backend,
        nodes=job.nodes,
        per_node=job.per_node or (gpus if isinstance(gpus, int) else 0) or 1,
        cpus=facts.cpus,
        gpus=gpus,
        hosts=hosts,
        ports=ports,
        interfaces=interfaces,
        chosen=chosen,
        chosen_by=chosen_by,
        shm_free_bytes=facts.shm_free_bytes,
        shm_bytes=facts.shm_bytes,
        limits={name: limit for name, limit in facts.limits.items() if name in LIMITS},
        versions={**machine.torch_versions(), **{k: v for k, v in facts.versions.items() if k in ("driver", "Python")}},
        all_reduce=_try(job, backend, ends),
        notes=_notes(job, ports),
    )
    verdict = [*rules.findings(found, infiniband=machine.has_infiniband()), *_environment(found)]
    severities = ("critical", "warning", "info")
    verdict.sort(key=lambda finding: severities.index(finding.severity))
    return dataclasses.replace(found, verdict=tuple(verdict), taken_s=time.monotonic() - began)


def _check(job: PlannedJob, backend: str, gpus: int | NotAvailable) -> None:
    if job.port is not None and not 0 < job.port <= 65535:
        raise UsageError(text("{port} is no port", port=job.port), text("ports are 1 to 65535"))
    if job.all_reduce is None:
        return
    if job.all_reduce < 2:
        raise UsageError(text("an all_reduce needs two processes at least"), "--all-reduce 2")
    if backend == "nccl" and isinstance(gpus, int) and job.all_reduce > gpus:
        raise UsageError(
            text("NCCL needs a GPU for each process, and there are {gpus} here", gpus=gpus),
            text("fewer processes, or --backend gloo"),
        )


def _try(job: PlannedJob, backend: str, ends: float) -> AllReduce | None:
    if job.all_reduce is None:
        return None
    from ...preflight.all_reduce import all_reduce

    return all_reduce(backend, job.all_reduce, max(1.0, ends - time.monotonic()))


# --- names and ports -----------------------------------------------------------------------------------------------------


def _ask(job: PlannedJob, deadline_s: float) -> tuple[tuple[PreflightHost, ...], tuple[PreflightPort, ...]]:
    """All hosts and the port, at the same time."""
    port = job.port or DEFAULT_PORT
    meeting = job.address or (job.hosts[0] if job.nodes > 1 and job.hosts else "127.0.0.1")
    # this machine's own name: gloo listens at the address it stands for
    names = list(dict.fromkeys([socket.gethostname(), *([meeting] if job.address else []), *job.hosts]))
    asks: list[Callable[[], Any]] = [lambda name=name: network.host(name, port, deadline_s) for name in names]  # type: ignore[misc]
    asks.append(lambda: network.port(meeting, port, deadline_s))

    def silent(i: int) -> Any:
        if i == len(names):
            return PreflightPort(meeting, port, "unresolved", f"no name server answered in {deadline_s:.1f} s")
        return PreflightHost(names[i], (), deadline_s, problem=f"no name server answered in {deadline_s:.1f} s")

    *hosts, at = network.all_at_once(asks, deadline_s + 0.5, silent)
    return tuple(hosts), (at,)


def _notes(job: PlannedJob, ports: Sequence[PreflightPort]) -> tuple[str, ...]:
    notes = []
    if job.nodes > 1:
        if job.address is None:
            notes.append(text("where the machines are to meet was not said: --rdzv-endpoint HOST:PORT"))
        if (ports_here := machine.local_ports()) is not None:
            low, high = ports_here
            notes.append(
                text(
                    "besides that port the ranks connect to each other at ports {low} to {high}: firewalls have to "
                    "let these through, too",
                    low=low,
                    high=high,
                )
            )
    for port in ports:
        if port.state == "refused":
            notes.append(
                text(
                    "{host} answers, and nobody listens at port {port} there yet: the way is free",
                    host=port.host,
                    port=port.port,
                )
            )
    return tuple(notes)


def _environment(found: Preflight) -> list[Finding]:
    """What is wrong with the environment that a program started from here would get."""
    own: Mapping[str, str] = {name: value for name, value in os.environ.items() if procfs.TRAINING_ENV.fullmatch(name)}
    names = [i.name for i in found.interfaces if i.up and i.addresses]
    judged = environment.of_process(own, backend=found.backend, versions=found.versions, interfaces=names)
    return [one.finding for one in judged if one.finding.severity != "info"]
