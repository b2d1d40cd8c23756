"""Calls that a scheduler has handed on (Ray), of which no host sees anything: who waits for the result of one, and who runs it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..model import Beside, Channel, Channels, HostPid, JobEvidence, JobProcess, Partner, Thread

__all__ = ["called_by_them", "with_calls"]

Processes = Mapping[HostPid, JobProcess]
"""Those of a job, as its scheduler knows them, by their hosts in the evidence and their pids."""
_FOR_A_RESULT = ("ray", "coroutine")


def with_calls(seen: JobEvidence, processes: Processes) -> JobEvidence:
    """The evidence, with each call for whose result a thread waits as a channel, and with the names that processes beside the job have in
    it. Linear in the number of threads.
    """
    if not processes:
        return seen
    ranks: dict[str, dict[int, Sequence[Thread]]] = {}
    for one in seen.ranks:
        own = [p for look in one.looks[-1:] for p in look.processes if p.pid == one.pid]
        ranks.setdefault(one.host, {})[one.pid] = own[0].threads if own else ()
    beside = {host: _on(host, one, ranks.get(host, {}), processes) for host, one in seen.beside.items()}
    return replace(seen, beside=beside)


def called_by_them(seen: JobEvidence, processes: Processes) -> Iterator[HostPid]:
    """Who was called by those that wait for the results, and on by these, the nearest first."""
    ahead = deque(
        callee
        for host, beside in seen.beside.items()
        for channels in (*beside.channels.values(), *(partner.channels for partner in beside.partners.values()))
        for one in channels.open
        if one.kind == "call"
        for callee in one.beyond(host)
    )
    passed: set[HostPid] = set()
    while ahead:
        process = ahead.popleft()
        if process in processes and process not in passed:
            passed.add(process)
            ahead += processes[process].waits_for
            yield process


def _on(host: str, beside: Beside, ranks: Mapping[int, Sequence[Thread]], processes: Processes) -> Beside:
    """What is known on one host, with the calls of its ranks and of the processes beside them."""
    calling = {
        pid: _calling(beside.channels.get(pid, Channels()), host, process, threads)
        for pid, threads in ranks.items()
        if (process := processes.get((host, pid))) is not None and process.waits_for and _waits(threads)
    }
    partners = {pid: _named(partner, host, processes.get((host, pid))) for pid, partner in beside.partners.items()}
    return replace(beside, channels={**beside.channels, **calling}, partners=partners)


def _named(partner: Partner, host: str, process: JobProcess | None) -> Partner:
    if process is None:
        return partner
    threads = partner.stacks.threads if partner.stacks is not None else ()
    own = _calling(partner.channels, host, process, threads)
    return replace(partner, channels=own, who=process.who, trains=partner.trains and not process.drives)


def _calling(own: Channels, host: str, process: JobProcess, threads: Sequence[Thread]) -> Channels:
    """The channels of a process with its calls, at which those of its threads wait that wait for a result."""
    calls = {
        (key := f"call {there} {pid}"): Channel("call", key, key, (pid,), host="" if there == host else there)
        for there, pid in process.waits_for
    }
    waits = _waits(threads)
    if not calls or not waits:
        return own
    others = [one for one in own.open if one.key not in calls]
    at = {tid: [key for key in keys if key not in calls] for tid, keys in own.at.items()}
    return Channels((*others, *calls.values()), {**at, **{tid: (*at.get(tid, ()), *calls) for tid in waits}})


def _waits(threads: Sequence[Thread]) -> list[int]:
    """The threads that wait for a result, by their tids."""
    return [t.tid for t in threads if isinstance(t.tid, int) and t.waiting_for and t.waiting_for.kind in _FOR_A_RESULT]
