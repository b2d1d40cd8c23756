"""What lies round the job: full disks and full shared memory."""

from __future__ import annotations

from collections.abc import Mapping

from ...language import text
from ...model import Finding, HostFacts, NotAvailable
from .case import Case, Hit

MIB, GIB = 2**20, 2**30
SHM_BYTES, SHM_SHARE = 16 * MIB, 0.02
DISK_BYTES = 64 * MIB


def rule(case: Case) -> list[Hit]:
    """Only of a job that does not step: one that does is none the worse for its surroundings."""
    if case.roles("stepping"):
        return []
    return [hit for host in case.evidence.hosts for hit in (*_shm(host), *_disks(host))]


def _shm(host: HostFacts) -> list[Hit]:
    free, size = host.shm_free_bytes, host.shm_bytes
    if isinstance(free, NotAvailable) or isinstance(size, NotAvailable) or not size:
        return []
    if free > max(SHM_BYTES, SHM_SHARE * size):
        return []
    finding = Finding(
        "shm_full",
        "critical" if free < MIB else "warning",
        text("/dev/shm of {name} is full", name=host.name),
        (),
        None,
        [text("{free:.0f} MiB of {size:.0f} MiB are free", free=free / MIB, size=size / MIB)],
        text(
            "DataLoader workers, NCCL and Ray pass data through shared memory; when it is full they die by "
            "SIGBUS or wait."
        ),
        [
            text("Start the container with --shm-size=8g (or --ipc=host); remove leftovers: ls -l /dev/shm"),
            text("torch.multiprocessing.set_sharing_strategy('file_system') keeps fewer descriptors, not less memory."),
        ],
    )
    return [Hit(finding)]


def _disks(host: HostFacts) -> list[Hit]:
    full: Mapping[str, int] = {d: free for d, free in host.disk_free_bytes.items() if free < DISK_BYTES}
    if not full:
        return []
    names = ", ".join(full)
    finding = Finding(
        "disk_full",
        "critical" if min(full.values()) < MIB else "warning",
        text("The disk under {names} of {name} is full", names=names, name=host.name),
        (),
        None,
        [text("{d}: {free:.0f} MiB free", d=d, free=free / MIB) for d, free in full.items()],
        text("Checkpoints, logs and caches cannot be written."),
        [text("Free space: du -xh --max-depth=1 {next} | sort -h | tail", next=next(iter(full)))],
    )
    return [Hit(finding)]
