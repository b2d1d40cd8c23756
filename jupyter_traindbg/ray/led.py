"""Where the waits of a Ray job lead in which nobody moves: from who waits in `ray.get`, by calls and by connections, to their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..attach.ray.hosts import open_hosts
from ..diagnose.ray import RayCase
from ..diagnose.ray import asking as who_asks
from ..errors import TraindbgError
from ..gather.elsewhere import followed
from ..hosts.base import HERE, Call
from ..model import Beside, HostPid, JobEvidence, JobProcess, RankEvidence
from ..outside.raystate import ClusterAddress
from .members import job_processes

__all__ = ["led"]

T = TypeVar("T")
RELAY_S = 0.3


def led(address: ClusterAddress, case: RayCase, ends: float) -> JobEvidence | None:
    """Who waits for a result, each as a rank, and beside them all to whom their waits lead; nobody is entered.

    0.7 s mostly; None where nobody waits so. Raises nothing of its own: a node that gives no answer is left out.
    """
    hosts = open_hosts(address, case.cluster.nodes)
    try:

        def at(process: HostPid) -> HostPid:
            node, pid = process
            return HERE if hosts.is_here(node) else node, pid

        asking = [_asking(case, number, who, at) for number, who in enumerate(who_asks(case))]
        if not asking:
            return None
        known = {
            at(process): replace(one, waits_for=tuple(map(at, one.waits_for)))
            for process, one in job_processes(case.rows).items()
        }
        routes = dict.fromkeys(host for host, _ in known)
        sources = {place: line for one in case.closer.values() for place, line in one.sources.items()}
        evidence = JobEvidence(
            case.workers.target,
            tuple(asking),
            len(asking),
            sources=sources,
            beside={route: Beside() for route in routes},
        )

        def ask(
            look: Callable[..., T],
            wanted: Sequence[Any],
            called: Mapping[str, Mapping[int, JobProcess]],
            timeout: float,
        ) -> Mapping[str, T]:
            name = f"{look.__module__}:{look.__name__}"
            calls: dict[str, Call] = {
                route: (([], wanted, called.get(route, {}), timeout), {})
                for route in routes
                if wanted or route in called
            }
            answers = hosts.run_everywhere(calls, name, deadline_s=timeout + RELAY_S)
            return {route: answer for route, answer in answers.items() if not isinstance(answer, TraindbgError)}

        return followed(evidence, ask, ends - RELAY_S, known)
    finally:
        hosts.close()


def _asking(case: RayCase, number: int, who: str, at: Callable[[HostPid], HostPid]) -> RankEvidence:
    row = case.by_who[who]
    view = case.view(row)
    assert view is not None
    host, _ = at((row.node_id or "", row.pid))
    return replace(view.evidence, rank=number, host=host, who=who)
