"""One look at a machine and at the ways from it, for a job that is described in words."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

from ..diagnose import environment
from ..diagnose import preflight as rules
from ..diagnose.environment.meeting import nccl_interfaces
from ..errors import UsageError
from ..language import text
from ..model import AllReduce, Finding, Interface, NotAvailable, Preflight, PreflightHost, PreflightPort
from ..outside import host as host_facts
from ..outside import procfs
from . import network

__all__ = ["DEFAULT_PORT", "Job", "preflight", "torch_versions", "visible_gpus"]

DEFAULT_PORT = 29500
"""torchrun's."""
NETWORK_S = 3.0
"""For all names and ports together."""
LIMITS = ("nofile", "nproc", "memlock")
VIRTUAL = ("docker", "lo", "virbr")
"""Prefixes of interfaces that NCCL takes only where there is no other."""


@dataclass(frozen=True)
class Job:
    """A job that is to be started. ``per_node``, ``backend`` None: as this machine suggests; ``address`` None: this machine, alone."""

    nodes: int = 1
    per_node: int | None = None
    address: str | None = None
    port: int | None = None
    hosts: Sequence[str] = ()
    backend: str | None = None
    all_reduce: int | None = None


def preflight(job: Job, *, timeout: float = 10.0) -> Preflight:
    """Whether `job` could come up on this machine: names, ports, interfaces, GPUs, shared memory, limits, versions, environment.

    Takes 0.2 s where all names resolve and all hosts answer, at most `timeout`; with ``job.all_reduce`` about 5 s more. Connects to
    the hosts that are named, at the port that is named, and to nothing else. Raises `UsageError` where the job contradicts itself.
    """
    began = time.monotonic()
    ends = began + timeout
    facts = host_facts.facts([os.getpid()], deadline_s=min(2.0, timeout))
    gpus = visible_gpus(facts.gpus)
    backend = job.backend or ("nccl" if gpus else "gloo")
    _check(job, backend, gpus)
    hosts, ports = _ask(job, min(NETWORK_S, timeout * 0.6))
    interfaces = network.interfaces()
    chosen, chosen_by = _chosen(backend, interfaces)
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
        versions={**torch_versions(), **{k: v for k, v in facts.versions.items() if k in ("driver", "Python")}},
        all_reduce=_try(job, backend, ends),
        notes=_notes(job, ports),
    )
    verdict = [*rules.findings(found, infiniband=_infiniband()), *_environment(found)]
    severities = ("critical", "warning", "info")
    verdict.sort(key=lambda finding: severities.index(finding.severity))
    return dataclasses.replace(found, verdict=tuple(verdict), taken_s=time.monotonic() - began)


def _check(job: Job, backend: str, gpus: int | NotAvailable) -> None:
    if job.port is not None and not 0 < job.port <= 65535:
        raise UsageError(f"{job.port} is no port", "ports are 1 to 65535")
    if job.all_reduce is None:
        return
    if job.all_reduce < 2:
        raise UsageError("an all_reduce needs two processes at least", "--all-reduce 2")
    if backend == "nccl" and isinstance(gpus, int) and job.all_reduce > gpus:
        raise UsageError(
            f"NCCL needs a GPU for each process, and there are {gpus} here", "fewer processes, or --backend gloo"
        )


def _try(job: Job, backend: str, ends: float) -> AllReduce | None:
    if job.all_reduce is None:
        return None
    from .all_reduce import all_reduce

    return all_reduce(backend, job.all_reduce, max(1.0, ends - time.monotonic()))


# --- names and ports -----------------------------------------------------------------------------------------------------


def _ask(job: Job, deadline_s: float) -> tuple[tuple[PreflightHost, ...], tuple[PreflightPort, ...]]:
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


