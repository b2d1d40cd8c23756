"""Which processes deserve a closer look, and of which calls the usual durations would help. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...model import RayCluster, RayWorker, RayWorkers
from .case import RayCase, known
from .peers import call_name

__all__ = ["methods", "wanted"]

_WORTH = ("in __init__", "running", "blocked", "registering", "starting")
MOST_PER_NODE = 120
"""20 ms a look each, on two cores of the node."""
METHODS_S, MOST_METHODS = 4.0, 8


def wanted(cluster: RayCluster, workers: RayWorkers) -> Mapping[str, Sequence[int]]:
    """By node, the pids to look at: drivers, and whoever is at something, the longest ones first."""
    case = RayCase(cluster, workers)
    by_node: dict[str, list[RayWorker]] = {}
    for row in case.rows:
        if row.pid and row.node_id and (row.kind in ("driver", "train") or row.state in _WORTH):
            by_node.setdefault(row.node_id, []).append(row)
    return {node_id: _first(rows) for node_id, rows in by_node.items()}


def _first(rows: Iterable[RayWorker]) -> list[int]:
    ordered = sorted(rows, key=lambda r: (r.kind != "driver", -(known(r.since_s) or 0.0)))
    return list(dict.fromkeys(r.pid for r in ordered))[:MOST_PER_NODE]


def methods(cluster: RayCluster, workers: RayWorkers) -> Sequence[str]:
    """The names of calls that have lasted long enough for the question whether that is usual."""
    case = RayCase(cluster, workers)
    late = [r for r in case.states("running", "blocked") if (known(r.since_s) or 0.0) > METHODS_S and r.kind != "train"]
    return [n for n in dict.fromkeys(call_name(r) for r in late) if n][:MOST_METHODS]
