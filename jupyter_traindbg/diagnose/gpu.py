"""What is wrong with the GPUs, judged from one `GpuReport`. A GPU that is merely missing, or busy, is no finding."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Literal

from jupyter_traindbg.language import text
from jupyter_traindbg.model import Device, Finding, GpuReport, NotAvailable, Subject, Xid, available
from jupyter_traindbg.words.durations import time_words

__all__ = ["findings"]

NEARLY_FULL = 0.97
RECENT_S = 3600.0
XID_CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/"

# Xid codes by what they blame. The job: its own kernels did something illegal. The GPU: no code of the job's causes it.
JOB_XIDS = {
    13: ("a kernel did something illegal", "内核执行了非法操作"),
    31: ("a kernel touched memory it has no right to", "内核访问了非法显存地址"),
    43: ("the job's GPU context was stopped after an error of its own", "任务自身出错后其 GPU 上下文被停止"),
    45: ("the job's GPU work was torn down after an earlier error, or a kill", "先前出错或被杀后 GPU 任务被清理"),
}
GPU_XIDS = {
    48: ("an uncorrectable memory error", "不可纠正的显存错误"),
    62: ("the GPU's microcontroller halted", "GPU 微控制器停止"),
    63: ("a bad memory row was marked for replacement", "坏显存行已标记待替换"),
    64: ("a bad memory row could not be replaced", "坏显存行替换失败"),
    74: ("an NVLink error", "NVLink 错误"),
    79: ("the GPU fell off the bus", "GPU 从总线上掉线"),
    92: ("many correctable memory errors", "可纠正显存错误过多"),
    94: ("a memory error that only its own job saw", "显存错误(仅影响出错任务)"),
    95: ("a memory error that may have reached other jobs", "显存错误(可能波及其他任务)"),
    119: ("the GPU's system processor (GSP) does not answer", "GPU 系统处理器 (GSP) 无响应"),
    120: ("the GPU's system processor (GSP) failed", "GPU 系统处理器 (GSP) 出错"),
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
    return text(f"{time_words(age_s)} ago", f"{time_words(age_s)}前")


def _silent_driver(report: GpuReport) -> Iterator[Finding]:
    if report.hung_call is None:
        return
    evidence = [text(f"no answer to {report.hung_call}", f"{report.hung_call} 没有返回")]
    if report.problem:
        evidence.append(report.problem.cause)
    evidence += report.notes
    for device in report.devices:
        evidence += [f"{_name(device)}: {line}" for line in _told(device)]
    if report.stuck_pids:
        pids = ", ".join(map(str, report.stuck_pids))
        evidence.append(
            text(f"in uninterruptible sleep (state D): {pids}", f"处于不可中断睡眠 (D 状态) 的进程: {pids}")
        )
    yield Finding(
        code="gpu_driver_hang",
        severity="critical",
        title=text("the NVIDIA driver does not answer", "NVIDIA 驱动无响应"),
        who=[Subject("process", pid) for pid in report.stuck_pids],
        evidence=evidence,
        cause=text(
            "a call into the kernel driver does not return; processes that wait in it cannot be killed",
            "对内核驱动的调用不返回; 等在其中的进程无法被杀死",
        ),
        next_steps=[
            text("read `sudo dmesg | grep -E 'NVRM|Xid'`", "查看 `sudo dmesg | grep -E 'NVRM|Xid'`"),
            text(
                "ask again with a longer --timeout: a GPU without persistence mode can take seconds to wake up",
                "用更长的 --timeout 再试: 未开持久模式的 GPU 唤醒可能需要数秒",
            ),
            text("if it stays so, drain the node and reboot it", "若持续如此, 排空节点并重启"),
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
        title=text(f"{_name(device)} is lost", f"{_name(device)} 已掉线")
        if lost
        else text(f"{_name(device)} must be reset", f"{_name(device)} 需要重置"),
        who=[_subject(device)],
        evidence=[*_identity(device), f"NVML: {'GPU is lost' if lost else 'GPU requires reset'}", *_told(device)],
        cause=text(
            "it fell off the bus: hardware, power, heat or the PCIe link; every process that uses it has failed",
            "GPU 从总线掉线: 硬件、供电、过热或 PCIe 链路问题; 使用它的进程都已失败",
        )
        if lost
        else text("an earlier error left it unusable until a reset", "先前的错误使其在重置前不可用"),
        next_steps=[
            text("restart the job on other GPUs from its last checkpoint", "从最近的检查点在其他 GPU 上重启任务"),
            text(
                "drain and reboot the node; if it happens again, replace the GPU",
                "排空并重启节点; 若再次发生, 更换 GPU",
            )
            if lost
            else text(
                f"`sudo nvidia-smi --gpu-reset -i {device.index}`", f"`sudo nvidia-smi --gpu-reset -i {device.index}`"
            ),
        ],
        reference=XID_CATALOGUE,
    )


def _ecc(device: Device, _: GpuReport) -> Iterator[Finding]:
    count = device.ecc_uncorrected
    if isinstance(count, NotAvailable) or count == 0:
        return
    corrected = device.ecc_corrected
    evidence = [*_identity(device), text(f"{count} uncorrected ECC errors", f"{count} 个不可纠正的 ECC 错误")]
    if available(corrected):
        evidence.append(text(f"{corrected} corrected ones", f"{corrected} 个已纠正的错误"))
    yield Finding(
        code="gpu_ecc_uncorrected",
        severity="critical",
        title=text(f"{_name(device)} has uncorrected memory errors", f"{_name(device)} 存在不可纠正的显存错误"),
        who=[_subject(device)],
        evidence=[*evidence, *_told(device)],
        cause=text(
            "its memory returned wrong data since the driver was loaded; the process that read it is usually killed",
            "自驱动加载以来显存返回过错误数据; 读到它的进程通常会被终止",
        ),
        next_steps=[
            text(
                f"`nvidia-smi -q -d ECC,ROW_REMAPPER -i {device.index}`: is a row remap pending?",
                f"`nvidia-smi -q -d ECC,ROW_REMAPPER -i {device.index}`: 是否有待处理的行重映射?",
            ),
            text(
                "resume from a checkpoint older than the error, on another GPU", "在其他 GPU 上从错误之前的检查点恢复"
            ),
            text("reset the GPU; if the count grows again, replace it", "重置该 GPU; 若计数继续增长则更换"),
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
    meaning = text(*(JOB_XIDS | GPU_XIDS).get(code, ("see NVIDIA's catalogue", "见 NVIDIA 的 Xid 目录")))
    pids = sorted({xid.pid for xid in same if xid.pid is not None})
    last = _ago(same[0].age_s)
    blames_job = code in JOB_XIDS
    steps = (
        text(
            "run the job with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer",
            "用 CUDA_LAUNCH_BLOCKING=1 或 compute-sanitizer 运行任务",
        )
        if blames_job
        else text(
            f"run `nvidia-smi -q -i {device.index}` and the site's GPU diagnostics",
            f"运行 `nvidia-smi -q -i {device.index}` 和 GPU 诊断",
        )
    )
    return Finding(
        code="gpu_xid",
        severity=_xid_severity(code, same[0].age_s),
        title=text(f"{_name(device)}: Xid {code}, {meaning}", f"{_name(device)}: Xid {code}, {meaning}"),
        who=[_subject(device), *(Subject("process", pid) for pid in pids)],
        evidence=[
            *_identity(device),
            text(f"{len(same)} in the kernel log, the last {last}", f"内核日志中 {len(same)} 次, 最近 {last}"),
        ],
        cause=text("most often an error in the job's own kernels", "多为任务自身内核的错误")
        if blames_job
        else text("the GPU, its memory, its links or its firmware", "GPU、显存、链路或固件")
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
        cause = text("it is too hot, so it slows itself down", "温度过高, GPU 自行降频")
        step = text(
            "check fans, air flow and neighbouring GPUs; move the job meanwhile",
            "检查风扇、风道和相邻 GPU; 可先迁移任务",
        )
    elif brake:
        cause = text("the power supply told it to brake", "供电系统要求其降频")
        step = text("check the node's power supplies and the rack's power cap", "检查节点电源和机柜功率上限")
    else:
        cause = text("the hardware slows it down: heat, power brake or power supply", "硬件降频: 过热、功率制动或供电")
        step = text(
            f"`nvidia-smi -q -d PERFORMANCE -i {device.index}` says more",
            f"查看 `nvidia-smi -q -d PERFORMANCE -i {device.index}`",
        )
    yield Finding(
        code="gpu_slowdown",
        severity="warning",
        title=text(f"{_name(device)} is slowed down by its hardware", f"{_name(device)} 被硬件降频"),
        who=[_subject(device)],
        evidence=evidence,
        cause=cause,
        next_steps=[
            step,
            text("in a distributed job one slow GPU slows all ranks", "分布式任务中一块慢 GPU 会拖慢所有 rank"),
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
        title=text(f"{_name(device)} has its memory nearly full", f"{_name(device)} 显存几乎用满"),
        who=[_subject(device)],
        evidence=evidence,
        cause=text(
            "the next large allocation may fail; part of it may be the allocator's cache, which the job can reuse",
            "下一次大块分配可能失败; 其中一部分可能是分配器缓存, 任务可重用",
        ),
        next_steps=[text("`%memory` tells cache from live tensors, per rank", "`%memory` 按 rank 区分缓存与存活张量")],
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
        title=text(
            f"{_name(device)} is also used by {len(others)} other process(es)",
            f"{_name(device)} 还被另外 {len(others)} 个进程使用",
        ),
        who=[Subject("process", process.pid) for process in others],
        evidence=evidence,
        cause=text("they share its memory and its time with the job", "它们与任务共享显存和算力"),
        next_steps=[
            text(
                "whose are they? `ps -o pid,user,lstart,args -p PID`", "查看归属: `ps -o pid,user,lstart,args -p PID`"
            ),
            text("left over from an earlier run: stop them", "若为之前运行的残留, 请结束它们"),
        ],
        confidence="medium",
    )
