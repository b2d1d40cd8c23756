"""One diagnosis from two: of a Ray job by its actors and tasks, and of its trainers as the ranks of a training. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ...language import text
from ...model import Diagnosis, Finding, RankState
from .order import ROOT_FIRST

__all__ = ["alone", "asked_of", "with_driver", "with_ranks"]

_BEFORE = frozenset(ROOT_FIRST[: ROOT_FIRST.index("ray_leftovers")])
"""What is wrong with workers and nodes explains what ranks wait for, and comes first."""
_AT_REST = ("stuck", "idle", "not known")
_WORSE = ("failed", "stuck", "unsound", "slow", "progressing", "healthy", "idle", "ended", "not known")


def with_ranks(ray: Diagnosis, ranks: Diagnosis | None) -> Diagnosis:
    """`ray` with what the diagnosis of its `ranks` found; these know more of a rank than its row does."""
    if ranks is None:
        return ray
    first = [f for f in ray.findings if f.code in _BEFORE]
    rest = [f for f in ray.findings if f.code not in _BEFORE]
    first, others = _folded(first, ranks.findings, _names(ray.ranks, ranks.ranks))
    verdict = _once([*first, *others, *rest])
    told = [ray.state] if ranks.state == "idle" else [ray.state, ranks.state]  # others may work, or wait, meanwhile
    state = min(told, key=_WORSE.index)
    return dataclasses.replace(
        ray,
        state=state,
        why=(*ranks.why, *ray.why),
        ranks=_rows(ray.ranks, ranks.ranks),
        verdict=tuple(verdict),
        silent=(*ray.silent, *ranks.silent),
        checks=ranks.checks or ray.checks,
    )


def asked_of(ray: Diagnosis, target: str, whole: str, *, driver: bool) -> Diagnosis:
    """`ray`, the diagnosis of the job `whole`, for somebody who has asked one of its processes, named `target`."""
    if driver:
        words = text("{target} is the driver of {whole}: all of that job was looked at", target=target, whole=whole)
    else:
        words = text("{target} is a process of {whole}: all of that job was looked at", target=target, whole=whole)
    return dataclasses.replace(ray, target=target, why=(words, *ray.why))


def with_driver(ray: Diagnosis, driver: Diagnosis | None) -> Diagnosis:
    """`ray` with what the diagnosis of its `driver`, as a process by itself, adds: where that one trains, or where nobody else moves.

    That a driver stands still says nothing as long as its workers get on: it waits for them.
    """
    if driver is None:
        return ray
    trains = any(row.state == "stepping" for row in driver.ranks) or driver.state == "unsound"
    if trains or (not ray.findings and ray.state in _AT_REST and driver.findings):
        return with_ranks(ray, driver)
    return ray


def alone(own: Diagnosis, whole: str, why: str) -> Diagnosis:
    """What one process of the Ray job `whole` tells, where `why` kept us from asking the rest."""
    words = text("only this process was looked at, and not {whole}: {why}", whole=whole, why=why)
    return dataclasses.replace(own, why=(*own.why, words))


def _folded(
    first: Sequence[Finding], ranks: Sequence[Finding], names: Mapping[str, str]
) -> tuple[list[Finding], list[Finding]]:
    """A finding about ranks that leads to workers of which another one tells what is wrong goes into the evidence of that."""
    told, left = list(first), []
    for finding in ranks:
        blamed = {names.get(who, who) for who in finding.who}
        root = next(
            (i for i, f in enumerate(told) if f.severity == "critical" and f.who and blamed.issuperset(f.who)), None
        )
        if root is None:
            left.append(finding)
        else:
            more = (*finding.evidence, text("so: {title}", title=finding.title))
            evidence = tuple(dict.fromkeys((*told[root].evidence, *more)))
            told[root] = dataclasses.replace(told[root], evidence=evidence)
    return told, left


def _names(rows: Sequence[RankState], ranks: Sequence[RankState]) -> Mapping[str, str]:
    """What Ray's side calls each rank, by what the diagnosis of ranks calls it."""
    who = {row.pid: row.who for row in rows if row.pid}
    return {f"rank {rank.rank}": who[rank.pid] for rank in ranks if rank.pid in who}


def _once(found: Sequence[Finding]) -> list[Finding]:
    return list({(f.code, f.title): f for f in reversed(found)}.values())[::-1]


def _rows(rows: Sequence[RankState], ranks: Sequence[RankState]) -> tuple[RankState, ...]:
    """The row of each rank that was looked at as a rank, by its pid, with the name that Ray's side has for it."""
    known = {r.pid: r for r in ranks if r.pid}
    return tuple(dataclasses.replace(known[row.pid], who=row.who) if row.pid in known else row for row in rows)
