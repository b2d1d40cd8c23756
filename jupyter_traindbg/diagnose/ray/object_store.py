"""An object store that is full, or that writes to disk what does not fit: every `ray.put` and every result waits for that."""

from __future__ import annotations

from ...language import text
from ...model import RayNode, RayWorker
from .case import Hit, RayCase, hit, known
from .words import bytes_words, names

__all__ = ["rule"]

FULL = 0.95
SPILLING_BYTES_PER_S = 2**20


def rule(case: RayCase) -> list[Hit]:
    return [found for node in case.living_nodes if (found := _node(case, node)) is not None]


def _node(case: RayCase, node: RayNode) -> Hit | None:
    total, used = known(node.object_store_total_bytes), known(node.object_store_used_bytes)
    rate = _spills(case, node)
    full = bool(total) and used is not None and total is not None and used > FULL * total
    spilled = known(node.spilled_bytes) or 0.0
    in_put = [r for r in case.rows if r.node_id == node.node_id and _puts(case, r)]
    if rate < SPILLING_BYTES_PER_S and not (full and (in_put or spilled)):
        return None  # full of what is no longer needed: that is how a store looks that is used well
    name = case.node_name(node.node_id)
    level = text(
        "object store of {name}: {used} of {total} used",
        name=name,
        used=bytes_words(used or 0),
        total=bytes_words(total or 0),
    )
    disk = text("{spilled} have been written to disk so far", spilled=bytes_words(spilled)) if spilled else ""
    now = text("{rate} a second while it was watched", rate=bytes_words(rate)) if rate else ""
    title = text("The object store of {name} is full", name=name)
    if rate >= SPILLING_BYTES_PER_S:
        title = text("The object store of {name} spills to disk, {rate}/s", name=name, rate=bytes_words(rate))
    return hit(
        "ray_object_store_full" if full else "ray_spilling",
        "warning" if in_put or rate >= SPILLING_BYTES_PER_S else "info",
        title,
        in_put or [f"node {name}"],
        case.where(in_put[0]) if in_put else None,
        evidence=[level, disk, now, *([_putting(case, in_put[0])] if in_put else [])],
        cause=text(
            "More objects are alive (somebody still has a ref to them, or waits for them) than the store has room for."
        ),
        next_steps=[
            text(
                "Find who keeps the refs (`ray memory --stats-only`, `ray memory --group-by STACK_TRACE`); let "
                "go of lists of refs as soon as they are used, and fetch results in pieces with `ray.wait`."
            ),
            text(
                "Put what all workers need (the model) into the store once with `ray.put` and pass the ref; or "
                "start Ray with a larger `--object-store-memory`."
            ),
        ],
        confidence="high" if rate >= SPILLING_BYTES_PER_S or in_put else "medium",
    )


def _spills(case: RayCase, node: RayNode) -> float:
    """Bytes a second between the two looks; 0 where there was one only."""
    after = next((n for n in case.later.nodes if n.node_id == node.node_id), None) if case.later is not None else None
    before, now = known(node.spilled_bytes), known(after.spilled_bytes) if after is not None else None
    if case.later is None or before is None or now is None:
        return 0.0
    return max(0.0, (now - before) / max(0.1, case.later.taken_at - case.cluster.taken_at))


def _puts(case: RayCase, row: RayWorker) -> bool:
    seen = case.doing(row)
    frames = seen.thread.frames if seen is not None and seen.thread is not None else ()
    return case.pace(row) == "still" and any(
        f.file.endswith("ray/_private/worker.py") and f.function.rpartition(".")[2] in ("put", "put_object")
        for f in frames
    )


def _putting(case: RayCase, row: RayWorker) -> str:
    at = case.source(row) or case.where(row) or ""
    return text("{names} waits in ray.put: {at}", names=names([row]), at=at)
