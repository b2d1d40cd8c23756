"""The workers of a Ray cluster, from whoever can tell: the cluster itself (tier 0), stacks (tier 1), agents inside (tier 2)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import TraindbgError
from ..model import NotAvailable, RayCluster, RayJobInfo, RayLook, RayWorker, RayWorkers, Silent, parse_cluster
from ..outside import raystate
from .workers import inside, notes, stacked, starting, states, trouble
from .workers.facts import Facts
from .workers.words import known

if TYPE_CHECKING:
    from ..attach.ray.hosts import RayHosts

__all__ = ["gather"]

DEADLINE_S = 10.0
STATE_SHARE = 0.5
"""So much of the time may go to asking the cluster, which everything else rests on."""
WINDOW_S = 0.4
"""Between the two readings that tell who moves."""
RELAY_S = 0.5
"""What a relayed call may take besides what it does."""
COMING_S = 3.0
MOST_AGENTS = 16
"""So many agents are brought in unasked: into those in trouble, one for each place."""
COMING = "jupyter_traindbg.outside.ray_coming:on_the_way"
LOOK = "jupyter_traindbg.outside.standing:look"
ASK = "jupyter_traindbg.attach.asking:ask"
WITH_STACK = ("in __init__", "running", "blocked", "not known", "starting")

Call = tuple[Sequence[Any], Mapping[str, Any]]
Key = tuple[str, int]
"""A process: its node and its pid."""
Questions = list[tuple[str, dict[str, Any]]]


def gather(
    address: str = "auto",
    *,
    job: str | None = None,
    progress: Sequence[str] = (),
    tier: int | None = None,
    timeout: float = DEADLINE_S,
) -> tuple[RayCluster, RayWorkers]:
    """The facts of a whole cluster, and the rows of `job` (an id or a submission id; None: of all that run).

    `address` is an ADDRESS or a target, ``ray:JOB@ADDRESS``. Up to `tier`: 0 asks the cluster alone (0.1 s), 1 reads stacks on every node
    (0.5 s on this machine, 2 s more for the first helper on another one), 2 asks agents in all workers; None brings agents (0.4 s) into
    those alone that a stack tells too little of. `progress` are counters such as ``self.games``, of agents, too. Raises what
    `jupyter_traindbg.outside.raystate` raises; whatever fails after that is in the result's ``silent`` and ``notes``.
    """
    began = time.monotonic()
    ends = began + timeout
    asked = parse_cluster(address)
    place = raystate.resolve(asked.address, timeout * STATE_SHARE)
    cluster = raystate.read(place, None, max(0.5, (ends - time.monotonic()) * STATE_SHARE))
    named = job or asked.id
    chosen = raystate.pick_job(cluster, named) if named else None
    facts = Facts(cluster, chosen.job_id if chosen else None)
    seen = _Look(facts, states.rows(facts, None if chosen is None else {chosen.job_id or ""}), ends)
    if tier is None or tier >= 1:
        seen.closer(place, progress, tier)
    ordered = trouble.in_order(facts, seen.rows)
    workers = RayWorkers(
        target=address,
        address=cluster.address or cluster.dashboard,
        ray_version=cluster.ray_version,
        jobs=_shown(cluster, chosen),
        nodes=cluster.nodes,
        workers=tuple(ordered),
        taken_s=time.monotonic() - began,
        source=cluster.source,
        tier=max((row.tier for row in ordered), default=0),
        silent=tuple(seen.silent.values()),
    )
    return cluster, replace(workers, notes=notes.of(cluster, workers, tier, seen.ways))


def _shown(cluster: RayCluster, chosen: RayJobInfo | None) -> tuple[RayJobInfo, ...]:
    return tuple(job for job in cluster.jobs if job.running) if chosen is None else (chosen,)


class _Look:
    """The rows, as far as they are known; who did not answer; and how the nodes were reached."""

    def __init__(self, facts: Facts, rows: Sequence[RayWorker], ends: float) -> None:
        self.facts, self.ends = facts, ends
        self.rows = starting.with_environments(facts, rows)
        self.silent: dict[Key, Silent] = {}
        self.ways: tuple[str, ...] = ()

    def closer(self, place: raystate.ClusterAddress, progress: Sequence[str], tier: int | None) -> None:
        """Tiers 1 and, where it is asked for or there is something to learn, 2."""
        from ..attach.ray.hosts import open_hosts

        hosts = open_hosts(place, self.facts.cluster.nodes)
        try:
            self._look_for_coming(hosts)
            self._look_at_stacks(hosts)
            if tier is None or tier >= 2:
                self._ask_agents(hosts, _questions(trouble.in_order(self.facts, self.rows), progress, tier is not None))
            self.ways = hosts.tier
        finally:
            hosts.close()

    def _look_for_coming(self, hosts: RayHosts) -> None:
        """The processes that are on their way, of which Ray says nothing, and what their environments are built by."""
        if not any(row.state == "starting" and not row.pid for row in self.rows):
            return
        left_s = min(COMING_S, self._left_s())
        nodes = [node.node_id for node in self.facts.cluster.nodes if node.alive]
        calls: dict[str, Call] = {node: ((node, left_s), {}) for node in nodes}
        answers = hosts.run_everywhere(calls, COMING, deadline_s=left_s + RELAY_S)
        good = [answer for answer in answers.values() if not isinstance(answer, TraindbgError)]
        if good:
            coming, builds = ([one for answer in good for one in answer[part]] for part in (0, 1))
            self.rows = starting.with_coming(starting.with_builds(self.facts, self.rows, builds), coming)

    def _look_at_stacks(self, hosts: RayHosts) -> None:
        """Those first that may need it most: where time runs out, it is the others that lack a stack."""
        wanted: defaultdict[str, list[int]] = defaultdict(list)
        for row in sorted(self.rows, key=lambda row: (row.state != "in __init__", -known(row.since_s))):
            if row.pid and row.node_id and row.state in WITH_STACK:
                wanted[row.node_id].append(row.pid)
        left_s = self._left_s(RELAY_S)
        calls: dict[str, Call] = {node: ((pids, WINDOW_S, left_s), {}) for node, pids in wanted.items()}
        looks = _by_process(hosts.run_everywhere(calls, LOOK, deadline_s=left_s + RELAY_S), wanted)
        self.rows = [self._with_look(row, looks.get(_key(row))) for row in self.rows]

    def _with_look(self, row: RayWorker, answer: Any) -> RayWorker:
        if isinstance(answer, RayLook):
            return stacked.with_look(self.facts, row, answer)
        if answer is None:
            return row
        self._keep_silence(row, answer)
        return replace(row, where=NotAvailable(answer.cause))

    def _ask_agents(self, hosts: RayHosts, questions: Mapping[Key, Questions]) -> None:
        by_node: defaultdict[str, dict[int, Questions]] = defaultdict(dict)
        for (node, pid), asked in questions.items():
            by_node[node][pid] = asked
        if not by_node:
            return
        left_s = self._left_s()
        calls: dict[str, Call] = {node: ((asked, left_s), {}) for node, asked in by_node.items()}
        answers = _by_process(hosts.run_everywhere(calls, ASK, deadline_s=left_s + RELAY_S), by_node)
        self.rows = [self._with_answers(row, answers.get(_key(row))) for row in self.rows]

    def _with_answers(self, row: RayWorker, answer: Any) -> RayWorker:
        if isinstance(answer, Mapping):
            return inside.with_answers(self.facts, row, answer)
        if answer is not None:
            self._keep_silence(row, answer)
        return row

    def _keep_silence(self, row: RayWorker, error: TraindbgError) -> None:
        self.silent[_key(row)] = Silent(row.rank, row.pid, f"{row.who}: {error.cause}", error.next_step)

    def _left_s(self, reserve_s: float = 0.0) -> float:
        return max(0.3, self.ends - time.monotonic() - RELAY_S - reserve_s)


def _key(row: RayWorker) -> Key:
    return row.node_id or "", row.pid


def _by_process(answers: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[Key, Any]:
    """Each process's answer, or the error that stands for it."""
    found: dict[Key, Any] = {}
    for node, pids in asked.items():
        answer = answers[node]
        for pid in pids:
            found[node, pid] = answer if isinstance(answer, TraindbgError) else answer.get(pid)
    return found


def _questions(rows: Sequence[RayWorker], progress: Sequence[str], everybody: bool) -> dict[Key, Questions]:
    """What to ask of which agent. Unless `everybody` is asked, those only of whom a stack tells too little, one for each place."""
    asked: dict[Key, Questions] = {}
    places: set[tuple[str, str]] = set()
    for row in rows:
        if row.tier < 1 or not row.pid or _key(row) in asked:
            continue
        place = row.class_name or row.kind, str(row.where)
        if everybody or (_tells_too_little(row) and place not in places and len(places) < MOST_AGENTS):
            places.add(place)
            asked[_key(row)] = inside.questions(row, progress)
        elif progress and row.kind != "driver":
            asked[_key(row)] = inside.counters(progress)
    return asked


def _tells_too_little(row: RayWorker) -> bool:
    """In trouble of its own making; or in coroutines, which are on no stack; or waiting for results that none of its own calls makes."""
    in_coroutines = row.state == "running" and row.kind == "actor" and (not row.stack or stacked.in_event_loop(row))
    return row.trouble >= trouble.STANDS or in_coroutines or (row.state == "blocked" and not row.waits_for)
