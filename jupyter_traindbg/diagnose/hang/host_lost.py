"""A host of the job that gives no answer: what its ranks do is not known. Where others wait, or have lost a peer, it comes first."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import Finding, LostHost, rank_subjects, things
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .ended import lost_a_peer

__all__ = ["EXPLAINS", "rule"]

EXPLAINS = {
    "host_unreachable": (
        "init_incomplete",
        "rank_ended",
        "collective_not_issued",
        "collective_unfinished",
        "hang_unexplained",
    )
}


def rule(case: Case) -> list[Hit]:
    lost = case.evidence.lost_hosts
    if not lost:
        return []
    ranks = sorted({rank for host in lost for rank in host.ranks} or {v.rank for v in case.roles("not seen")})
    victims = [v for v in case.roles("ended") if lost_a_peer(v)]
    waiting = [v for v in case.waiting if case.overdue]
    finding = Finding(
        "host_unreachable",
        "critical" if victims or waiting else "warning",
        _title(lost, ranks),
        rank_subjects(ranks) if ranks else things(host.name for host in lost),
        None,
        [*(_reason(host) for host in lost), *_of_others(case, victims, waiting)],
        text("The host is down, cut off or overloaded, or its sshd is. What its ranks do cannot be seen."),
        [
            text(
                "See whether {host} answers: `ssh {host}`, its console, what your scheduler says of it.",
                host=lost[0].name,
            ),
            text(
                "If it is gone, the others will not get on: `traindbg checkpoint DIR` saves what they hold before you stop the job."
            )
            if waiting
            else text("Ask again when it answers; the other hosts are judged by themselves meanwhile."),
        ],
        confidence="medium",
    )
    return [Hit(finding, [*ranks, *(v.rank for v in victims)])]


def _reason(host: LostHost) -> str:
    return host.reason if host.name in host.reason else f"{host.name}: {host.reason}"


def _title(lost: Sequence[LostHost], ranks: Sequence[int]) -> str:
    hosts = text(", ").join(host.name for host in lost)
    if len(lost) == 1:
        if not ranks:
            return text("Host {host} gives no answer", host=hosts)
        return text(
            "Host {host} gives no answer: what {ranks} does there is not known", host=hosts, ranks=ranks_words(ranks)
        )
    if not ranks:
        return text("Hosts {hosts} give no answer", hosts=hosts)
    return text(
        "Hosts {hosts} give no answer: what {ranks} do there is not known", hosts=hosts, ranks=ranks_words(ranks)
    )


def _of_others(case: Case, victims: Sequence[View], waiting: Sequence[View]) -> list[str]:
    said = []
    if victims:
        names = ranks_words(v.rank for v in victims)
        said.append(text("{names}: lost the connection to a rank that had ended", names=names))
    return [*said, *(case.others_wait() if waiting else [])]
