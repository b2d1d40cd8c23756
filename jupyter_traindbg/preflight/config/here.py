"""This machine as a `Machine`: what a run that was started here would find. Shares its looks with the preflight of networks (`machine`)."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from ...language import text
from ...model import GpuReport, Machine, MachineGpu, Maybe, NotAvailable, Plan, PreflightPort, UnmetRequirement
from ...outside import gpu as gpus
from ...outside import host, interfaces, procfs
from .. import network
from ..machine import torch_versions, visible_gpus

__all__ = ["Described", "machine", "unmet"]

PACKAGES = (
    "accelerate", "bitsandbytes", "datasets", "deepspeed", "flash-attn", "flashinfer-python", "huggingface-hub",
    "lightning", "megatron-core", "numpy", "openrlhf", "peft", "pytorch-lightning", "ray", "sglang", "tokenizers",
    "torch", "torchaudio", "torchdata", "torchvision", "transformer-engine", "transformers", "triton", "trl",
    "verl", "vllm", "xformers",
)  # fmt: skip
"""Whose requirements of each other are compared: what a training of language models is made of."""
EXTRAS = {("transformers", "torch"): "torch"}
"""What a package needs although its metadata has it as an extra, which names it: transformers runs on torch alone."""
LOCAL = ("localhost", "127.0.0.1", "::1", "")


@dataclass(frozen=True)
class Described:
    """What the person says of the machine that it is to run on, in place of what is here. None: not said."""

    nodes: int | None = None
    gpus: int | None = None
    gpu_memory_bytes: int | None = None
    cpus: int | None = None
    memory_bytes: int | None = None


def machine(plan: Plan, described: Described = Described(), *, timeout: float = 5.0) -> Machine:
    """This machine, looked at for `plan`: its directories and its port.

    Where GPUs are described and there are none here, the run is for another machine: of that one only is known what is described; the
    installed packages and the environment are taken to be the same. Costs 0.1 s, with GPUs 0.2 s; at most `timeout` seconds.
    """
    ends = time.monotonic() + timeout
    facts = host.facts([os.getpid()], deadline_s=min(1.5, timeout))
    visible = plan.environ["CUDA_VISIBLE_DEVICES"].value if "CUDA_VISIBLE_DEVICES" in plan.environ else None
    found, driver = _gpus(facts.gpus, visible, max(0.5, ends - time.monotonic()))
    same = Machine(
        name=facts.name,
        nodes=described.nodes,
        gpus=_instead(found, described),
        cpus=described.cpus or _cores(facts.cpus),
        memory_bytes=described.memory_bytes or facts.memory_bytes,
        memory_free_bytes=described.memory_bytes or facts.memory_free_bytes,
        environ=procfs.training_environ(os.getpid()),
        versions={**torch_versions(), **facts.versions, **driver},
        unmet=unmet(),
    )
    if not found and (described.gpus or described.gpu_memory_bytes):
        memory = described.memory_bytes or 0
        name = text("the machine described")
        return replace(same, name=name, cpus=described.cpus or 0, memory_bytes=memory, memory_free_bytes=memory)
    return replace(
        same,
        shm_bytes=facts.shm_bytes,
        shm_free_bytes=facts.shm_free_bytes,
        disk_free_bytes=_disks(plan, max(0.3, min(1.5, ends - time.monotonic()))),
        ports=_ports(plan, max(0.3, min(1.0, ends - time.monotonic()))),
        interfaces=interfaces.names(os.getpid()),
    )


def _cores(of_machine: int) -> int:
    """Those that we may run on: a container or a Slurm job often has fewer than the machine."""
    return min(of_machine, len(os.sched_getaffinity(0)))


# --- GPUs --------------------------------------------------------------------------------------------------------------


def _gpus(
    devices: Maybe[int], visible: str | None, deadline_s: float
) -> tuple[Maybe[Sequence[MachineGpu]], dict[str, str]]:
    """Those that a program would see, and the driver's version. The driver is only asked where there are device files."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible
    if devices == 0:
        return (), {}
    report = gpus.report(deadline_s, visible=seen, device_order=os.environ.get("CUDA_DEVICE_ORDER"))
    driver = {"driver": report.driver} if isinstance(report.driver, str) else {}
    if report.problem is not None:
        return _unnamed(devices, report), driver
    shown = [d for d in report.devices if d.cuda_index is not None and d.fault is None]
    shown = shown or [d for d in report.devices if seen is None and d.mig_parent is None]
    return tuple(
        MachineGpu(d.name if isinstance(d.name, str) else "GPU", d.memory_total_bytes, d.memory_used_bytes)
        for d in shown
    ), driver


