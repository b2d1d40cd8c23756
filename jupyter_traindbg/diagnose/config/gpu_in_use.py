"""GPUs that somebody else's process, or a leftover of the last run, has memory of already."""

from __future__ import annotations

from ...language import text
from ...model import Finding, MachineGpu, NotAvailable, Plan
from .reading import finding, gib, per_node

__all__ = ["rule"]

NOTICEABLE_BYTES = 2 * 2**30
"""A desktop and idle contexts take less."""


def rule(plan: Plan) -> list[Finding]:
    gpus, each = plan.machine.gpus, per_node(plan)
    if isinstance(gpus, NotAvailable) or not plan.dialects or each is None:
        return []
    busy = {i: gpu for i, gpu in enumerate(gpus[: each.value]) if _used(gpu) > NOTICEABLE_BYTES}
    if not busy:
        return []
    words = [f"GPU {i}: {gib(_used(gpu))}{_of(gpu)}" for i, gpu in busy.items()]
    return [
        finding(
            "cuda_oom",
            "warning",
            text(f"{len(busy)} of {len(gpus)} GPUs are in use already", f"{len(gpus)} 块 GPU 中 {len(busy)} 块已被占用")
            + f": {'; '.join(words[:2])}",
            arithmetic=words[:8],
            at=[each],
            cause=text(
                "That memory is not there for this run: engines check for free memory when they start, training fails where it ends.",
                "这部分显存不能用于本次运行：推理引擎启动时检查空闲显存，训练会在用尽处失败。",
            ),
            steps=[
                text(
                    "See who has it: `%gpu`; end leftovers, or choose others with CUDA_VISIBLE_DEVICES.",
                    "查看占用者：`%gpu`；结束残留进程，或用 CUDA_VISIBLE_DEVICES 另选。",
                )
            ],
            confidence="medium",
        )
    ]


def _used(gpu: MachineGpu) -> int:
    return gpu.memory_used_bytes if isinstance(gpu.memory_used_bytes, int) else 0


def _of(gpu: MachineGpu) -> str:
    return (
        text(f" of {gib(gpu.memory_bytes)}", f" / {gib(gpu.memory_bytes)}") if isinstance(gpu.memory_bytes, int) else ""
    )
