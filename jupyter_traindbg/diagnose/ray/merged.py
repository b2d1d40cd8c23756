"""One diagnosis from two: of a Ray job by its actors and tasks, and of its trainers as the ranks of a training. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...model import Diagnosis, Finding, RankState
from .order import ROOT_FIRST

__all__ = ["with_ranks"]

_BEFORE = frozenset(ROOT_FIRST[: ROOT_FIRST.index("ray_leftovers")])
"""What is wrong with workers and nodes explains what ranks wait for, and comes first."""
_WORSE = ("failed", "stuck", "unsound", "slow", "progressing", "healthy", "idle", "ended", "not known")


def with_ranks(ray: Diagnosis, ranks: Diagnosis | None) -> Diagnosis:
    """`ray` with what the diagnosis of its `ranks` found; these know more of a rank than its row does."""
    if ranks is None:
        return ray
    first = [f for f in ray.findings if f.code in _BEFORE]
    rest = [f for f in ray.findings if f.code not in _BEFORE]
    verdict = _once([*first, *ranks.findings, *rest])
    state = min(ray.state, ranks.state, key=_WORSE.index)
    return dataclasses.replace(
        ray,
        state=state,
        why=(*ranks.why, *ray.why),
        ranks=_rows(ray.ranks, ranks.ranks),
        verdict=tuple(verdict),
        silent=(*ray.silent, *ranks.silent),
        checks=ranks.checks,
    )


def _once(found: Sequence[Finding]) -> list[Finding]:
    return list({(f.code, f.title): f for f in reversed(found)}.values())[::-1]


def _rows(rows: Sequence[RankState], ranks: Sequence[RankState]) -> tuple[RankState, ...]:
    """The row of each rank that was looked at as a rank, by its pid, with the name that Ray's side has for it."""
    known = {r.pid: r for r in ranks if r.pid}
    return tuple(dataclasses.replace(known[row.pid], who=row.who) if row.pid in known else row for row in rows)
