"""What NCCL itself says, through its RAS service: ranks on other hosts, too, where no agent of ours looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...language import text
from ...model import Finding, NotAvailable, RasCommunicator, RasRank, rank_subjects
from ...words.ranks import ranks_words
from .case import Case, Hit

REFERENCE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html"
_GONE = frozenset({"dead", "silent", "aborted", "failed"})


def rule(case: Case) -> list[Hit]:
    """Of a job that stands still: ranks that NCCL has lost, else those that are behind in a collective of their communicator."""
    report = case.evidence.ras
    if isinstance(report, NotAvailable) or not case.overdue or not case.waiting:
        return []
    hits = []
    for communicator in report.communicators:
        number = _numbers(case, communicator)
        gone = [r for r in communicator.ranks if r.state in _GONE and r.rank in number]
        hits += [_gone(communicator, gone, number)] if gone else _behind(communicator, number)
    return hits


def _numbers(case: Case, communicator: RasCommunicator) -> Mapping[int, int]:
    """The job's ranks by the communicator's: equal where it spans the job, else told by their processes."""
    if communicator.size == case.evidence.world_size:
        return {r.rank: r.rank for r in communicator.ranks}
    by_pid = {v.pid: v.rank for v in case.views if v.pid}
    return {r.rank: by_pid[r.pid] for r in communicator.ranks if r.pid in by_pid}


def _gone(communicator: RasCommunicator, gone: Sequence[RasRank], number: Mapping[int, int]) -> Hit:
    ranks = sorted(number[r.rank] for r in gone)
    finding = Finding(
        "rank_ended",
        "critical",
        text(
            "NCCL has lost {ranks}: the process has ended, hangs, or its host cannot be reached",
            ranks=ranks_words(ranks),
        ),
        rank_subjects(ranks),
        None,
        [
            text(
                "RAS, communicator {name}: rank {rank} (host {host}, pid {pid}) is {state}",
                name=communicator.name,
                rank=r.rank,
                host=r.host,
                pid=r.pid,
                state=r.state,
            )
            for r in gone[:8]
        ],
        text("The others wait for it in a collective that cannot end."),
        [
            text(
                "Look at that host: `ssh {host}`, then `traindbg diagnose {pid}`; if the process is gone, see its log.",
                host=gone[0].host,
                pid=gone[0].pid,
            )
        ],
        reference=REFERENCE,
        confidence="medium",
    )
    return Hit(finding, ranks)


def _behind(communicator: RasCommunicator, number: Mapping[int, int]) -> list[Hit]:
    """Counts are issued operations: who has fewer than the others holds them up."""
    hits = []
    for operation in sorted({name for r in communicator.ranks for name in r.counts}):
        counts = {number[r.rank]: r.counts.get(operation, 0) for r in communicator.ranks if r.rank in number}
        most = max(counts.values(), default=0)
        late = sorted(rank for rank, n in counts.items() if n < most)
        if late and len(late) < len(counts):
            hits.append(_late(communicator, operation, counts, late, most))
    return hits


def _late(
    communicator: RasCommunicator, operation: str, counts: Mapping[int, int], late: Sequence[int], most: int
) -> Hit:
    finding = Finding(
        "collective_not_issued",
        "critical",
        text(
            "{late} issued fewer {operation} than the others on communicator {name}",
            late=ranks_words(late).capitalize(),
            operation=operation,
            name=communicator.name,
            late2=ranks_words(late),
        ),
        rank_subjects(late),
        None,
        [
            text("RAS: rank {rank} has issued {counts}, the others {most}", rank=rank, counts=counts[rank], most=most)
            for rank in late[:8]
        ],
        text("It does something else, or has left a call out, while the others wait in it."),
        [text("Look at what it does: `traindbg stacks` on its host.")],
        reference=REFERENCE,
        confidence="medium",
    )
    return Hit(finding, late)