def _notes(job: Job, ports: Sequence[PreflightPort]) -> tuple[str, ...]:
    notes = []
    if job.nodes > 1:
        if job.address is None:
            notes.append(
                text(
                    "where the machines are to meet was not said: --rdzv-endpoint HOST:PORT",
                    "没有给出会合地址：--rdzv-endpoint HOST:PORT",
                )
            )
        low, _, high = _read("/proc/sys/net/ipv4/ip_local_port_range").strip().partition("\t")
        if high:
            notes.append(
                text(
                    f"besides that port the ranks connect to each other at ports {low} to {high}: firewalls have to let these through, too",
                    f"除该端口外，rank 之间还使用 {low} 到 {high} 的端口：防火墙也须放行",
                )
            )
    for port in ports:
        if port.state == "refused":
            notes.append(
                text(
                    f"{port.host} answers, and nobody listens at port {port.port} there yet: the way is free",
                    f"{port.host} 可达，但端口 {port.port} 尚无人监听：网络是通的",
                )
            )
    return tuple(notes)


# --- this machine ----------------------------------------------------------------------------------------------------------


def visible_gpus(gpus: int | NotAvailable) -> int | NotAvailable:
    """The GPUs that a program started from here would see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not gpus:
        return gpus
    devices = [part.strip() for part in visible.split(",")]
    shown = next((i for i, device in enumerate(devices) if device in ("", "-1")), len(devices))
    return min(gpus, shown) if isinstance(gpus, int) else gpus


def _chosen(backend: str, interfaces: Sequence[Interface]) -> tuple[tuple[str, ...], str]:
    """The interfaces that the backend will use, and why these."""
    usable = [i.name for i in interfaces if i.up and i.addresses]
    if backend == "nccl":
        value = os.environ.get("NCCL_SOCKET_IFNAME", "")
        if len(value) > 1:
            return tuple(nccl_interfaces(value, usable)), f"NCCL_SOCKET_IFNAME={value}"
        # the order of ncclFindInterfaces (src/misc/socket.cc)
        real = [name for name in usable if not name.startswith(VIRTUAL)]
        orders = [
            [n for n in usable if n.startswith("ib")],
            real,
            *([n for n in usable if n.startswith(p)] for p in VIRTUAL),
        ]
        return tuple(next((names for names in orders if names), [])), text("NCCL's own choice", "NCCL 自动选择")
    value = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if value:
        return tuple(part for part in value.split(",") if part in usable), f"GLOO_SOCKET_IFNAME={value}"
    name = socket.gethostname()
    own = next((i.name for i in interfaces if set(i.addresses) & set(_addresses(name))), None)
    if own is None:  # gloo says "Unable to resolve hostname to a (local) address" and takes the loopback
        own = next((i.name for i in interfaces if i.loopback), None)
    return (own,) if own else (), text(f"gloo takes the address of {name}", f"gloo 取 {name} 的地址")


def _addresses(name: str) -> list[str]:
    try:
        return [str(end[0]) for *_, end in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    except OSError:
        return []


def torch_versions() -> dict[str, str]:
    """The versions of torch, of the CUDA it was built for and of its NCCL, without importing it."""
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    written = _read(str(Path(spec.origin).with_name("version.py")))
    names = {"__version__": "torch", "cuda": "CUDA", "hip": "HIP"}
    found = {names[n]: v for n, v in re.findall(r"^(__version__|cuda|hip)\b[^=]*= *'([^']+)'", written, re.MULTILINE)}
    nccl = [d.version for d in metadata.distributions() if re.fullmatch(r"nvidia-nccl-cu\d+", d.name or "")]
    return {**found, "NCCL": nccl[0]} if nccl else found


def _infiniband() -> bool:
    return bool(os.listdir("/sys/class/infiniband")) if os.path.isdir("/sys/class/infiniband") else False


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _environment(found: Preflight) -> list[Finding]:
    """What is wrong with the environment that a program started from here would get."""
    own: Mapping[str, str] = {name: value for name, value in os.environ.items() if procfs.TRAINING_ENV.fullmatch(name)}
    names = [i.name for i in found.interfaces if i.up and i.addresses]
    judged = environment.of_process(own, backend=found.backend, versions=found.versions, interfaces=names)
    return [one.finding for one in judged if one.finding.severity != "info"]
