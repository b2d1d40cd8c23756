"""Nodes that died with work on them. One that left in peace, or on which nothing of the job ran, is no finding."""

from __future__ import annotations

from ...language import text
from ...model import RayNode, RayWorker
from .case import Hit, RayCase, hit
from .peers import waiting_for
from .words import names

__all__ = ["rule"]


def rule(case: RayCase) -> list[Hit]:
    hits = []
    for node in case.cluster.nodes:
        lost = [r for r in case.rows if _lost(case, r, node)] if not node.alive else []
        if lost:
            hits.append(_hit(case, node, lost))
    return hits


def _lost(case: RayCase, row: RayWorker, node: RayNode) -> bool:
    death = case.death(row)
    if row.state in ("dead", "restarting") and death is not None and death.kind == "node died":
        return death.node_id == node.node_id or (death.node_id is None and row.node_id == node.node_id)
    return False


def _hit(case: RayCase, node: RayNode, lost: list[RayWorker]) -> Hit:
    name = case.node_name(node.node_id)
    still = waiting_for(case, lost)
    return hit(
        "ray_node_dead",
        "critical" if still or case.stands_still else "warning",
        text("Node {name} died, and {names} with it", name=name, names=names(lost)),
        lost,
        evidence=[
            node.why_dead and f"Ray: {node.why_dead}",
            *dict.fromkeys(r.words for r in lost[:2]),
            *still,
        ],
        cause=text(
            "Its raylet no longer answers: the machine, its container or the network to it is gone "
            "(pre-empted, out of memory, rebooted)."
        ),
        next_steps=[
            text(
                "Look at the machine ({ip}): is it up, is the container there; its raylet.out and dmesg say why.",
                ip=node.ip,
            ),
            text("Actors come back by themselves only with `max_restarts`, their calls only with `max_task_retries`."),
        ],
        explains=case.rows if case.stands_still else lost,
    )
