"""Collectives that are answered by other ones than their own: by the lines from which the ranks issued what has the same number."""

from __future__ import annotations

from ...language import counted, later, text
from ...model import CallSites, NotAvailable, RankCollectives
from ...words.ranks import ranks_words
from ..collectives import mispaired
from ..hang.case import Case, Hit

__all__ = ["CODES", "EXPLAINS", "TOPIC", "VERB", "rule", "words"]

TOPIC = later("pairing of collectives")
VERB = "nccl-check"
CODES = frozenset({"collective_mispaired"})
EXPLAINS = {
    "collective_mispaired": (
        "unequal_steps",
        "collective_mismatch",
        "collective_shape_mismatch",
        "collective_order",
        "collective_not_issued",
        "straggler",
    )
}
"""Ranks that are out of step come to different ends, and who waits for whom at a collective means little."""


def rule(case: Case) -> list[Hit]:
    """The ranks that are out of step, of each group: in a job that stands still, the reason why they wait for different calls."""
    stuck = bool(case.overdue and case.waiting)
    records, world_size = _records(case), case.evidence.world_size
    found = mispaired.findings(records, world_size, _sites(case), case.evidence.forks, stuck=stuck)
    return [Hit(finding, finding.ranks) for finding in found]


def words(case: Case) -> str | NotAvailable:
    """How many calls were compared, or why none."""
    if case.evidence.world_size < 2:
        return text("one process alone")
    if case.over:
        return NotAvailable(text("the job has ended"))
    sites = _sites(case)
    compared = mispaired.count(_records(case), case.evidence.world_size, sites)
    if compared:
        ranks = ranks_words(sorted(sites))
        return counted(
            "{compared} call of {ranks} compared, line by line",
            "{compared} calls of {ranks} compared, line by line",
            compared,
            compared=compared,
            ranks=ranks,
        )
    reasons = [s.reason for v in case.views if isinstance(s := v.evidence.call_sites, NotAvailable)]
    return NotAvailable(reasons[0] if reasons else text("no call was made by two ranks"))


def _sites(case: Case) -> dict[int, CallSites]:
    return {v.rank: s for v in case.views if isinstance(s := v.evidence.call_sites, CallSites)}


def _records(case: Case) -> list[RankCollectives]:
    return [r for v in case.views if isinstance(r := v.evidence.collectives, RankCollectives)]
