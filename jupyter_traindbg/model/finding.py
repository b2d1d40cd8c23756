"""Verdicts: what is wrong, and whom or what it blames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Excerpt", "Finding", "Phrase", "Subject", "SubjectKind", "rank_subjects", "things"]

SubjectKind = Literal["rank", "loader_worker", "process", "gpu", "thing"]
"""``thing``: a parameter, a module, a file, a Ray worker, whatever is known by its name alone."""
_CALLED: dict[SubjectKind, str] = {
    "rank": "rank {}",
    "loader_worker": "worker {}",
    "process": "pid {}",
    "gpu": "GPU {}",
    "thing": "{}",
}


class Phrase(str):
    """A text that JSON, people and comparisons take as it is, and rules by its parts, which its attributes are."""


class Subject(Phrase):
    """Whom or what a finding blames. It is the text by which JSON, people and comparisons know it (``rank 3``), and says what that stands
    for: ``kind``, and ``id``, which is a rank, a pid, the number of a GPU, or a name.
    """

    kind: SubjectKind
    id: int | str

    def __new__(cls, kind: SubjectKind, id: int | str) -> Subject:  # noqa: A002
        made = super().__new__(cls, _CALLED[kind].format(id))
        made.kind, made.id = kind, id
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Subject, (self.kind, self.id)


def rank_subjects(ranks: Iterable[int]) -> tuple[Subject, ...]:
    """``rank 1``, ``rank 3``: each once, in order."""
    return tuple(Subject("rank", n) for n in sorted(set(ranks)))


def things(names: Iterable[str]) -> list[Subject]:
    """Parameters, files, workers and the like, by their names alone, in the order given."""
    return [Subject("thing", name) for name in names]


@dataclass(frozen=True)
class Excerpt:
    """Line `line` (counted from 1) of `file` between its neighbours: `lines` begin with number `first`, without their common indent.

    ``cell`` is the number of the notebook's cell that ``file`` stands for.
    """

    file: str
    line: int
    first: int
    lines: Sequence[str]
    cell: int | None = None


@dataclass(frozen=True)
class Finding:
    """One verdict. ``who`` lists the ranks, workers or parameters to blame; ``where`` is ``"file:line function"``, of a
    notebook's cell ``"In [4], line 11 function"``.
    """

    code: str
    severity: Literal["critical", "warning", "info"]
    title: str
    who: Sequence[Subject] = ()
    where: str | None = None
    evidence: Sequence[str] = ()
    cause: str = ""
    next_steps: Sequence[str] = ()
    reference: str | None = None
    confidence: Literal["high", "medium", "low"] = "high"
    source: Excerpt | None = None
    """What stands at ``where``, where that could be read as the process that is blamed runs it."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that it blames."""
        return tuple(one.id for one in self.who if one.kind == "rank" and isinstance(one.id, int))