def _unnamed(devices: Maybe[int], report: GpuReport) -> Maybe[Sequence[MachineGpu]]:
    """Device files without NVIDIA's driver: AMD's, or a driver that does not answer."""
    shown = visible_gpus(devices)
    if isinstance(shown, int) and shown > 0:
        return tuple(MachineGpu("GPU", NotAvailable(report.problem or "not asked")) for _ in range(shown))
    return NotAvailable(report.problem or "no driver")


def _instead(found: Maybe[Sequence[MachineGpu]], described: Described) -> Maybe[Sequence[MachineGpu]]:
    """The GPUs that the person says instead of those found; a memory alone stands for one GPU where there is none here."""
    count, memory_bytes = described.gpus, described.gpu_memory_bytes
    if count is None and memory_bytes is None:
        return found
    present = () if isinstance(found, NotAvailable) else tuple(found)
    name = present[0].name if present else "GPU"
    memory: Maybe[int] = memory_bytes or (present[0].memory_bytes if present else NotAvailable("--gpu-memory"))
    return tuple(MachineGpu(name, memory) for _ in range(count if count is not None else max(1, len(present))))


# --- disks, ports ------------------------------------------------------------------------------------------------------


def _disks(plan: Plan, deadline_s: float) -> dict[str, int]:
    """Free bytes for the directory of the checkpoints; one that is still to be made is on the disk of the nearest that is there."""
    place = plan.save_directory
    if place is None or "$" in place.value or "://" in place.value or "\0" in place.value:
        return {}
    path = Path(os.path.expanduser(place.value)).absolute()
    candidates = [str(p) for p in (path, *path.parents)]
    free = host.free_bytes(candidates, deadline_s=deadline_s)
    nearest = next((free[candidate] for candidate in candidates if candidate in free), None)
    return {} if nearest is None else {place.value: nearest}


def _ports(plan: Plan, deadline_s: float) -> tuple[PreflightPort, ...]:
    """The port where the ranks meet, if that is to be here."""
    port, address = plan.master_port, plan.master_address
    if port is None or not 0 < port.value <= 65535 or (address is not None and address.value.lower() not in LOCAL):
        return ()

    def ask() -> PreflightPort:
        return network.port("127.0.0.1", port.value, deadline_s)

    def silent(_: int) -> PreflightPort:
        return PreflightPort("127.0.0.1", port.value, "unresolved", "the look took too long")

    return tuple(network.all_at_once([ask], deadline_s + 0.2, silent))


# --- packages ----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def unmet() -> tuple[UnmetRequirement, ...]:
    """Requirements of the installed `PACKAGES` of each other that the installed versions do not meet. Costs 10 ms, once."""
    versions = {name: version for name in PACKAGES if (version := _version(name)) is not None}
    return tuple(one for name in versions for one in _unmet(name, versions))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _unmet(name: str, versions: dict[str, str]) -> Iterator[UnmetRequirement]:
    from packaging.requirements import InvalidRequirement, Requirement

    for words in metadata.requires(name) or ():
        try:
            wanted = Requirement(words)
        except InvalidRequirement:  # an old package, written before there were rules
            continue
        other = re.sub(r"[-_.]+", "-", wanted.name).lower()
        extra = EXTRAS.get((name, other), "")
        if other not in versions or (wanted.marker is not None and not wanted.marker.evaluate({"extra": extra})):
            continue
        if not wanted.specifier.contains(versions[other], prereleases=True):
            yield UnmetRequirement(name, versions[name], words, f"{other} {versions[other]}")
