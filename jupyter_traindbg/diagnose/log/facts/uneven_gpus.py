"""How GPUs are used, by tables of nvidia-smi in the log: ``uneven_gpus``, ``uneven_memory``, ``gpu_utilisation_low``.

One table is a moment, and GPUs of a pipeline take turns: who idles while others work, and that all are little used, is told only by
several tables that agree. Memory does not move so: one table tells that one GPU holds far more than the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from ....model import LogEvidence, Subject
from ..nvidia_smi import Table, tables
from . import Fact

__all__ = ["facts"]

ANCHORS = ("MiB /", "MiB/")
BUSY, IDLE, LOW = 80, 3, 35
"""Percent."""
TABLES, SAMPLES = 2, 4
IN_USE_MIB, UNEVEN = 1024, 1.5


def facts(evidence: LogEvidence) -> list[Fact]:
    """`busy_gpus`, `idle_gpus` (as "0, 1") and their percentages; `full_gpu`, `full_mib`, `other_mib`; `utilisation`, `count`."""
    found = tables(evidence)
    several = [table for table in found if len(table) > 1]
    return [*_idle_ones(several), *_memory(several), *_low(found)]


def _idle_ones(found: Sequence[Table]) -> Iterator[Fact]:
    """Of the last of at least two tables that agree on who is idle."""
    uneven = [_split(table) for table in found]
    if len(found) < TABLES or any(not (busy and idle) for busy, idle in uneven):
        return
    if len({tuple(idle) for _, idle in uneven}) > 1:
        return
    table, (busy, idle) = found[-1], uneven[-1]
    values: dict[str, float | str] = {
        "busy_gpus": ", ".join(map(str, busy)),
        "idle_gpus": ", ".join(map(str, idle)),
        "busy_percent": str(min(table[g].busy_percent or 0 for g in busy)),
        "idle_percent": str(max(table[g].busy_percent or 0 for g in idle)),
    }
    yield Fact("uneven_gpus", table[idle[0]].line, values, who=tuple(Subject("gpu", g) for g in idle))


def _split(table: Table) -> tuple[list[int], list[int]]:
    known = {gpu: used.busy_percent for gpu, used in table.items() if used.busy_percent is not None}
    busy = sorted(gpu for gpu, percent in known.items() if percent >= BUSY)
    return busy, sorted(gpu for gpu, percent in known.items() if percent <= IDLE)


def _memory(found: Sequence[Table]) -> Iterator[Fact]:
    """One GPU holds far more than any other, and all are in use: what is done on one of them alone."""
    for table in found[-1:]:
        by_use = sorted(table, key=lambda gpu: table[gpu].used_mib)
        fullest, second = table[by_use[-1]], table[by_use[-2]]
        if table[by_use[0]].used_mib < IN_USE_MIB or fullest.used_mib < UNEVEN * second.used_mib:
            continue
        values: dict[str, float | str] = {
            "full_gpu": str(by_use[-1]),
            "full_mib": f"{fullest.used_mib:,}",
            "other_mib": f"{second.used_mib:,}",
        }
        yield Fact("uneven_memory", fullest.line, values, who=(Subject("gpu", by_use[-1]),))


def _low(found: Sequence[Table]) -> Iterator[Fact]:
    """All GPUs that are in use have little to do, whenever somebody looked."""
    samples = [u for table in found for u in table.values() if u.used_mib >= IN_USE_MIB and u.busy_percent is not None]
    percents = [u.busy_percent for u in samples if u.busy_percent is not None]
    if len(found) < SAMPLES or not percents or max(percents) >= BUSY or not 1 < median(percents) < LOW:
        return
    values: dict[str, float | str] = {"name": "GPU-Util", "count": len(percents), "utilisation": median(percents)}
    yield Fact("gpu_utilisation_low", samples[0].line, values)
