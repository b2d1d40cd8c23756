"""How GPUs are used, by what nvidia-smi printed into the log: ``gpus_spin``, ``contexts_on_one``, ``uneven_gpus``, ``uneven_memory``,
``gpu_utilisation_low``.

One table is a moment, and GPUs of a pipeline take turns: who idles while others work, and that all are little used, is told only by several
tables that agree. Memory does not move so: one table tells that one GPU holds far more than the others. Nor is a GPU ever at 100 % with
the power of an idle one while it computes: its kernel only waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from ....model import LogEvidence, Subject
from ..nvidia_smi import HELD_UNKNOWN, Process, Table, Used, processes, tables
from . import Fact

__all__ = ["facts"]

ANCHORS = ("mib",)
BUSY, IDLE, LOW = 80, 3, 35
"""Percent."""
TABLES, SAMPLES, HELD_MIB = 2, 4, 400
AT_TIMES = 0.1
"""The share of moments at which one that is little used may be busy."""
IN_USE_MIB, UNEVEN = 1024, 1.5
CONTEXTS, CONTEXT_MIB = 3, 1500
"""So many processes with so little on a GPU that another one of them works on."""
SPINNING, IDLE_POWER = 99, 0.3
"""Percent, and the share of its power limit: a kernel of a collective that polls for its peers."""


def facts(evidence: LogEvidence) -> list[Fact]:
    """`busy_gpus`, `idle_gpus` (as "0, 1") and their percentages; `full_gpu`, `full_mib`, `other_mib`; `utilisation`, `count`."""
    found = tables(evidence)
    several = [table for table in found if len(table) > 1] or list(_by_processes(evidence))
    return [*_spin(several), *_contexts(evidence), *_idle_ones(several), *_memory(several), *_low(found)]


def _by_processes(evidence: LogEvidence) -> Iterator[Table]:
    """Where only the list of processes was printed."""
    table: dict[int, Used] = {}
    for one in processes(evidence):
        before = table[one.gpu].used_mib if one.gpu in table else 0
        table[one.gpu] = Used(before + one.used_mib, 0, None, None, one.line)
    if len(table) > 1:
        yield table


def _spin(found: Sequence[Table]) -> Iterator[Fact]:
    """In the last table all GPUs but one or a few are at 100 % with an idle one's power, and those do nothing."""
    for table in found[-1:]:
        in_use = {gpu: used for gpu, used in table.items() if used.used_mib >= IN_USE_MIB}
        spinning = sorted(gpu for gpu, used in in_use.items() if _polls(used))
        idle = sorted(
            gpu for gpu, used in in_use.items() if used.busy_percent is not None and used.busy_percent <= IDLE
        )
        if not idle or len(spinning) < len(idle) or len(spinning) + len(idle) < len(in_use):
            continue
        power = max(in_use[gpu].power_share or 0.0 for gpu in spinning)
        values: dict[str, float | str] = {
            "spinning_gpus": ", ".join(map(str, spinning)),
            "missing_gpus": ", ".join(map(str, idle)),
            "power_share": f"{power:.0%}",
        }
        yield Fact("gpus_spin", in_use[idle[0]].line, values, who=tuple(Subject("gpu", gpu) for gpu in idle))


def _polls(used: Used) -> bool:
    busy, power = used.busy_percent, used.power_share
    return busy is not None and busy >= SPINNING and power is not None and power < IDLE_POWER


def _contexts(evidence: LogEvidence) -> Iterator[Fact]:
    """On one GPU beside a process that works several of the same program that hold equally little: a context, and nothing in it."""
    by_gpu: dict[int, list[Process]] = defaultdict(list)
    for process in processes(evidence):
        by_gpu[process.gpu].append(process)
    for gpu, there in sorted(by_gpu.items()):
        largest = max(there, key=lambda p: p.used_mib)
        others = [p for p in there if p is not largest and p.program == largest.program]
        sizes = {p.used_mib for p in others}
        if len(others) >= CONTEXTS and max(sizes) <= CONTEXT_MIB < largest.used_mib and max(sizes) <= 1.1 * min(sizes):
            values: dict[str, float | str] = {
                "context_gpu": str(gpu),
                "contexts_count": len(others),
                "context_mib": max(sizes),
                "program": largest.program,
            }
            yield Fact("contexts_on_one", others[0].line, values, who=(Subject("gpu", gpu),))
            return


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
            "full_mib": fullest.used_mib,
            "other_mib": second.used_mib,
        }
        yield Fact("uneven_memory", fullest.line, values, who=(Subject("gpu", by_use[-1]),))


def _low(found: Sequence[Table]) -> Iterator[Fact]:
    """All GPUs that are in use have little to do, whenever somebody looked."""
    held = (u for table in found for u in table.values() if u.used_mib >= HELD_MIB or u.used_mib == HELD_UNKNOWN)
    samples = [used for used in held if used.busy_percent is not None]
    percents = [u.busy_percent for u in samples if u.busy_percent is not None]
    busy = sum(percent >= BUSY for percent in percents)
    if len(found) < SAMPLES or not any(percents) or busy > AT_TIMES * len(percents) or median(percents) >= LOW:
        return
    values: dict[str, float | str] = {"name": "GPU-Util", "count": len(percents), "utilisation": median(percents)}
    yield Fact("gpu_utilisation_low", samples[0].line, values)
