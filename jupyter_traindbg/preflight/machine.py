"""This machine, as far as a job that is to be started on it goes by it: GPUs, versions, the interfaces that a backend will take."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from importlib import metadata, util
from pathlib import Path

from ..diagnose.environment.meeting import nccl_interfaces
from ..language import text
from ..model import Interface, NotAvailable

__all__ = ["chosen_interfaces", "has_infiniband", "local_ports", "torch_versions", "visible_gpus"]

VIRTUAL = ("docker", "lo", "virbr")
"""Prefixes of interfaces that NCCL takes only where there is no other."""


def visible_gpus(gpus: int | NotAvailable) -> int | NotAvailable:
    """The GPUs that a program started from here would see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not gpus:
        return gpus
    devices = [part.strip() for part in visible.split(",")]
    shown = next((i for i, device in enumerate(devices) if device in ("", "-1")), len(devices))
    return min(gpus, shown) if isinstance(gpus, int) else gpus


def chosen_interfaces(backend: str, interfaces: Sequence[Interface]) -> tuple[tuple[str, ...], str]:
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
        return tuple(next((names for names in orders if names), [])), text("NCCL's own choice")
    value = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if value:
        return tuple(part for part in value.split(",") if part in usable), f"GLOO_SOCKET_IFNAME={value}"
    name = socket.gethostname()
    own = next((i.name for i in interfaces if set(i.addresses) & set(_addresses(name))), None)
    if own is None:  # gloo says "Unable to resolve hostname to a (local) address" and takes the loopback
        own = next((i.name for i in interfaces if i.loopback), None)
    return (own,) if own else (), text("gloo takes the address of {name}", name=name)


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


def has_infiniband() -> bool:
    """Whether the kernel knows an InfiniBand device."""
    return bool(os.listdir("/sys/class/infiniband")) if os.path.isdir("/sys/class/infiniband") else False


def local_ports() -> tuple[str, str] | None:
    """The first and the last port that the kernel gives to connections of its own accord; None where it does not tell."""
    low, _, high = _read("/proc/sys/net/ipv4/ip_local_port_range").strip().partition("\t")
    return (low, high) if high else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
