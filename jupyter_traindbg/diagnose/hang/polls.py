"""Ranks that look for something again and again, a file or a key of a process group's store: what they go by, and who has left it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...language import text
from ...model import Wait
from ...words.values import variable_words
from .ranks import View
from .words import alike

__all__ = ["left_out_by", "looks", "looks_at", "wanted"]

_POLLS = (Wait("sleep"), Wait("lock", "lock_file"))
FEWEST = 2
"""So many have to look for the same for it to be the last rank's turn."""


def looks(view: View) -> bool:
    """Whether the rank stands still at a line that looks for a file or a key."""
    if view.role != "still" or view.holder is not None:
        return False
    return view.now.kind == "store" or (view.now.wait in _POLLS and bool(view.evidence.polled or _keys(view)))


def wanted(view: View) -> str:
    """What it looks for, in words; empty where that is a lock, or not known."""
    missing = [file for file in view.evidence.polled if file.holder is None and (file.unmade or not file.there)]
    if missing:
        file = missing[0]
        folder = file.path if file.there else file.path.rpartition("/")[0]
        return text("the file {path}", path=f"{folder}/{file.unmade}" if file.unmade else file.path)
    on = view.now.wait.on if view.now.kind == "store" and view.now.wait is not None else "".join(_keys(view)[:1])
    return text("the key {key} of the process group's store", key=on) if on else ""


def left_out_by(views: Sequence[View]) -> Mapping[int, int]:
    """By the rank that looks for something the one that has left it out: whose file alone is missing among those of all ranks, or who alone
    does not look for it and waits for the others by now.
    """
    looking = [v for v in views if looks(v) and wanted(v)]
    found = {v.rank: by for v in looking if (by := _unmade_by(v)) is not None and by != v.rank}
    for same in alike([v for v in looking if _unmade_by(v) is None], wanted):
        ranks = {v.rank for v in same}
        others = [v for v in views if v.rank not in ranks]
        if len(same) >= FEWEST and len(others) == 1 and others[0].role == "waiting":
            found.update(dict.fromkeys(ranks, others[0].rank))
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


def _unmade_by(view: View) -> int | None:
    return next((file.unmade_by for file in view.evidence.polled if file.unmade), None)


def _keys(view: View) -> list[str]:
    """The keys that a loop asks a store for."""
    told = (one.value for one in view.evidence.looks_at if one.value.kind == "store")
    return [value.words.partition(", ")[2].strip("'") or value.type for value in told]
