"""What is wrong with the GPUs, judged from one `GpuReport`. A GPU that is merely missing, or busy, is no finding."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Literal

from jupyter_traindbg.language import later, text
from jupyter_traindbg.model import Device, Finding, GpuReport, NotAvailable, Subject, Xid, available
from jupyter_traindbg.words.durations import time_words

__all__ = ["findings"]

NEARLY_FULL = 0.97
RECENT_S = 3600.0
XID_CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/"

# Xid codes by what they blame. The job: its own kernels did something illegal. The GPU: no code of the job's causes it.
JOB_XIDS = {
    13: later("a kernel did something illegal"),
    31: later("a kernel touched memory it has no right to"),
    43: later("the job's GPU context was stopped after an error of its own"),
    45: later("the job's GPU work was torn down after an earlier error, or a kill"),
}
GPU_XIDS = {
    48: later("an uncorrectable memory error"),
    62: later("the GPU's microcontroller halted"),
    63: later("a bad memory row was marked for replacement"),
    64: later("a bad memory row could not be replaced"),
    74: later("an NVLink error"),
    79: later("the GPU fell off the bus"),
    92: later("many correctable memory errors"),
    94: later("a memory error that only its own job saw"),
    95: later("a memory error that may have reached other jobs"),
    119: later("the GPU's system processor (GSP) does not answer"),
    120: later("the GPU's system processor (GSP) failed"),
}
SELF_HEALING_XIDS = {63, 92, 94}

SEVERITIES = ("critical", "warning", "info")


def findings(report: GpuReport) -> list[Finding]:
    """What is wrong with the driver or a GPU, root cause first; empty where all is well. Costs microseconds."""
    found = list(_silent_driver(report))
    for device in report.devices:
        for rule in (_fault, _ecc, _xids, _slowdown, _memory, _shared):
            found += rule(device, report)
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def _name(device: Device) -> str:
    return str(_subject(device))


def _subject(device: Device) -> Subject:
    if device.mig_parent is not None:
        return Subject("gpu", f"{device.mig_parent} MIG {device.index}")
    return Subject("gpu", f"{device.index}" + ("" if device.cuda_index is None else f" (cuda:{device.cuda_index})"))


def _identity(device: Device) -> list[str]:
    return [f"{device.name if available(device.name) else 'GPU'} {device.uuid}".strip()]


def _told(device: Device) -> list[str]:
    """The device's latest Xids, as evidence for something else."""
    return [f"Xid {xid.code}, {_ago(xid.age_s)}" for xid in device.xids[:3]]


def _ago(age_s: float) -> str:
    return text("{age_s} ago", age_s=time_words(age_s))


def _silent_driver(report: GpuReport) -> Iterator[Finding]:
    if report.hung_call is None:
        return
    evidence = [text("no answer to {hung_call}", hung_call=report.hung_call)]
    if report.problem:
        evidence.append(report.problem.cause)
    evidence += report.notes
    for device in report.devices:
        evidence += [f"{_name(device)}: {line}" for line in _told(device)]
    if report.stuck_pids:
        pids = ", ".join(map(str, report.stuck_pids))
        evidence.append(text("in uninterruptible sleep (state D): {pids}", pids=pids))
    yield Finding(
        code="gpu_driver_hang",
        severity="critical",
        title=text("the NVIDIA driver does not answer"),
        who=[Subject("process", pid) for pid in report.stuck_pids],
        evidence=evidence,
        cause=text("a call into the kernel driver does not return; processes that wait in it cannot be killed"),
        next_steps=[
            text("read `sudo dmesg | grep -E 'NVRM|Xid'`"),
            text("ask again with a longer --timeout: a GPU without persistence mode can take seconds to wake up"),
            text("if it stays so, drain the node and reboot it"),
        ],
        confidence="high" if report.stuck_pids else "medium",
    )


def _fault(device: Device, _: GpuReport) -> Iterator[Finding]:
    if device.fault is None:
        return
    lost = device.fault == "lost"
    yield Finding(
        code="gpu_lost" if lost else "gpu_reset_required",
        severity="critical",
        title=text("{name} is lost", name=_name(device)) if lost else text("{name} must be reset", name=_name(device)),
        who=[_subject(device)],
        evidence=[*_identity(device), f"NVML: {'GPU is lost' if lost else 'GPU requires reset'}", *_told(device)],
        cause=text("it fell off the bus: hardware, power, heat or the PCIe link; every process that uses it has failed")
        if lost
        else text("an earlier error left it unusable until a reset"),
        next_steps=[
            text("restart the job on other GPUs from its last checkpoint"),
            text("drain and reboot the node; if it happens again, replace the GPU")
            if lost
            else text("`sudo nvidia-smi --gpu-reset -i {index}`", index=device.index),
        ],
        reference=XID_CATALOGUE,
    )


def _ecc(device: Device, _: GpuReport) -> Iterator[Finding]:
    count = device.ecc_uncorrected
    if isinstance(count, NotAvailable) or count == 0:
        return
    corrected = device.ecc_corrected
    evidence = [*_identity(device), text("{count} uncorrected ECC errors", count=count)]
    if available(corrected):
        evidence.append(text("{corrected} corrected ones", corrected=corrected))
    yield Finding(
        code="gpu_ecc_uncorrected",
        severity="critical",
        title=text("{name} has uncorrected memory errors", name=_name(device)),
        who=[_subject(device)],
        evidence=[*evidence, *_told(device)],
        cause=text(
            "its memory returned wrong data since the driver was loaded; the process that read it is usually killed"
        ),
        next_steps=[
            text("`nvidia-smi -q -d ECC,ROW_REMAPPER -i {index}`: is a row remap pending?", index=device.index),
            text("resume from a checkpoint older than the error, on another GPU"),
            text("reset the GPU; if the count grows again, replace it"),
        ],
    )


