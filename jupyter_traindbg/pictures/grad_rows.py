"""Gradients of all ranks as at most so many rows as one looks at: of each parameter, of each module, or of neighbouring layers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..language import text
from ..model import GradStat, NotAvailable, RankGrads
from ..render.grouping import group_by

__all__ = ["MOST", "Row", "Rows", "not_finite", "rows_of"]

MOST = 32
"""Rows that are read at a glance."""
FEW = 8
"""Fewer modules say too little: then their parts are put together by the neighbours that they have."""


@dataclass(frozen=True)
class Row:
    """``norms``: L2 of all its finite gradients, by rank; ``bad``: its gradients that are not finite, by rank. ``names``: its parameters,
    of which ``without`` have no gradient anywhere, and ``frozen`` of these want none.
    """

    label: str
    names: Sequence[str]
    norms: Sequence[float]
    bad: Sequence[tuple[int, GradStat]]
    without: int
    frozen: int

    @property
    def norm(self) -> float | None:
        """The median over the ranks; None where no finite gradient is."""
        return statistics.median(self.norms) if self.norms else None


@dataclass(frozen=True)
class Rows:
    """``grouped``: in words, how parameters were put together; empty where each has its own row. ``existing``: how many gradients there
    are; ``bad``: those that are not finite, by parameter and rank.
    """

    rows: Sequence[Row]
    grouped: str
    existing: int
    bad: Mapping[str, Sequence[tuple[int, GradStat]]]


def rows_of(ranks: Sequence[RankGrads]) -> Rows:
    """In the order of the model. The norm of several gradients is the root of the sum of their norms' squares, as ||(a, b)|| is."""
    found = group_by(((rank.rank, g) for rank in ranks for g in rank.grads), lambda one: one[1].name)
    by_name = {same[0][1].name: same for same in found}
    groups, grouped = _groups(list(by_name))
    rows = [_row(label, [(name, by_name[name]) for name in names]) for label, names in groups.items()]
    bad = {name: wrong for name, same in by_name.items() if (wrong := [one for one in same if not_finite(one[1])])}
    return Rows(rows, grouped, len(by_name) - sum(row.without for row in rows), bad)


def not_finite(g: GradStat) -> bool:
    """Also where its squares alone are no number any more."""
    return g.nan_count > 0 or g.inf_count > 0 or (not isinstance(g.norm, NotAvailable) and not math.isfinite(g.norm))


def _row(label: str, parameters: Sequence[tuple[str, Sequence[tuple[int, GradStat]]]]) -> Row:
    found = [one for _, same in parameters for one in same]
    bad = [one for one in found if not_finite(one[1])]
    finite = [(rank, g.norm) for rank, g in found if not isinstance(g.norm, NotAvailable) and not not_finite(g)]
    norms = [math.hypot(*(norm for _, norm in same)) for same in group_by(finite, lambda one: one[0])]
    without = [same for _, same in parameters if not any(_exists(g) for _, g in same)]
    frozen = [same for same in without if not any(g.requires_grad for _, g in same)]
    return Row(label, [name for name, _ in parameters], norms, bad, len(without), len(frozen))


def _exists(g: GradStat) -> bool:
    return not isinstance(g.norm, NotAvailable) or not_finite(g)


# --- putting parameters together -------------------------------------------------------------------------------------


def _groups(names: Sequence[str]) -> tuple[dict[str, list[str]], str]:
    """Parameters by the label of their row, and how they were put together."""
    if len(names) <= MOST:
        return {name: [name] for name in names}, ""
    deepest = max(name.count(".") for name in names) + 1
    depth = max(d for d in range(deepest) if len(_at(names, d)) <= MOST)
    modules = _at(names, depth)
    if len(modules) >= FEW:
        return modules, text("each bar is a module")
    fine = _at(names, depth + 1)
    size = 2
    while len(neighbours := _neighbours(fine, size)) > MOST:
        size *= 2
    return neighbours, text("each bar is up to {size} neighbouring layers", size=size)


def _at(names: Iterable[str], depth: int) -> dict[str, list[str]]:
    """By the first `depth` parts of their names."""
    return {
        ".".join(same[0].split(".")[:depth]): same
        for same in group_by(names, lambda name: tuple(name.split(".")[:depth]))
    }


def _neighbours(groups: dict[str, list[str]], size: int) -> dict[str, list[str]]:
    """`size` groups of one parent after each other as one: ``model.layers.0-15``."""
    together: dict[str, list[str]] = {}
    for siblings in group_by(groups, lambda label: label.rpartition(".")[0]):
        for start in range(0, len(siblings), size):
            some = siblings[start : start + size]
            together[_from_to(some[0], some[-1])] = [name for label in some for name in groups[label]]
    return together


def _from_to(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last.rpartition('.')[2]}"
