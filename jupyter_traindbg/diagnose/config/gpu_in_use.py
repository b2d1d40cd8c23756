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
            text("{count} of {count2} GPUs are in use already", count=len(busy), count2=len(gpus))
            + f": {'; '.join(words[:2])}",
            arithmetic=words[:8],
            at=[each],
            cause=text(
                "That memory is not there for this run: engines check for free memory when they start, training "
                "fails where it ends."
            ),
            steps=[text("See who has it: `%gpu`; end leftovers, or choose others with CUDA_VISIBLE_DEVICES.")],
            confidence="medium",
        )
    ]


def _used(gpu: MachineGpu) -> int:
    return gpu.memory_used_bytes if isinstance(gpu.memory_used_bytes, int) else 0


def _of(gpu: MachineGpu) -> str:
    return text(" of {memory_bytes}", memory_bytes=gib(gpu.memory_bytes)) if isinstance(gpu.memory_bytes, int) else ""
