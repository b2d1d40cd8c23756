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
        text(f"/dev/shm of {host.name} is full", f"{host.name} 的 /dev/shm 已满"),
        (),
        None,
        [
            text(
                f"{free / MIB:.0f} MiB of {size / MIB:.0f} MiB are free",
                f"{size / MIB:.0f} MiB 中空闲 {free / MIB:.0f} MiB",
            )
        ],
        text(
            "DataLoader workers, NCCL and Ray pass data through shared memory; when it is full they die by SIGBUS "
            "or wait.",
            "DataLoader worker、NCCL 和 Ray 通过共享内存传递数据；写满时它们会因 SIGBUS 退出或一直等待。",
        ),
        [
            text(
                "Start the container with --shm-size=8g (or --ipc=host); remove leftovers: ls -l /dev/shm",
                "以 --shm-size=8g（或 --ipc=host）启动容器；清理残留：ls -l /dev/shm",
            ),
            text(
                "torch.multiprocessing.set_sharing_strategy('file_system') keeps fewer descriptors, not less memory.",
                "torch.multiprocessing.set_sharing_strategy('file_system') 减少的是描述符数量，而不是内存。",
            ),
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
        text(f"The disk under {names} of {host.name} is full", f"{host.name} 上 {names} 所在的磁盘已满"),
        (),
        None,
        [text(f"{d}: {free / MIB:.0f} MiB free", f"{d}：空闲 {free / MIB:.0f} MiB") for d, free in full.items()],
        text("Checkpoints, logs and caches cannot be written.", "无法写入检查点、日志和缓存。"),
        [
            text(
                f"Free space: du -xh --max-depth=1 {next(iter(full))} | sort -h | tail",
                f"释放空间：du -xh --max-depth=1 {next(iter(full))} | sort -h | tail",
            )
        ],
    )
    return [Hit(finding)]
