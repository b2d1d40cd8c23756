"""From a Ray address to a verdict: the cluster's word, stacks on all nodes, a closer look at who is suspected, and the rules.

0 s      the state API, and a look at the stacks on every node: the rows (`report.gather`)
~1 s     a window of a second over whoever is at something; meanwhile how long such calls usually take, and the ranks of a training
~3 s     the cluster's word again: who has finished calls meanwhile; then the rules, which see all of it (`diagnose.ray`)
~9 s     at most: the same again and again where nothing is wrong, and nothing was seen to move
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..attach.ray.hosts import open_hosts
from ..diagnose import ray as rules
from ..diagnose.ray.merged import with_ranks
from ..model import Diagnosis, JobEvidence, RayCluster, RayWorkers, parse_cluster
from ..outside import raystate
from ..outside.raystate import history
from ..tasks import Task
from . import report
from .led import led

__all__ = ["DEADLINE_S", "closer", "diagnose", "verdict"]

DEADLINE_S = 10.0
GATHER_SHARE = 0.5
WINDOW_S = 1.0
LATER_S = 1.5
RESERVE_S = 0.3
AGAIN_S = 6.0
"""How long a job is looked at again in which nothing was seen to move, and nothing is wrong."""
FEW = 32
"""Of so many processes it is looked whether one trains, whatever Ray says that they are."""
WATCH = "jupyter_traindbg.gather.beside:watch"
_OVERLAP_S, _BEYOND_S = 0.5, 0.2

RankDiagnosis = Callable[[float, RayWorkers], Diagnosis | None]


def diagnose(
    target: str, timeout: float = DEADLINE_S, *, tier: int | None = None, ranks: RankDiagnosis | None = None
) -> Diagnosis:
    """What is wrong with the job (or all running jobs) that `target` names, root cause first; an empty verdict where nothing is.

    `target` is ``ray:JOB@ADDRESS`` or an address. `ranks` diagnoses the trainers among the workers as the ranks of one training, and is
    asked where there are any. 2.5 to 5 s with up to 100 workers, never more than `timeout`. Raises what finding the cluster and asking
    for its state raise: `NoTarget`, `NotPermitted`, `CannotAttach`, `DeadlineExceeded`.
    """
    began = time.monotonic()
    ends = began + timeout - RESERVE_S
    cluster, workers = report.gather(target, tier=tier, timeout=timeout * GATHER_SHARE)
    address = raystate.resolve(parse_cluster(target).address, max(0.5, ends - time.monotonic()))
    asked = _asked(ranks, workers, ends) if _may_train(workers) else None
    case = _case(address, cluster, workers, ends, look=tier != 0, told=lambda: _tells(asked, time.monotonic()))
    if asked is None and any(case.waits_for_ranks(row) for row in case.rows):
        asked = _asked(ranks, workers, ends)  # actors that have made a process group of their own
    of_ranks = asked.quietly(ends + RESERVE_S) if asked is not None else None
    if _tells(asked, ends + RESERVE_S):
        case = replace(case, led=None)  # who of the ranks holds them up leads further
    judged = with_ranks(rules.diagnose(case), of_ranks)
    return replace(judged, target=target, taken_s=time.monotonic() - began)


def verdict(address_text: str, cluster: RayCluster, workers: RayWorkers, timeout: float) -> RayWorkers:
    """`workers` with the verdict on them, after a closer look of 1.5 s or so; as they are where there is no time for it."""
    ends = time.monotonic() + timeout
    if timeout < WINDOW_S + _OVERLAP_S:
        return workers
    address = raystate.resolve(parse_cluster(address_text).address, timeout)
    case = _case(address, cluster, workers, ends, look=True)
    return replace(workers, verdict=tuple(rules.findings(case)))


def _may_train(workers: RayWorkers) -> bool:
    """Whether to ask for ranks at once: Ray Train's workers are some; of few processes it is looked which have an optimizer."""
    running = [row for row in workers.workers if row.pid]
    return any(row.kind == "train" for row in running) or len(running) <= FEW