def _xids(device: Device, _: GpuReport) -> Iterator[Finding]:
    if device.fault is not None:
        return  # told there
    by_code = sorted(device.xids, key=lambda xid: (xid.code, xid.age_s))
    for code, same in groupby(by_code, key=lambda xid: xid.code):
        yield _xid(device, code, list(same))


def _xid(device: Device, code: int, same: list[Xid]) -> Finding:
    """One finding for all Xids of one code on one device, the newest first in `same`."""
    meaning = text((JOB_XIDS | GPU_XIDS).get(code, later("see NVIDIA's catalogue")))
    pids = sorted({xid.pid for xid in same if xid.pid is not None})
    last = _ago(same[0].age_s)
    blames_job = code in JOB_XIDS
    steps = (
        text("run the job with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer")
        if blames_job
        else text("run `nvidia-smi -q -i {index}` and the site's GPU diagnostics", index=device.index)
    )
    return Finding(
        code="gpu_xid",
        severity=_xid_severity(code, same[0].age_s),
        title=text("{name}: Xid {code}, {meaning}", name=_name(device), code=code, meaning=meaning),
        who=[_subject(device), *(Subject("process", pid) for pid in pids)],
        evidence=[
            *_identity(device),
            text("{count} in the kernel log, the last {last}", count=len(same), last=last),
        ],
        cause=text("most often an error in the job's own kernels")
        if blames_job
        else text("the GPU, its memory, its links or its firmware")
        if code in GPU_XIDS
        else meaning,
        next_steps=[steps],
        reference=XID_CATALOGUE,
        confidence="medium" if blames_job or code not in GPU_XIDS else "high",
    )


def _xid_severity(code: int, age_s: float) -> Literal["critical", "warning", "info"]:
    if age_s > RECENT_S:
        return "info"
    return "critical" if code in GPU_XIDS and code not in SELF_HEALING_XIDS else "warning"


def _slowdown(device: Device, _: GpuReport) -> Iterator[Finding]:
    reasons = () if isinstance(device.throttle_reasons, NotAvailable) else device.throttle_reasons
    heat = any("thermal" in reason for reason in reasons)
    brake = any("power brake" in reason for reason in reasons)
    if not heat and not brake and "hardware slowdown" not in reasons:
        return  # a power cap is what a busy GPU runs at
    evidence = [*_identity(device), ", ".join(reasons)]
    if available(device.temperature_c):
        evidence.append(f"{device.temperature_c} °C")
    if available(device.power_w) and available(device.power_limit_w):
        evidence.append(f"{device.power_w:.0f} W / {device.power_limit_w:.0f} W")
    if heat:
        cause = text("it is too hot, so it slows itself down")
        step = text("check fans, air flow and neighbouring GPUs; move the job meanwhile")
    elif brake:
        cause = text("the power supply told it to brake")
        step = text("check the node's power supplies and the rack's power cap")
    else:
        cause = text("the hardware slows it down: heat, power brake or power supply")
        step = text("`nvidia-smi -q -d PERFORMANCE -i {index}` says more", index=device.index)
    yield Finding(
        code="gpu_slowdown",
        severity="warning",
        title=text("{name} is slowed down by its hardware", name=_name(device)),
        who=[_subject(device)],
        evidence=evidence,
        cause=cause,
        next_steps=[
            step,
            text("in a distributed job one slow GPU slows all ranks"),
        ],
    )


def _memory(device: Device, report: GpuReport) -> Iterator[Finding]:
    used, total = device.memory_used_bytes, device.memory_total_bytes
    if isinstance(used, NotAvailable) or isinstance(total, NotAvailable) or not total or used / total < NEARLY_FULL:
        return
    if device.mig_parent is None and any(other.mig_parent == device.index for other in report.devices):
        return  # its instances speak for themselves
    share, gib = 100 * used / total, 1024**3
    holders = () if isinstance(device.processes, NotAvailable) else device.processes
    evidence = [*_identity(device), f"{used / gib:.1f} / {total / gib:.1f} GiB ({share:.1f} %)"]
    for holder in holders:
        if not isinstance(holder.memory_bytes, NotAvailable):
            whose = "" if holder.ours is None else f" = rank {holder.ours}"
            evidence.append(f"pid {holder.pid}{whose}: {holder.memory_bytes / gib:.1f} GiB")
    yield Finding(
        code="gpu_memory_full",
        severity="warning",
        title=text("{name} has its memory nearly full", name=_name(device)),
        who=[_subject(device)],
        evidence=evidence,
        cause=text(
            "the next large allocation may fail; part of it may be the allocator's cache, which the job can reuse"
        ),
        next_steps=[text("`%memory` tells cache from live tensors, per rank")],
        confidence="medium",
    )


def _shared(device: Device, _: GpuReport) -> Iterator[Finding]:
    listed = () if isinstance(device.processes, NotAvailable) else device.processes
    others = [process for process in listed if process.ours is None]
    if not others or len(others) == len(listed):
        return
    evidence = _identity(device)
    for process in others:
        held = process.memory_bytes
        size = "" if isinstance(held, NotAvailable) else f" {held / 1024**3:.1f} GiB"
        evidence.append(f"pid {process.pid} {process.name if available(process.name) else '?'}{size}")
    yield Finding(
        code="gpu_shared",
        severity="info",
        title=text("{name} is also used by {count} other process(es)", name=_name(device), count=len(others)),
        who=[Subject("process", process.pid) for process in others],
        evidence=evidence,
        cause=text("they share its memory and its time with the job"),
        next_steps=[
            text("whose are they? `ps -o pid,user,lstart,args -p PID`"),
            text("left over from an earlier run: stop them"),
        ],
        confidence="medium",
    )
