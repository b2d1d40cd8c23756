"""Three hundred ranks on one screen: called by their names, identical stacks shown once. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..frames import whose
from ..frames.phases import Phase, phases_of
from ..language import text
from ..model import Frame, NotAvailable, ProcessStacks, Stacks, Thread, ThreadState, Wait, available
from ..ray.workers.naming import together
from ..words.ranks import PIECES, compact_ranks, rank_list

__all__ = ["Caller", "StackGroup", "caller", "group_by", "group_stacks", "named"]

FEW_HOSTS = 4
"""So many are named."""
T = TypeVar("T")


_NUMBERED = re.compile(r"(rank|process|worker|pid) (\d+)")
_PLURALS = {"process": "processes"}


def named(names: Iterable[object]) -> str:
    """Who is meant, as findings list them: ``rank 1, worker 5012``; many of one kind in runs, ``ranks 0-299 (300), Collector[0-6]``."""
    numbers: dict[str, list[int]] = {}
    others: list[str] = []
    for name in map(str, names):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            others.append(name)
        else:
            numbers.setdefault(match[1], []).append(int(match[2]))
    pieces = [piece for kind, found in numbers.items() for piece in _of_kind(kind, found)]
    return ", ".join([*pieces, together(others, PIECES)] if others else pieces)


def _of_kind(kind: str, numbers: Sequence[int]) -> list[str]:
    if len(numbers) <= 2:
        return [f"{kind} {n}" for n in numbers]
    return [f"{_PLURALS.get(kind, f'{kind}s')} {rank_list(numbers)} ({len(set(numbers))})"]


Caller = Callable[[Sequence[int]], str]
"""How ranks are called."""


def caller(names: Mapping[int, str]) -> Caller:
    """By their `names`, where they have such: ``driver, Collector[0-6]``; else by their numbers."""
    return (lambda ranks: named(names.get(r, f"rank {r}") for r in sorted(set(ranks)))) if names else compact_ranks


def group_by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items with the same key together, in the order in which the keys first appear."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def hosts_of(names: Iterable[str]) -> str:
    """The hosts of several processes: their names, or how many there are."""
    different = sorted({name for name in names if name})
    return ", ".join(different) if len(different) <= FEW_HOSTS else text("{n} hosts", n=len(different))


@dataclass(frozen=True)
class StackGroup:
    """Threads, of one process or of many, that are all at the same place in the same state.

    ``ranks``, ``pids`` and ``threads`` count them: ranks they belong to, processes they live in, threads altogether. ``name`` has
    its digits replaced by ``N`` where the threads differ in them. ``idle``: a helper that has nothing to do.
    """

    role: str
    source: str
    training: bool
    name: str
    state: ThreadState | NotAvailable
    waiting_for: Wait | None
    holds_gil: bool
    frames: tuple[Frame, ...]
    ranks: tuple[int, ...]
    pids: tuple[int, ...]
    threads: int
    note: str = ""

    @property
    def where(self) -> Frame | None:
        """The frame that says where they are: the user's innermost, else a library's."""
        return whose.where(self.frames)

    @property
    def phases(self) -> list[Phase]:
        """In which part of a training a rank is, as far as its wait does not say so."""
        found = phases_of(self.frames) if self.training and self.role == "rank" else []
        return [phase for phase in found if self.waiting_for is None or self.waiting_for.kind not in phase.waits]

    @property
    def idle(self) -> bool:
        """Nobody's training, nobody's code, not running: a feeder, a monitor, a pool worker."""
        if self.training and self.role == "rank":
            return False
        if self.holds_gil or self.note or self.state == "running" or not self.frames:
            return False
        waits_for_work = self.waiting_for is not None and self.waiting_for.kind == "idle"
        return waits_for_work or (not self.training and whose.user_frame(self.frames) is None)


def group_stacks(stacks: Stacks) -> list[StackGroup]:
    """All threads, identical ones together.

    Training threads first, and among them the smallest group first (the odd one out is the interesting one); then worker and other
    child processes, then other threads, and idle helpers last. Linear in the number of frames.
    """
    members = [(process, thread) for process in stacks.processes for thread in process.threads or (_no_thread(),)]
    return sorted((_group(found) for found in group_by(members, _key)), key=_interest)


def _no_thread() -> Thread:
    absent = NotAvailable(text("no stack"))
    return Thread("", absent, absent, (), training=True)


def _key(member: tuple[ProcessStacks, Thread]) -> Hashable:
    process, thread = member
    return (
        process.role,
        process.source,
        process.note,
        thread.training,
        _normal(thread.name),
        str(thread.state),
        thread.waiting_for,
        thread.holds_gil is True,
        tuple((f.file, f.line, f.function) for f in thread.frames),
    )


def _normal(name: str) -> str:
    return re.sub(r"\d+", "N", name)


def _group(members: Sequence[tuple[ProcessStacks, Thread]]) -> StackGroup:
    process, thread = members[0]
    same_name = all(t.name == thread.name for _, t in members)
    return StackGroup(
        role=process.role,
        source=process.source,
        training=thread.training,
        name=thread.name if same_name else _normal(thread.name),
        state=thread.state,
        waiting_for=thread.waiting_for,
        holds_gil=thread.holds_gil is True,
        frames=tuple(thread.frames),
        ranks=tuple(sorted({p.rank for p, _ in members})),
        pids=tuple(sorted({p.pid for p, _ in members})),
        threads=len(members),
        note=process.note,
    )


def _interest(group: StackGroup) -> tuple[int, int, int, int, str]:
    main_of_rank = group.role == "rank" and group.training
    child = group.role != "rank" and group.training
    kind = 0 if main_of_rank else 3 if group.idle else 1 if child else 2
    running_first = 0 if group.holds_gil else 1 if available(group.state) and group.state == "running" else 2
    return kind, 0 if kind == 0 else running_first, len(group.ranks), group.ranks[0], group.name
