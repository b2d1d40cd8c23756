"""The ranks of a group by the places from which they issued their calls: those that are alike together, over the numbers that all have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...model import CallSite, CallSites
from .joined import Joined

__all__ = ["Alike", "Window", "windows"]


@dataclass(frozen=True)
class Alike:
    """Ranks, and the places from which each of them issued the calls of a window."""

    ranks: Sequence[int]
    places: Sequence[CallSite]


@dataclass(frozen=True)
class Window:
    """The numbers of a group's calls that are done and of which every rank's place is known. ``ranks``: the most first."""

    group: Joined
    numbers: Sequence[int]
    ranks: Sequence[Alike]


def windows(groups: Sequence[Joined], sites: Mapping[int, CallSites]) -> list[Window]:
    """Of each group with at least two ranks in `sites`, which is by rank. Linear in the number of calls.

    Left out are groups whose ranks number their calls differently: gloo counts the sends and receives of a monitored barrier, too.
    """
    interned = _Interned(sites)
    return [found for group in groups if (found := _window(group, sites, interned)) is not None]


def _window(group: Joined, sites: Mapping[int, CallSites], interned: _Interned) -> Window | None:
    told = {rank: own for rank in group.members if rank in sites and (own := sites[rank].at.get(group.name))}
    if group.guessed or len(told) < 2:
        return None
    low, high = max(min(own) for own in told.values()), min(_last_done(group, rank, own) for rank, own in told.items())
    numbers = {rank: tuple(n for n in own if low <= n <= high) for rank, own in told.items()}
    if len(set(numbers.values())) > 1 or not any(numbers.values()):
        return None
    alike: dict[tuple[int, ...], list[int]] = {}
    for rank, same in numbers.items():
        alike.setdefault(tuple(interned.number(rank, told[rank][n]) for n in same), []).append(rank)
    found = [Alike(sorted(ranks), [interned.sites[i] for i in places]) for places, ranks in alike.items()]
    return Window(group, next(iter(numbers.values())), sorted(found, key=lambda one: (-len(one.ranks), one.ranks)))


def _last_done(group: Joined, rank: int, own: Mapping[int, int]) -> int:
    """Calls that somebody waits in are what the rules of hangs compare."""
    done = group.members[rank].last_completed
    return max(own) if done is None else min(done, max(own))


class _Interned:
    """Equal places of all ranks as one object."""

    def __init__(self, sites: Mapping[int, CallSites]) -> None:
        numbers: dict[CallSite, int] = {}
        self._of_rank = {
            rank: [numbers.setdefault(site, len(numbers)) for site in own.sites] for rank, own in sites.items()
        }
        self.sites = list(numbers)

    def number(self, rank: int, place: int) -> int:
        return self._of_rank[rank][place]