def _asked(ranks: RankDiagnosis | None, workers: RayWorkers, ends: float) -> Task[Diagnosis | None] | None:
    return None if ranks is None else Task(lambda: ranks(max(1.0, ends - time.monotonic()), workers), "ranks")


def _tells(ranks: Task[Diagnosis | None] | None, ends: float) -> bool:
    """Whether by `ends` the diagnosis of the ranks knows what keeps them from getting on."""
    found = ranks.quietly(ends) if ranks is not None else None
    return found is not None and any(f.severity == "critical" for f in found.findings)


# --- the case ------------------------------------------------------------------------------------------------------


def _case(
    address: raystate.ClusterAddress,
    cluster: RayCluster,
    workers: RayWorkers,
    ends: float,
    *,
    look: bool,
    told: Callable[[], bool] = lambda: False,
) -> rules.RayCase:
    """The look with all that the rules may ask for, or with less as soon as all is `told` otherwise. What does not come in time is left
    out; the rules are made for that.
    """
    job_id = workers.jobs[0].job_id if len(workers.jobs) == 1 else None
    names = rules.methods(cluster, workers)
    usual = Task(lambda: history.durations(address, names, job_id, max(0.5, ends - time.monotonic())), "history")
    wanted = rules.wanted(cluster, workers) if look else {}
    seen = closer(address, cluster, wanted, ends - LATER_S)
    case = rules.RayCase(cluster, workers, closer=seen, calls=usual.quietly(ends) or {})
    if not look:
        return case
    _wait_until_settled(case, ends - LATER_S)
    case = _with_later(case, address, ends)
    if not case.stands_still or rules.findings(case) or told():
        return case
    following = Task(partial(led, address, case, ends), "led")
    return replace(_until_anything_moves(case, address, wanted, ends, told), led=following.quietly(ends))


def _with_later(case: rules.RayCase, address: raystate.ClusterAddress, ends: float) -> rules.RayCase:
    later = Task(lambda: raystate.read(address, None, max(0.5, ends - time.monotonic())), "later")
    return replace(case, later=later.quietly(ends) or case.later)


def _until_anything_moves(
    case: rules.RayCase,
    address: raystate.ClusterAddress,
    wanted: Mapping[str, Sequence[int]],
    ends: float,
    told: Callable[[], bool],
) -> rules.RayCase:
    """Before we have nothing to say of a job that stands still by all signs, it is looked at again: what works for a moment and then waits
    may have waited at every look, and what nodes report of finished calls comes every ten seconds only.
    """
    enough = min(ends - LATER_S, time.monotonic() + AGAIN_S)
    while case.stands_still and not rules.findings(case) and not told() and time.monotonic() < enough:
        seen = closer(address, case.cluster, wanted, ends - LATER_S)
        case = _with_later(replace(case, closer=seen or case.closer), address, ends)
    return case


def _wait_until_settled(case: rules.RayCase, ends: float) -> None:
    """Where a constructor stands still and a few seconds will tell whether that is too long: give it these, if they are there."""
    wait_s = rules.settles_in_s(case)
    elapsed_s = time.time() - case.cluster.taken_at
    if wait_s is not None and 0 < wait_s - elapsed_s < ends - time.monotonic():
        time.sleep(wait_s - elapsed_s + _BEYOND_S)


def closer(
    address: raystate.ClusterAddress, cluster: RayCluster, wanted: Mapping[str, Sequence[int]], ends: float
) -> Mapping[str, JobEvidence]:
    """What the threads of the `wanted` pids, by node, do over a window; without the nodes that could not be asked."""
    left_s = ends - time.monotonic()
    if not wanted or left_s < _OVERLAP_S:
        return {}
    hosts = open_hosts(address, cluster.nodes)
    try:
        calls: dict[str, tuple[Sequence[Any], dict[str, Any]]] = {
            node: ((list(pids), WINDOW_S, max(0.5, left_s - _OVERLAP_S)), {}) for node, pids in wanted.items()
        }
        answers = hosts.run_everywhere(calls, WATCH, deadline_s=left_s)
    finally:
        hosts.close()
    return {node: answer for node, answer in answers.items() if isinstance(answer, JobEvidence)}
