"""Who is to be there: ranks that never came, that came twice, or that do not expect the same number of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...language import text
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .joiners import Joiner, absent_ranks, connections, hit, interfaces, point_words, preflight, several_hosts
from .words import alike

__all__ = ["duplicates", "never_came", "not_each_other", "unlike_world_sizes"]


def duplicates(case: Case, joiners: Sequence[Joiner]) -> Hit | None:
    """Two processes that both say they are the same rank."""
    groups = alike([j for j in joiners if j.told.rank is not None], lambda j: j.told.rank)
    twins = next((same for same in groups if len(same) > 1), None)
    if twins is None:
        return None
    number = twins[0].told.rank
    pids = ", ".join(str(j.view.pid) for j in twins)
    blamed = [j.rank for j in twins if j.rank != number] or [j.rank for j in twins]
    absent = absent_ranks(joiners)
    return hit(
        joiners,
        blamed,
        title=text(
            "{count} processes all join as rank {number} (pids {pids})", count=len(twins), number=number, pids=pids
        ),
        evidence=[text("nobody joins as {absent}", absent=ranks_words(absent))] if absent else [],
        cause=text(
            "Each process must have a rank of its own. Over several hosts LOCAL_RANK repeats on each of "
            "them; RANK does not."
        ),
        next_steps=[
            text('Leave `rank=` out of init_process_group, so that RANK counts, or pass int(os.environ["RANK"]).')
        ],
    )


def unlike_world_sizes(case: Case, joiners: Sequence[Joiner]) -> Hit | None:
    """Ranks that do not expect the same number of ranks."""
    groups = alike([j for j in joiners if j.told.world_size], lambda j: j.told.world_size)
    if len(groups) < 2:
        return None
    right = max(groups, key=lambda same: (len(same), same[0].told.world_size == case.evidence.world_size))
    wrong = [j for same in groups if same is not right for j in same]
    blamed, verb = [j.rank for j in wrong], "expect" if len(wrong) > 1 else "expects"
    return hit(
        joiners,
        blamed,
        title=text(
            "{blamed} {verb} {world_size} ranks, the others {world_size2}",
            blamed=ranks_words(blamed),
            verb=verb,
            world_size=wrong[0].told.world_size,
            world_size2=right[0].told.world_size,
        ),
        evidence=[],
        cause=text("All ranks must be given the same world size."),
        next_steps=[
            text("Leave `world_size=` out of init_process_group, so that WORLD_SIZE from the launcher counts.")
        ],
    )


def never_came(case: Case, joiners: Sequence[Joiner]) -> Hit | None:
    """Fewer ranks than the world size: never started, elsewhere, or gone without a word."""
    present = {v.rank for v in case.views if v.role not in ("ended", "not seen")}
    absent = [rank for rank in absent_ranks(joiners) if rank not in present]
    if not absent:
        return None
    size = max(j.told.world_size or 0 for j in joiners)
    started = case.evidence.nproc
    if several_hosts(case, joiners):
        return _not_from_other_hosts(joiners, size, absent)
    if started is not None and started < size and len(present) == started:
        return _world_size_too_big(joiners, size, started, absent)
    return hit(
        joiners,
        absent,
        title=text(
            "{absent} never came: {count} of {size} ranks wait in init_process_group",
            absent=ranks_words(absent),
            count=len(joiners),
            size=size,
        ),
        evidence=[*point_words([j for j in joiners if j.stage == "store"][:1]), *_gpus(case, joiners[0].view)],
        cause=text("init_process_group returns when all ranks of the world are there, and not before."),
        next_steps=[
            text(
                "Start them, or make the world size what was started. See their log: they may have ended before "
                "they joined."
            ),
            preflight(joiners[0]),
        ],
    )


def _gpus(case: Case, view: View) -> list[str]:
    host = case.host(view)
    if host is None or not isinstance(host.gpus, int):
        return []
    return [text("this host has {gpus} GPUs", gpus=host.gpus)]


def _not_from_other_hosts(joiners: Sequence[Joiner], size: int, absent: Sequence[int]) -> Hit:
    """They may be on their way: a warning, and not for sure."""
    found = hit(
        joiners,
        absent,
        title=text(
            "{absent} of other hosts have not come: {count} of {size} ranks wait for them here",
            absent=ranks_words(absent),
            count=len(joiners),
            size=size,
        ),
        evidence=point_words([j for j in joiners if j.stage == "store"][:1]),
        cause=text(
            "The ranks of this host are all there. The others were not started, have failed, or look for the "
            "job at another address."
        ),
        next_steps=[
            text(
                "See on those hosts whether the job runs there and what it waits for: `traindbg targets`, then "
                "`traindbg diagnose`."
            ),
            preflight(joiners[0]),
        ],
        confidence="medium",
    )
    return replace(found, finding=replace(found.finding, severity="warning"))


def _world_size_too_big(joiners: Sequence[Joiner], size: int, started: int, absent: Sequence[int]) -> Hit:
    return hit(
        joiners,
        absent,
        title=text(
            "The world size is {size}, but {started} processes were started: {absent} cannot come",
            size=size,
            started=started,
            absent=ranks_words(absent),
        ),
        evidence=[text("the launcher started {started} processes on this host", started=started)],
        cause=text("The program gives init_process_group a world size of its own, or WORLD_SIZE was set by hand."),
        next_steps=[
            text(
                "Start {size} processes (`--nproc-per-node {size}`), or leave `world_size=` to the launcher.", size=size
            )
        ],
    )


def not_each_other(case: Case, joiners: Sequence[Joiner]) -> Hit | None:
    """All are past the store and try to connect to each other."""
    trying = [
        (j, c.remote_host)
        for j in joiners
        for c in connections(j.view)
        if c.connecting and c.remote_port != j.told.port
    ]
    named = sorted({name for j in joiners for name in interfaces(j.view.evidence)})
    if not trying and not (named and all(j.stage == "mesh" for j in joiners)):
        return None
    blamed = sorted({j.rank for j, _ in trying}) or [j.rank for j in joiners]
    to = ", ".join(sorted({host for _, host in trying})[:4])
    return hit(
        joiners,
        blamed,
        title=text("The ranks have found the store but cannot reach each other: wrong network interface"),
        evidence=[text("no answer from {to}", to=to)] * bool(trying)
        + [text("set: {named}", named=", ".join(named))] * bool(named),
        cause=text(
            "Each rank offers the others the address of one interface. Where that is the loopback or a "
            "bridge of containers, no other host gets there."
        ),
        next_steps=[
            text(
                "Name the interface of the network that the hosts share: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME "
                "(`ip -br addr`); the host's own name should not resolve to 127.0.1.1."
            )
        ],
        confidence="high" if trying else "low",
    )
