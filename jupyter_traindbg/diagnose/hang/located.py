"""On which host the blamed ranks run, where a job has several: whoever wants to look for himself must know where to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...language import text
from ...model import Finding
from ...words.ranks import ranks_words
from .case import Case

__all__ = ["several_hosts", "told"]

MOST_HOSTS = 6
"""A finding that blames ranks of more hosts says so of none: it is not about one of them."""


def several_hosts(case: Case) -> bool:
    """Whether ranks of more than one host were seen."""
    return len({view.evidence.host for view in case.views} - {""}) > 1


def told(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, each with the hosts of those it blames among its evidence."""
    if not several_hosts(case):
        return list(findings)
    return [dataclasses.replace(one, evidence=[*one.evidence, *_where(case, one)]) for one in findings]


def _where(case: Case, finding: Finding) -> list[str]:
    hosts: dict[str, list[int]] = {}
    for rank in finding.ranks:
        view = case.by_rank.get(rank)
        if view is not None and view.evidence.host:
            hosts.setdefault(view.evidence.host, []).append(rank)
    if len(hosts) > MOST_HOSTS:
        return []
    return [_line(case, host, ranks) for host, ranks in hosts.items()]


def _line(case: Case, host: str, ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        pid = case.by_rank[ranks[0]].pid
        return text("rank {rank} is process {pid} on {host}", rank=ranks[0], pid=pid, host=host)
    return text("{ranks} are on {host}", ranks=ranks_words(ranks), host=host)
