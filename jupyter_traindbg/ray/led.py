"""Where the waits of a Ray job lead in which nobody moves: from who waits in `ray.get`, by calls and by connections, to their end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
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
Called = Mapping[str, Mapping[int, JobProcess]]
RELAY_S = 0.3


def led(address: ClusterAddress, case: RayCase, ends: float) -> JobEvidence | None:
    """Who waits for a result, each as a rank, and beside them all to whom their waits lead; nobody is entered.

    0.7 s mostly; None where nobody waits so. Raises nothing of its own: a node that gives no answer is left out.
    """
    hosts = open_hosts(address, case.cluster.nodes)
    try:
        names = {HERE: socket.gethostname()} | {
            node.node_id: f"node {case.node_name(node.node_id)}" for node in case.living_nodes
        }

        def route(node_id: str) -> str:
            return HERE if hosts.is_here(node_id) else node_id

        def at(process: HostPid) -> HostPid:
            node_id, pid = process
            return names.get(route(node_id), node_id), pid

        asking = [_asking(case, number, who, at) for number, who in enumerate(who_asks(case))]
        if not asking:
            return None
        told = job_processes(case.rows)
        known = {at(one): replace(about, waits_for=tuple(map(at, about.waits_for))) for one, about in told.items()}
        routes = dict.fromkeys(route(node_id) for node_id, _ in told)

        def ask(look: Callable[..., T], wanted: Sequence[Any], called: Called, timeout: float) -> Mapping[str, T]:
            calls: dict[str, Call] = {
                one: (([], wanted, called.get(names.get(one, one), {}), timeout), {})
                for one in routes
                if wanted or names.get(one, one) in called
            }
            name = f"{look.__module__}:{look.__name__}"
            answers = hosts.run_everywhere(calls, name, deadline_s=timeout + RELAY_S)
            good = {one: answer for one, answer in answers.items() if not isinstance(answer, TraindbgError)}
            return {names.get(one, one): answer for one, answer in good.items()}

        return followed(_evidence(case, asking, known), ask, ends - RELAY_S, known)
    finally:
        hosts.close()


def _evidence(case: RayCase, asking: Sequence[RankEvidence], known: Iterable[HostPid]) -> JobEvidence:
    return JobEvidence(
        case.workers.target,
        tuple(asking),
        len(asking),
        sources={place: line for one in case.closer.values() for place, line in one.sources.items()},
        beside={host: Beside() for host, _ in known},
    )


def _asking(case: RayCase, number: int, who: str, at: Callable[[HostPid], HostPid]) -> RankEvidence:
    row = case.by_who[who]
    view = case.view(row)
    assert view is not None
    host, _ = at((row.node_id or "", row.pid))
    return replace(view.evidence, rank=number, host=host, who=who)
