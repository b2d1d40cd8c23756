"""From hits to findings: the root cause first, its symptoms folded into its evidence, nothing said twice. Pure functions."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence

from ...language import text
from ...model import Finding
from .. import collectives, hang, soundness
from .case import Hit

__all__ = ["ROOT_FIRST", "findings", "symptoms"]

ROOT_FIRST = (
    "host_unreachable",
    "init_incomplete",
    "rank_ended",
    "rank_stopped",
    "uninterruptible",
    "gil_held",
    "thread_deadlock",
    "process_deadlock",
    "dataloader_worker_stuck",
    "swapping",
    "collective_unfinished",
    "gpu_wait",
    "lock_wait",
    "io_wait",
    "dataloader_wait",
    "collective_mispaired",
    "unequal_steps",
    "collective_mismatch",
    "collective_shape_mismatch",
    "collective_order",
    "python_wait",
    "collective_not_issued",
    "cpu_phase",
    "hang_unexplained",
    "lr_implausible",
    "lr_differs",
    "nonfinite_loss",
    "nonfinite_activation",
    "nonfinite_gradient",
    "loss_diverging",
    "scaler_skips",
    "zero_gradients",
    "lr_zero",
    "straggler",
    "data_wait",
    "full_collections",
    "host_wait",
    "memory_growth",
    "shm_full",
    "disk_full",
    "environment",
)
"""The nearer to the root, the earlier: what stands behind its own symptom does not explain it. A code that is not listed comes last."""

_NO_HANG = soundness.NO_HANG | {"environment", "hang_unexplained", "straggler"}
"""None of these says why a job stands still."""
_WAITS = {"init_incomplete", "dataloader_wait", "rank_ended"}
"""These say so as warnings, too."""


def findings(hits: Iterable[Hit]) -> list[Finding]:
    """Root cause first. A symptom goes into the evidence of what explains it: findings nearer to the root that blame all its ranks,
    or some of them where the symptom blames everybody because it does not know better.
    """
    kept: list[Hit] = []
    for hit in sorted(hits, key=_depth):
        roots = [i for i, other in enumerate(kept) if _explains(other, hit)]
        explained = {rank for i in roots for rank in kept[i].ranks}
        if roots and (set(hit.ranks) <= explained or hit.finding.confidence == "low"):
            kept[roots[0]] = _fold(kept[roots[0]], hit)
        else:
            kept.append(hit)
    return _worth_saying([hit.finding for hit in kept])


@functools.cache
def symptoms() -> Mapping[str, Sequence[str]]:
    """Code -> what is merely a symptom of it, where both blame the same ranks: the ``EXPLAINS`` of all modules that have one."""
    modules = (
        importlib.import_module(f"{package.__name__}.{m.name}")
        for package in (hang, soundness, collectives)
        for m in pkgutil.iter_modules(package.__path__)
    )
    return {code: told for module in modules for code, told in getattr(module, "EXPLAINS", {}).items()}


def _worth_saying(found: Sequence[Finding]) -> list[Finding]:
    """That nothing explains the hang is said only where nothing does; of a setting that merely harms, only where the job does not work."""
    broken = {f.code for f in found if f.severity == "critical"} - {"environment"}
    explained = any(_explains_a_hang(f) for f in found)
    found = [f for f in found if f.code != "hang_unexplained" or not explained]
    return [f for f in found if f.code != "environment" or broken or f.severity == "critical"]


def _explains_a_hang(finding: Finding) -> bool:
    if finding.code in _NO_HANG:
        return False
    return finding.severity == "critical" or finding.code in _WAITS


def _depth(hit: Hit) -> tuple[int, int, int]:
    """By code, then the worse first, then the one that explains more ranks."""
    code = hit.finding.code
    severity = {"critical": 0, "warning": 1, "info": 2}[hit.finding.severity]
    if (
        code == "environment" and severity == 0
    ):  # ranks that disagree there fall out of step, unless something plainer holds them up
        return (ROOT_FIRST.index("unequal_steps"), -1, 0)
    return (ROOT_FIRST.index(code) if code in ROOT_FIRST else len(ROOT_FIRST), severity, -len(hit.ranks))


def _explains(root: Hit, symptom: Hit) -> bool:
    """Whether `root` is a reason of `symptom` for some of its ranks; another rule with the same verdict has to blame them all."""
    if root.finding.code == symptom.finding.code:
        return bool(symptom.ranks) and set(symptom.ranks) <= set(root.ranks)
    return bool(set(symptom.ranks) & set(root.ranks)) and symptom.finding.code in symptoms().get(root.finding.code, ())


def _fold(root: Hit, symptom: Hit) -> Hit:
    """The same verdict brings its evidence along; a symptom is told by its title, its own evidence being what the root's says already."""
    told = symptom.finding
    new = told.evidence if told.code == root.finding.code else [text("so: {title}", title=told.title)]
    evidence = tuple(dict.fromkeys((*root.finding.evidence, *new)))
    return Hit(dataclasses.replace(root.finding, evidence=evidence), root.ranks)
