"""The evidence of a job of which there are only dumps of stacks, and what its logs and flight recorders tell beside them.

Which process is which rank is told by the dumps, by the names of their files, or by nobody: then processes are numbered. Looks at one
process are put one after another; nobody knows how far apart they were.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..language import text
from ..model import (
    CallSites,
    DumpedProcess,
    Ending,
    JobEvidence,
    Look,
    NotAvailable,
    ProcessStacks,
    RankCollectives,
    RankEvidence,
    Silent,
    SourceLine,
)
from ..outside.dumped_stacks.here import Found
from ..outside.dumped_stacks.processes import with_lines
from ..words.ranks import ranks_words
from .dumped_looks import comparable

__all__ = ["Job", "Sent", "evidence"]

_NODE = re.compile(r"(?i)(?:node|host|worker|pod)[-_.]?\d+|\d+\.\d+\.\d+\.\d+")
_FOR_OTHER_RANKS = {"collective", "peer", "init", "backward"}
NOTHING = Look(0.0, ())
MOST_ABSENT = 4096
"""In larger jobs only ranks of which something was sent are spoken of; a number may be anything."""
ONCE = NotAvailable("each process was seen once")


@dataclass(frozen=True)
class Sent:
    """What was read. ``ranks``: by file, the rank that its name says. ``endings``: how ranks ended, by their launchers' words in logs."""

    looks: Sequence[DumpedProcess]
    ranks: Mapping[str, int]
    collectives: Mapping[int, RankCollectives] = field(default_factory=dict)
    sites: Mapping[int, CallSites] = field(default_factory=dict)
    endings: Mapping[int, Ending] = field(default_factory=dict)
    world_size: int | None = None
    silent: Sequence[Silent] = ()


@dataclass
class _Process:
    """All looks at one process, and whose it is."""

    looks: list[DumpedProcess]
    rank: int | None
    role: str
    numbered: bool = False
    children: list[_Process] = field(default_factory=list)

    @property
    def last(self) -> DumpedProcess:
        return self.looks[-1]

    @property
    def pid(self) -> int:
        return self.last.stacks.pid


@dataclass(frozen=True)
class Job:
    """The evidence, and what has to be said of how it came about."""

    evidence: JobEvidence
    notes: Sequence[str]
    variables: Mapping[int, Mapping[str, str]]


def evidence(name: str, sent: Sent, found: Found) -> Job:
    """The job as far as it was sent. Its ranks were watched where each of them was seen more than once."""
    processes = _processes(sent.looks, sent.ranks, found.lines)
    _find_parents(processes)
    ranks = [p for p in processes if p.role == "rank"]
    notes = _number(ranks)
    notes += _place(processes, ranks)
    told = {p.rank: p for p in ranks if p.rank is not None}
    known = {*told, *sent.collectives, *sent.endings}
    world_size = max([sent.world_size or _expected(ranks), *(rank + 1 for rank in known)], default=0)
    seen = [
        _rank(rank, told.get(rank), sent, world_size)
        for rank in (range(world_size) if world_size <= MOST_ABSENT else sorted(known))
    ]
    watched = bool(told) and all(len(p.looks) > 1 for p in told.values())
    launcher = next((p.last.stacks for p in processes if p.role == "launcher"), None)
    return Job(
        JobEvidence(
            name,
            tuple(seen),
            world_size,
            sources=found.lines,
            blocks=found.blocks,
            launcher=None if launcher is None else Look(0.0, (launcher,)),
            silent=tuple(sent.silent),
            motion_shows=True if watched else ONCE,
        ),
        notes,
        {rank: p.last.variables for rank, p in told.items() if p.last.variables},
    )


def _expected(ranks: Sequence[_Process]) -> int:
    """How many ranks most of those expect that are still joining; 0 where nobody tells."""
    told = Counter(p.last.joining.world_size for p in ranks if p.last.joining is not None)
    return next((size for size, _ in told.most_common() if size), 0)


# --- which process is whose ----------------------------------------------------------------------------------------


def _processes(
    looks: Sequence[DumpedProcess], ranks: Mapping[str, int], lines: Mapping[str, SourceLine]
) -> list[_Process]:
    """Looks at the same process together: the same pid on the same node, or, where no pid is told, the same threads."""
    found: dict[object, _Process] = {}
    owners: dict[object, set[object]] = {}
    told = [(look, look.rank if look.rank is not None else ranks.get(look.file)) for look in looks]
    told = _with_hints(told)
    for look, rank in sorted(told, key=lambda pair: pair[1] is None):
        seen = dataclasses.replace(look, stacks=with_lines(look.stacks, lines))
        key = _identity(look, rank)
        same = owners.setdefault((look.stacks.pid, _node(look)), set())
        if rank is None and look.stacks.pid and len(same) == 1:
            key = next(iter(same))  # of that process another look tells the rank
        same.add(key)
        if key in found:
            found[key].looks.append(seen)
        else:
            found[key] = _Process([seen], rank, look.stacks.role)
    for process in found.values():
        process.looks = comparable(process.looks)
    return list(found.values())


def _with_hints(told: Sequence[tuple[DumpedProcess, int | None]]) -> list[tuple[DumpedProcess, int | None]]:
    """What may be a rank is taken for it where nobody else tells, and no two processes have the same."""
    hints = {look.stacks.pid: look.hint for look, rank in told if rank is None and look.stacks.role == "rank"}
    known = {rank for _, rank in told}
    distinct = len(set(hints.values())) == len(hints) and known.isdisjoint(h for h in hints.values() if h is not None)
    return [
        (look, look.hint if rank is None and distinct and look.stacks.role == "rank" else rank) for look, rank in told
    ]


