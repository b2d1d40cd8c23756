"""How far each rank has come on each process group, and what it waits in: what a matrix of ranks and groups is made of. Pure functions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ..frames.whose import shortened
from ..language import text
from ..model import Collective, Group, RankCollectives

__all__ = ["DONE", "RankRow", "families_of", "family_of", "family_of_group", "family_words", "identity", "row_of"]

DONE = "completed"
DEFAULT = "default group"
"""The family of the process group that every job has."""


@dataclass(frozen=True)
class RankRow:
    """Where one rank stands. ``progress``: by family of groups, last issued and last completed."""

    rank: RankCollectives
    progress: dict[str, tuple[int | None, int | None]]
    pending: Collective | None

    @property
    def at(self) -> str | None:
        """Where it made the call that it waits in, else where it is; in full."""
        return (self.pending.at if self.pending is not None else None) or self.rank.where

    @property
    def place(self) -> str | None:
        return None if self.at is None else shortened(self.at)

    @property
    def key(self) -> Hashable:
        """What makes two ranks look alike. Only how long they wait may differ."""
        call = self.pending
        waits = None if call is None else (family_of(self.rank, call.group), call.sequence, call.op, call.state)
        return tuple(sorted(self.progress.items())), waits, self.place


def row_of(rank: RankCollectives) -> RankRow:
    progress: dict[str, tuple[int | None, int | None]] = {}
    for group in rank.groups:
        family = family_of_group(group)
        if family not in progress or (group.last_issued or 0) > (progress[family][0] or 0):
            progress[family] = group.last_issued, group.last_completed
    return RankRow(rank, progress, next((c for c in rank.calls if c.state != DONE), None))


def family_of_group(group: Group) -> str:
    """Groups that play the same part on different ranks have one description: ``mesh_tp``. Else a group is its own family."""
    if group.description == "default_pg":
        return DEFAULT
    return group.description or f"group {group.name}"


def identity(group: Group) -> Hashable:
    """What tells groups of one name apart, without a look at ten thousand ranks for each of them."""
    return group.name, len(group.ranks), group.ranks[0] if group.ranks else None


def family_of(rank: RankCollectives, name: str) -> str:
    return next((family_of_group(g) for g in rank.groups if g.name == name), f"group {name}")


def family_words(family: str) -> str:
    """What a family is called."""
    return text("default group") if family == DEFAULT else family


def families_of(ranks: Sequence[RankCollectives]) -> list[str]:
    found = dict.fromkeys(family_of_group(g) for r in ranks for g in r.groups)
    return sorted(found, key=lambda family: family != DEFAULT)
