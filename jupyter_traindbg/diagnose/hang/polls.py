"""Ranks that look for something again and again, a file or a key of a process group's store: what they go by, and who has left it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from ...language import text
from ...model import Wait
from ...words.values import value_words, variable_words
from .ranks import View
from .words import alike

__all__ = ["LeftOut", "Sought", "changes", "left_out_of", "looks", "looks_at"]

_POLLS = (Wait("sleep"), Wait("lock", "lock_file"))
FEWEST = 2
"""So many have to look for the same for it to be the last rank's turn."""


def looks(view: View) -> bool:
    """Whether the rank stands still at a line that looks for a file or a key."""
    if view.role != "still" or view.holder is not None:
        return False
    return view.now.kind == "store" or (view.now.wait in _POLLS and bool(view.evidence.polled or _keys(view)))


class Sought(NamedTuple):
    """What a rank looks for: the path of a file, or the key of a store."""

    kind: Literal["file", "key"]
    name: str


class LeftOut(NamedTuple):
    """What a rank looks for, and the rank ``by`` which it was left out."""

    by: int
    what: Sought


def _sought(view: View) -> Sought | None:
    """None where that is a lock, or not known."""
    missing = [file for file in view.evidence.polled if file.holder is None and (file.unmade or not file.there)]
    if missing:
        file = missing[0]
        folder = file.path if file.there else file.path.rpartition("/")[0]
        return Sought("file", f"{folder}/{file.unmade}" if file.unmade else file.path)
    blocked_on = view.now.wait.on if view.now.kind == "store" and view.now.wait is not None else ""
    key = blocked_on or next(iter(_keys(view)), "")
    return Sought("key", key) if key else None


def left_out_of(views: Sequence[View]) -> Mapping[int, LeftOut]:
    """By the rank that looks for something who has left it out: the one whose file alone is missing among those of all ranks, or the one
    that alone does not look for it, and waits for the others by now.
    """
    looking = [(v, what) for v in views if looks(v) and (what := _sought(v)) is not None]
    unmade = {v.rank: _unmade_by(v) for v, _ in looking}
    found = {v.rank: LeftOut(by, what) for v, what in looking if (by := unmade[v.rank]) is not None and by != v.rank}
    for same in alike([one for one in looking if unmade[one[0].rank] is None], lambda one: one[1]):
        ranks = {v.rank for v, _ in same}
        others = [v for v in views if v.rank not in ranks]
        if len(same) >= FEWEST and len(others) == 1 and others[0].role == "waiting":
            found.update((v.rank, LeftOut(others[0].rank, what)) for v, what in same)
    return found


def looks_at(view: View) -> list[str]:
    """What decides when the line goes on, in words: the variables in it, and the files that they name."""
    variables, missing = view.evidence.looks_at, [file.path for file in view.evidence.polled if not file.there]
    told = (
        [text("rank {rank} goes by {variables} there", rank=view.rank, variables=variable_words(variables))]
        if variables
        else []
    )
    return told + [
        text("{path} does not exist, as rank {rank} sees it", path=path, rank=view.rank) for path in missing[:1]
    ]


def changes(view: View) -> list[str]:
    """How what its loop goes by has changed during the look."""
    return [
        text(
            "what it goes by there has changed meanwhile: {name} was {before}, and is {now}",
            name=change.variable.name,
            before=value_words(change.before),
            now=value_words(change.variable.value),
        )
        for change in view.evidence.changed
    ]


def _unmade_by(view: View) -> int | None:
    return next((file.unmade_by for file in view.evidence.polled if file.unmade), None)


def _keys(view: View) -> list[str]:
    """The keys that a loop asks a store for."""
    told = (one.value for one in view.evidence.looks_at if one.value.kind == "store")
    return [value.words.partition(", ")[2].strip("'") or value.type for value in told]
