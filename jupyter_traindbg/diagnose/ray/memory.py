"""More workers than their node has memory for: told from what each of them uses, before or after Ray begins to kill."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...language import text
from ...model import NotAvailable, RayNode, RayWorker
from ..hang.words import alike
from .case import NOT_UP, Hit, RayCase, hit, known
from .words import bytes_words, names

__all__ = ["rule"]

LIMIT = 0.95
"""Of a node's memory: there the raylet begins to kill (`RAY_memory_usage_threshold`)."""
NEAR = 0.9
OWN = 0.5
"""The workers have at least this share of what is used: else others are the reason."""
FEWEST = 2


def rule(case: RayCase) -> list[Hit]:
    return [found for node in case.living_nodes if (found := _node(case, node)) is not None]


def _node(case: RayCase, node: RayNode) -> Hit | None:
    total, used = known(node.memory_total_bytes), known(node.memory_used_bytes)
    here = [r for r in case.rows if r.node_id == node.node_id and r.kind in ("actor", "train")]
    groups = alike(here, lambda r: (r.job_id, r.class_name))
    largest = max(groups, key=lambda g: sum(_rss(r) for r in g), default=[])
    up = [r for r in largest if _rss(r) > 0 and r.state not in NOT_UP]
    if total is None or used is None or len(up) < FEWEST:
        return None
    each = sorted(_rss(r) for r in up)[len(up) // 2]
    own = min(used, sum(_rss(r) for r in largest))
    coming = [
        r for r in case.peers(up[0]) if r.state in NOT_UP and (r.node_id == node.node_id or len(case.living_nodes) == 1)
    ]
    later = used + sum(max(0.0, each - _rss(r)) for r in coming)
    if own < OWN * used or max(used if _is_full(used, total) else 0.0, later if coming else 0.0) < NEAR * total:
        return None
    others = used - own
    instead = max(1, math.floor((LIMIT * total - others) / each))
    wanted = len(up) + len(coming)
    if instead >= wanted:
        return None
    return _hit(case, node, up, coming, each=each, others=others, total=total, instead=instead)


def _is_full(used: float, total: float) -> bool:
    return used > NEAR * total


def _rss(row: RayWorker) -> float:
    return 0.0 if isinstance(row.rss_bytes, NotAvailable) else float(row.rss_bytes)


def _hit(
    case: RayCase,
    node: RayNode,
    up: Sequence[RayWorker],
    coming: Sequence[RayWorker],
    *,
    each: float,
    others: float,
    total: float,
    instead: int,
) -> Hit:
    named, wanted = up[0].class_name or names(up), len(up) + len(coming)
    needed = others + wanted * each
    one, rest, limit = bytes_words(each), bytes_words(others), f"{LIMIT:.0%}"
    asked = math.ceil(each / 2**20) * 2**20
    killed = [r for r in case.rows if (d := case.death(r)) is not None and d.kind == "out of memory"]
    return hit(
        "ray_too_many_for_memory",
        "warning",
        text(
            "{wanted} {named} need more memory than {node_name} has: use {instead}",
            wanted=wanted,
            named=named,
            node_name=case.node_name(node.node_id),
            instead=instead,
        ),
        [*up, *coming],
        who=[named],
        evidence=[
            text(
                "each uses {one} (the middle one of {count}); everything else on the node {rest}",
                one=one,
                count=len(up),
                rest=rest,
            ),
            text(
                "{rest} + {wanted} x {one} = {needed} of {total}",
                rest=rest,
                wanted=wanted,
                one=one,
                needed=bytes_words(needed),
                total=bytes_words(total),
            ),
            text(
                "({limit} of {total} - {rest}) ÷ {one} = {instead}; above {limit} Ray kills workers",
                limit=limit,
                total=bytes_words(total),
                rest=rest,
                one=one,
                instead=instead,
            ),
        ],
        cause=text("Every worker is a process with its own copy of the packages, the model and its data."),
        next_steps=[
            text("Use {instead} on this node; give each more to do.", instead=instead),
            text(
                "Or tell Ray what each needs, `memory={asked}` in `.options(...)`: it then places no more than "
                "fit. A model that all share goes into the object store once (`ray.put`).",
                asked=asked,
            ),
        ],
        explains=killed,
        confidence="high" if _is_full(others + len(up) * each, total) else "medium",
    )
