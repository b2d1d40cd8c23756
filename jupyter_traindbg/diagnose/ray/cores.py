"""More workers that compute than their node has cores for: each gets a fraction, and all together are no faster.

How much a worker would use is measured: the CPU time that it had over the window and the time for which it was ready to run and had none.
The number to use instead follows from that and the cores of the node, so it holds for these workers on this node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...language import text
from ...model import NotAvailable, RayNode, RayWorker
from ...words.durations import time_words
from ..hang.words import alike
from .case import Hit, RayCase, hit
from .words import names

__all__ = ["rule"]

BUSY = 0.25
"""Who would use more of a CPU than this counts as computing."""
OVER, OWN, STARVED = 2.0, 0.6, 0.5
"""They want so many times the cores; of these they have the most themselves; and they wait for a core at least half of the time."""


def rule(case: RayCase) -> list[Hit]:
    return [found for node in case.living_nodes if (found := _node(case, node)) is not None]


def _node(case: RayCase, node: RayNode) -> Hit | None:
    if isinstance(node.cpus, NotAvailable) or node.cpus < 1:
        return None
    seen = [(r, *shares) for r in case.rows if r.node_id == node.node_id and (shares := _shares(case, r)) is not None]
    busy = [(r, used, starved) for r, used, starved in seen if used + starved > BUSY]
    wanted, had = sum(u + s for _, u, s in busy), sum(u for _, u, _ in busy)
    if len(busy) <= node.cpus or wanted < OVER * node.cpus or had < OWN * node.cpus:
        return None
    if sum(s for _, _, s in busy) < STARVED * wanted:
        return None
    each = wanted / len(busy)
    instead = max(1, math.floor(node.cpus / each + 0.05))
    rows = [r for r, _, _ in busy]
    classes = [
        same[0].class_name or same[0].method or same[0].who for same in alike(rows, lambda r: (r.class_name, r.method))
    ]
    name = case.node_name(node.node_id)
    gets, lacks = f"{had / len(busy):.2f}", f"{(wanted - had) / len(busy):.2f}"
    view = case.view(rows[0])
    window = time_words(view.activity.window_s) if view is not None and view.activity is not None else "?"
    return hit(
        "ray_too_many_for_cores",
        "warning",
        text(
            "{count} workers compute on the {cpus} CPUs of {name}: use {instead} of them there",
            count=len(busy),
            cpus=node.cpus,
            name=name,
            instead=instead,
        ),
        rows,
        who=list(dict.fromkeys(classes))[:4],
        evidence=[
            text(
                "over {window} each had {gets} CPU and was ready to run for a further {lacks} without one",
                window=window,
                gets=gets,
                lacks=lacks,
            ),
            text(
                "{cpus} CPUs ÷ {each:.2f} that each would use = {instead}", cpus=node.cpus, each=each, instead=instead
            ),
            _ray_was_told(case, node, rows),
        ],
        cause=text(
            "They take turns on the cores. More of them give no more results, only later ones, more memory "
            "and a longer start-up."
        ),
        next_steps=[
            text(
                "Use {instead} on this node and give each more to do (the same number of games in all).",
                instead=instead,
            ),
            text(
                "Or let each ask for what it uses (`num_cpus=`), so that Ray places no more than fit; and keep "
                "libraries to one thread in each (OMP_NUM_THREADS=1)."
            ),
        ],
    )


def _shares(case: RayCase, row: RayWorker) -> tuple[float, float] | None:
    """CPU that it had, and CPU that it could have used besides, over the window; None where that was not measured."""
    view = case.view(row)
    activity = view.activity if view is not None else None
    if activity is None or any(isinstance(t.starved_share, NotAvailable) for t in activity.threads):
        return None
    starved = sum(t.starved_share for t in activity.threads if not isinstance(t.starved_share, NotAvailable))
    return activity.cpu_share, starved


def _ray_was_told(case: RayCase, node: RayNode, rows: Sequence[RayWorker]) -> str:
    """Why Ray let them: they ask for less than they use, or the node was said to have more CPUs than it has."""
    told = node.resources_total.get("CPU", 0.0)
    if not isinstance(node.cpus, NotAvailable) and told > node.cpus:
        return text("Ray was told that this node has {told:g} CPUs; the machine has {cpus}", told=told, cpus=node.cpus)
    asked = {case.required(r).get("CPU", 0.0) for r in rows}
    if len(asked) == 1:
        return text(
            "{names} ask Ray for {pop:g} CPU each", names=names(rows), pop=asked.pop(), pop2=asked.pop() if asked else 0
        )
    return ""
