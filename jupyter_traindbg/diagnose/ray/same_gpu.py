"""GPU workers that all have their memory on one device, while others of their node have none of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...language import text
from ...model import NotAvailable, RayProcess, RayWorker
from ..config.ray_demand import part_of_one
from ..hang.words import alike
from .case import Hit, RayCase, hit
from .words import amount, bytes_words, names

__all__ = ["rule"]

CONTEXT_BYTES = 64 * 2**20
"""Less than a CUDA context: not really there."""


def rule(case: RayCase) -> list[Hit]:
    processes = case.cluster.processes
    if isinstance(processes, NotAvailable):
        return []
    by_pid = {(p.node_id, p.pid): p for p in processes if p.on_gpus}
    used = [(r, p) for r in case.rows if (p := by_pid.get((r.node_id, r.pid))) is not None and _on(p)]
    groups = alike(used, lambda rp: (rp[0].node_id, rp[0].job_id))
    return [found for same in groups if (found := _crowded(case, same)) is not None]


def _on(process: RayProcess) -> list[int]:
    return sorted(i for i, size in process.on_gpus.items() if size >= CONTEXT_BYTES)


def _crowded(case: RayCase, same: Sequence[tuple[RayWorker, RayProcess]]) -> Hit | None:
    """All of them on the same one, although the node has more, and Ray did not put them there together."""
    node = next((n for n in case.living_nodes if n.node_id == same[0][0].node_id), None)
    count = round(node.resources_total.get("GPU", 0.0)) if node is not None else 0
    everywhere = {i for _, p in same for i in _on(p)}
    rows = [r for r, _ in same]
    given = {i for r in rows for i in r.gpus}
    if len(same) < 2 or len(everywhere) != 1 or count < 2:
        return None
    device = next(iter(everywhere))
    if given == {device}:  # fractions of one GPU, as Ray was told
        return None
    total = sum(p.on_gpus.get(device, 0) for _, p in same)
    each = math.ceil(len(rows) / count)
    share = amount(part_of_one(each))
    told = (
        text("Ray gave them GPUs {map}", map=", ".join(map(str, sorted(given))))
        if given
        else text("Ray gave them no GPU (num_gpus=0)")
    )
    return hit(
        "ray_same_gpu",
        "warning",
        text(
            "{names} all load onto GPU {device} of {node_name}, which has {count}",
            names=names(rows),
            device=device,
            node_name=case.node_name(rows[0].node_id),
            count=count,
        ),
        rows,
        evidence=[
            *(f"{r.who}: {bytes_words(p.on_gpus[device])} on GPU {device}" for r, p in same[:6]),
            text("together {total} on that one device", total=bytes_words(total)),
            told,
        ],
        cause=text(
            "They choose the device themselves: `cuda:0` without the CUDA_VISIBLE_DEVICES that Ray sets, a "
            "fixed index, or a tensor that was saved on cuda:0 and is loaded without `map_location`."
        ),
        next_steps=[
            text(
                "Ask for a share in `@ray.remote(num_gpus={share})`: Ray then sets CUDA_VISIBLE_DEVICES, and "
                "`cuda:0` is the one that it chose for each ({count} workers ÷ {count2} GPUs = {each} on each).",
                share=share,
                count=len(rows),
                count2=count,
                each=each,
            ),
            text("Workers that only collect data mostly do as well on the CPU: `torch.load(..., map_location='cpu')`."),
        ],
    )