def _identity(look: DumpedProcess, rank: int | None) -> object:
    if look.stacks.pid:
        return look.stacks.pid, _node(look), rank
    return (look.tool, rank) if rank is not None else (look.tool, look.file, look.ident)


def _node(look: DumpedProcess) -> str:
    """The machine that the name of its file says."""
    node = _NODE.search(look.file)
    return node[0].lower() if node else ""


def _find_parents(processes: Sequence[_Process]) -> None:
    """A process below a rank is a child of it; but one whose children wait for each other has started the ranks."""
    by_pid = {p.pid: p for p in processes if p.pid}
    for process in processes:
        parent = by_pid.get(process.last.parent_pid or -1)
        if process.role != "rank" or parent is None or parent.role == "launcher":
            continue
        if _waits_for(process) & _FOR_OTHER_RANKS:
            parent.role = "launcher"
        elif parent.role == "rank":
            process.role = "child"


def _waits_for(process: _Process) -> set[str]:
    return {t.waiting_for.kind for t in process.last.stacks.threads if t.training and t.waiting_for is not None}


def _number(ranks: Sequence[_Process]) -> list[str]:
    """Numbers for processes whose rank nobody tells, in the order in which they were sent; a rank that is told twice is the first one's."""
    taken: set[int] = set()
    twice: list[_Process] = []
    for process in ranks:
        if process.rank is not None and process.rank in taken:
            twice.append(process)
        elif process.rank is not None:
            taken.add(process.rank)
    for process in twice:
        process.rank = None
    free = (n for n in range(len(ranks) + len(taken) + 1) if n not in taken)
    unknown = [p for p in ranks if p.rank is None]
    for process in unknown:
        process.rank, process.numbered = next(free), True
    if not unknown or len(ranks) == 1:
        return []
    numbers = ranks_words(p.rank for p in unknown if p.rank is not None)
    return [
        text(
            "nothing tells which ranks some processes are: {numbers} is how they are numbered here, in the order of the files",
            numbers=numbers,
        )
    ]


def _place(processes: Sequence[_Process], ranks: Sequence[_Process]) -> list[str]:
    """Workers and other children below their ranks: by their parent, by their file, or to the only rank that waits for a worker."""
    by_pid = {p.pid: p for p in ranks if p.pid}
    lost = []
    for process in processes:
        if process.role not in ("DataLoader worker", "child"):
            continue
        owner = by_pid.get(process.last.parent_pid or -1) or _by_file(process, ranks) or _who_waits(ranks)
        if owner is not None and process.pid:
            owner.children.append(process)
        else:
            lost.append(process)
    if not lost:
        return []
    return [text("{n} of the processes are workers, and nothing tells whose", n=len(lost))]


def _by_file(process: _Process, ranks: Sequence[_Process]) -> _Process | None:
    same = [
        p for p in ranks if p.last.file == process.last.file or (process.rank is not None and p.rank == process.rank)
    ]
    return same[0] if len(same) == 1 else None


def _who_waits(ranks: Sequence[_Process]) -> _Process | None:
    waiting = [
        p
        for p in ranks
        if any(t.training and t.waiting_for and t.waiting_for.kind == "loader" for t in p.last.stacks.threads)
    ]
    return waiting[0] if len(waiting) == 1 else None


# --- one rank ------------------------------------------------------------------------------------------------------


def _rank(rank: int, process: _Process | None, sent: Sent, world_size: int) -> RankEvidence:
    nothing = NotAvailable("a dump does not tell")
    looks = (NOTHING,) if process is None else _looks(rank, process)
    ending = sent.endings.get(rank) if process is None else None
    problem = (
        text("of this rank there is only what its flight recorder had")
        if rank in sent.collectives
        else text("no dump of it was sent")
    )
    return RankEvidence(
        rank,
        world_size,
        local_rank=rank,
        pid=0 if process is None else process.pid,
        host="",
        looks=() if ending is not None else looks,
        activity=nothing,
        pace=nothing,
        collectives=sent.collectives.get(rank, nothing),
        call_sites=sent.sites.get(rank, nothing),
        calls_in_window=nothing,
        environ=nothing,
        ending=ending,
        joining=(None if process is None else process.last.joining) or nothing,
        making=(None if process is None else process.last.making) or nothing,
        soundness=nothing,
        problem=problem if process is None else _why(process.last),
    )


def _why(last: DumpedProcess) -> str:
    if not last.problem:
        return text("only its stacks are known")
    return text("{tool} could not read it: {problem}", tool=last.tool, problem=last.problem)


def _looks(rank: int, process: _Process) -> tuple[Look, ...]:
    """The rank's own looks, each with the processes below it as they were seen then, or last."""
    found = []
    for i, look in enumerate(process.looks):
        below = [(child.looks[min(i, len(child.looks) - 1)], child.role) for child in process.children]
        found.append(Look(float(i), tuple(_of(rank, one.stacks, role) for one, role in ((look, "rank"), *below))))
    return tuple(found)


def _of(rank: int, stacks: ProcessStacks, role: str) -> ProcessStacks:
    return dataclasses.replace(stacks, rank=rank, role=role)
