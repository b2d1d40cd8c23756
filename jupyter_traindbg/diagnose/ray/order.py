"""From hits to findings: the root cause first, its symptoms folded into its evidence, nothing said twice. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ...language import text
from ...model import Finding
from .case import Hit

__all__ = ["ROOT_FIRST", "findings"]

ROOT_FIRST = (
    "ray_job_failed",
    "ray_job_pending",
    "ray_node_dead",
    "ray_too_many_for_memory",
    "ray_out_of_memory",
    "ray_runtime_env_failed",
    "ray_died_in_init",
    "ray_call_failed",
    "ray_worker_died",
    "ray_infeasible",
    "ray_worker_stopped",
    "ray_worker_deadlock",
    "ray_actor_deadlock",
    "process_deadlock",
    "ray_stuck_in_init",
    "ray_worker_stuck",
    "ray_leftovers",
    "ray_waiting_for_resources",
    "ray_same_gpu",
    "ray_runtime_env",
    "ray_registration",
    "ray_object_store_full",
    "ray_waits_on_dead",
    "ray_straggler",
    "ray_too_many_for_cores",
    "ray_startup_slow",
    "ray_spilling",
)
"""The nearer to the root, the earlier. A code that is not listed comes last."""

_DEATHS = {
    "ray_node_dead",
    "ray_out_of_memory",
    "ray_died_in_init",
    "ray_worker_died",
    "ray_runtime_env_failed",
    "ray_infeasible",
}
SYMPTOMS = {
    "ray_out_of_memory": {"ray_too_many_for_memory", "ray_node_dead"},
    "ray_died_in_init": {"ray_node_dead", "ray_out_of_memory", "ray_runtime_env_failed"},
    "ray_worker_died": {"ray_node_dead", "ray_out_of_memory"},
    "ray_waits_on_dead": _DEATHS,
    "ray_stuck_in_init": {"ray_worker_deadlock", "ray_worker_stopped", "ray_actor_deadlock", "ray_died_in_init"},
    "ray_worker_stuck": {"ray_worker_deadlock", "ray_worker_stopped", "ray_actor_deadlock", *_DEATHS},
    "ray_straggler": {"ray_worker_stopped", "ray_too_many_for_cores"},
    "ray_waiting_for_resources": {"ray_leftovers", "ray_node_dead", "ray_infeasible"},
    "ray_startup_slow": {"ray_too_many_for_cores", "ray_runtime_env", "ray_registration"},
    "ray_registration": {"ray_too_many_for_cores", "ray_too_many_for_memory"},
    "ray_spilling": {"ray_object_store_full"},
}
"""Code -> what it is merely a symptom of, where that explains the same workers."""


def findings(hits: Iterable[Hit]) -> list[Finding]:
    """Root cause first; a symptom goes into the evidence of what explains all the workers that it blames."""
    kept: list[Hit] = []
    for hit in sorted(hits, key=_depth):
        root = next((i for i, other in enumerate(kept) if _explains(other, hit)), None)
        if root is None:
            kept.append(hit)
        else:
            kept[root] = _fold(kept[root], hit)
    return [hit.finding for hit in kept]


def _depth(hit: Hit) -> tuple[int, int, int]:
    code = hit.finding.code
    severity = {"critical": 0, "warning": 1, "info": 2}[hit.finding.severity]
    depth = ROOT_FIRST.index(code) if code in ROOT_FIRST else len(ROOT_FIRST)
    return (depth, severity, -len(hit.workers))


def _explains(root: Hit, symptom: Hit) -> bool:
    causes = SYMPTOMS.get(symptom.finding.code, ())
    return root.finding.code in causes and symptom.workers <= root.explains


def _fold(root: Hit, symptom: Hit) -> Hit:
    told = symptom.finding
    evidence = (*root.finding.evidence, text("so: {title}", title=told.title))
    finding = dataclasses.replace(root.finding, evidence=tuple(dict.fromkeys(evidence)))
    return dataclasses.replace(root, finding=finding, explains=root.explains | symptom.explains)
