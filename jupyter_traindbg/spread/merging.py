"""One result from the results of several hosts, field by field. Pure functions over the dataclasses of `jupyter_traindbg.model`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..errors import TargetGone, TraindbgError
from ..model import (
    JobEvidence,
    LostHost,
    NewSteps,
    NotAvailable,
    RankEvidence,
    Result,
    Silent,
)

__all__ = ["merged", "one_job", "polled"]

_OF_HOSTS = ("hosts", "silent", "sources", "meeting", "blocks", "forks", "past", "beside", "taken_s", "ras")
_OF_ALL: Mapping[str, Callable[[Iterable[Any]], Any]] = {"same_step": all, "processes": sum}
R = TypeVar("R", bound=Result)


def merged(results: Sequence[R], silent: Iterable[Silent] = ()) -> R:
    """All of them as one: lists one behind the other and by rank, times by the longest, other values by the first host that has one.

    `silent` are those who gave no answer at all.
    """
    first = results[0]
    assert dataclasses.is_dataclass(first)
    changes = {
        field.name: _together(field.name, [getattr(result, field.name) for result in results])
        for field in dataclasses.fields(first)
    }
    if "silent" in changes:
        changes["silent"] = (*changes["silent"], *silent)
    return dataclasses.replace(first, **changes)


def polled(
    answers: Mapping[str, list[NewSteps] | TraindbgError], there: Mapping[str, Sequence[tuple[int, int]]]
) -> list[NewSteps]:
    """What each host answered to a question for new steps; of one that did not, why, for each rank and pid that is ``there``."""
    found: list[NewSteps] = []
    for host, answer in answers.items():
        if isinstance(answer, TraindbgError):
            gone = isinstance(answer, TargetGone)
            found += [NewSteps(rank, pid, problem=answer.cause, gone=gone) for rank, pid in there[host]]
        else:
            found += answer
    return found


def one_job(
    parts: Sequence[JobEvidence],
    silent: Iterable[Silent] = (),
    lost: Sequence[LostHost] = (),
    unseen: Iterable[RankEvidence] = (),
) -> JobEvidence:
    """The evidence of one job from that of its hosts: a rank that one host misses has been seen by another.

    `silent`: who else gave none; `lost`: the hosts that gave none; `unseen`: what is known of the ranks of both.
    """
    ranks: dict[int, RankEvidence] = {}
    for rank in (*(rank for part in parts for rank in part.ranks), *unseen):
        known = ranks.get(rank.rank)
        if known is None or _seen(rank) > _seen(known):
            ranks[rank.rank] = rank
    changes = {name: _together(name, [getattr(part, name) for part in parts]) for name in _OF_HOSTS}
    changes["silent"] = (*changes["silent"], *silent)
    return dataclasses.replace(
        parts[0],
        ranks=tuple(rank for _, rank in sorted(ranks.items())),
        world_size=max(part.world_size for part in parts),
        lost_hosts=tuple(lost),
        **changes,
    )


def _seen(rank: RankEvidence) -> tuple[bool, bool]:
    """How well a rank was seen; where it has run and ended, its host alone knows."""
    return rank.pid != 0, rank.ending is not None


def _together(name: str, values: Sequence[Any]) -> Any:
    known = [value for value in values if not isinstance(value, NotAvailable) and value is not None]
    if not known:
        return values[0]
    if all(isinstance(value, (list, tuple)) for value in known):
        return _one_list(known)
    if isinstance(known[0], Mapping):
        return {key: one for value in known for key, one in value.items()}
    if name in _OF_ALL:
        return _OF_ALL[name](known)
    return max(known) if name.endswith("_s") else known[0]


def _one_list(lists: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """What several hosts say alike is said once; what has a rank is put in order by it."""
    if len(lists) == 1:
        return tuple(lists[0])
    items: list[Any] = []
    for item in (item for one in lists for item in one):
        if item not in items:
            items.append(item)
    if all(isinstance(getattr(item, "rank", None), int) for item in items):
        items.sort(key=lambda item: item.rank)
    return tuple(items)
