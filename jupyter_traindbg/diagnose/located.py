"""On which host the blamed ranks run, where a job has several: whoever wants to look for himself must know where to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ..language import text
from ..model import Finding
from ..words.ranks import ranks_words

__all__ = ["Places", "several_hosts", "told"]

MOST_HOSTS = 6
"""A finding that blames ranks of more hosts says so of none: it is not about one of them."""

Places = Mapping[int, tuple[str, int]]
"""The host and the pid of each rank; a host without a name is not known."""


def several_hosts(places: Places) -> bool:
    """Whether ranks of more than one host are known."""
    return len({host for host, _ in places.values()} - {""}) > 1


def told(findings: Sequence[Finding], places: Places) -> list[Finding]:
    """The findings, each with the hosts of those it blames among its evidence."""
    if not several_hosts(places):
        return list(findings)
    return [dataclasses.replace(one, evidence=[*one.evidence, *_where(one, places)]) for one in findings]


def _where(finding: Finding, places: Places) -> list[str]:
    hosts: dict[str, list[int]] = {}
    for rank in finding.ranks:
        host, _ = places.get(rank, ("", 0))
        if host:
            hosts.setdefault(host, []).append(rank)
    if len(hosts) > MOST_HOSTS:
        return []
    return [_line(places, host, ranks) for host, ranks in hosts.items()]


def _line(places: Places, host: str, ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return text("rank {rank} is process {pid} on {host}", rank=ranks[0], pid=places[ranks[0]][1], host=host)
    return text("{ranks} are on {host}", ranks=ranks_words(ranks), host=host)
