"""The job never begins: ranks wait in ``init_process_group`` for others that do not come, or that cannot be reached.

Who hangs in which stage of joining, what it was told, and how its sockets are, says what is wrong. torch itself only writes a line to
its log now and then: a client tries again and again until the time-out of 5 to 30 minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...language import text
from ...model import MeetingPoint, NotAvailable
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .joiners import (
    Joiner,
    hit,
    holder_words,
    interfaces,
    joiners,
    launcher_listens,
    outcome,
    place_words,
    point_words,
    preflight,
)
from .membership import duplicates, never_came, not_each_other, unlike_world_sizes
from .words import alike

__all__ = ["rule"]

Cause = Callable[[Case, Sequence[Joiner]], Hit | None]


def rule(case: Case) -> list[Hit]:
    """At most one verdict: why the process group does not come about. None where another rule has the deeper reason: a rank has died of
    something else, or is alive and has not come as far as ``init_process_group``.
    """
    joining = joiners(case)
    if not joining:
        return []
    found = _first(_TOLD_WRONG, case, joining)
    if found is None and not _died_of_something_else(case) and not _on_their_way(case, joining):
        found = _first(_NOT_TOGETHER, case, joining)
    return [] if found is None else [found]


def _first(causes: Sequence[Cause], case: Case, joining: Sequence[Joiner]) -> Hit | None:
    return next((found for cause in causes if (found := cause(case, joining)) is not None), None)


def _died_of_something_else(case: Case) -> bool:
    for view in case.roles("ended"):
        ending = view.evidence.ending
        if ending is not None and (ending.last_lines or not _unknown(ending.exit_code) or not _unknown(ending.signal)):
            return True
    return False


def _unknown(value: object) -> bool:
    return isinstance(value, NotAvailable)


def _on_their_way(case: Case, joining: Sequence[Joiner]) -> list[View]:
    """Living ranks that have neither joined nor are about to."""
    there = {j.rank for j in joining}
    return [v for v in case.views if v.rank not in there and v.role not in ("ended", "not seen") and not _has_joined(v)]


def _has_joined(view: View) -> bool:
    collectives = view.evidence.collectives
    return not isinstance(collectives, NotAvailable) and bool(collectives.groups)


# --- what they were told -------------------------------------------------------------------------------------------


def _somebody_died(case: Case, joining: Sequence[Joiner]) -> Hit | None:
    """A rank whose last words say that it could not even begin."""
    for view in case.roles("ended"):
        ending = view.evidence.ending
        lines = ending.last_lines if ending is not None else ()
        for pattern, build in _LAST_WORDS:
            line = next((line for line in reversed(lines) if pattern.search(line)), None)
            if line is not None:
                said = text("last words of rank {rank}: {line}", rank=view.rank, line=line.strip())
                return build(case, joining, view, said)
    return None


def _port_taken(case: Case, joining: Sequence[Joiner], dead: View, said: str) -> Hit:
    point = next((j.point for j in joining if j.point is not None), None)
    port = next((j.told.port for j in joining if j.told.port), None)
    return _port_hit(joining, port, point, [dead.rank], [said])


def _port_hit(
    joining: Sequence[Joiner], port: int | None, point: MeetingPoint | None, blamed: Sequence[int], more: Sequence[str]
) -> Hit:
    holder = holder_words(point) if point is not None and point.holder_pid else text("another program")
    return hit(
        joining,
        blamed,
        title=text("The job cannot begin: port {port} is taken by {holder}", port=port, holder=holder),
        evidence=more,
        cause=text(
            "The store of a job has to listen at MASTER_PORT. Something else does, often what is left of an "
            "earlier run, or another job with the same default port."
        ),
        next_steps=[
            text("See who it is: `ss -ltnp 'sport = :{port}'`.", port=port),
            text(
                "Stop it if it is a leftover, or start with another --master-port; `torchrun --standalone` finds "
                "a free one by itself."
            ),
        ],
    )


def _no_interface(case: Case, joining: Sequence[Joiner], dead: View, said: str) -> Hit:
    names = interfaces(dead.evidence)
    which = ", ".join(names) or text("the interface that was named")
    return hit(
        joining,
        [dead.rank],
        title=text("rank {rank} has no such network interface: {which}", rank=dead.rank, which=which),
        evidence=[said],
        cause=text(
            "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME are find-or-fail. Names differ between machines, and "
            "inside containers."
        ),
        next_steps=[
            text(
                "Unset it: the default is right on most machines. Where it is not, take a name from `ip -br "
                "addr` on that host."
            )
        ],
    )


def _too_few_gpus(case: Case, joining: Sequence[Joiner], dead: View, said: str) -> Hit:
    host = case.host(dead)
    here = case.evidence.nproc or len(case.views)
    have = (
        text("{gpus} GPUs", gpus=host.gpus) if host is not None and isinstance(host.gpus, int) else text("fewer GPUs")
    )
    return hit(
        joining,
        [dead.rank],
        title=text("{here} ranks on a machine with {have}", here=here, have=have),
        evidence=[said],
        cause=text(
            "With NCCL each rank needs a GPU of its own; a local rank beyond the last GPU fails at its first CUDA call."
        ),
        next_steps=[
            text(
                "Start as many processes as there are GPUs (`--nproc-per-node gpu`), and look at CUDA_VISIBLE_DEVICES."
            )
        ],
    )


_LAST_WORDS: Sequence[tuple[re.Pattern[str], Callable[[Case, Sequence[Joiner], View, str], Hit]]] = (
    (re.compile(r"EADDRINUSE|[Aa]ddress already in use"), _port_taken),
    (re.compile(r"Unable to find address for|no socket interface found|Unable to find interface"), _no_interface),
    (re.compile(r"invalid device ordinal|Duplicate GPU detected|device_id .* is out of range"), _too_few_gpus),
)


def _different_places(case: Case, joining: Sequence[Joiner]) -> Hit | None:
    """Some were told another address or port than the rest."""
    told = [j for j in joining if j.meets_at is not None]
    groups = alike(told, _same_place)
    if len(groups) < 2:
        return None
    right = max(
        groups, key=lambda same: (any(j.told.serves or j.link == "connected" for j in same), len(same), -same[0].rank)
    )
    wrong = [j for same in groups if same is not right for j in same]
    blamed = [j.rank for j in wrong]
    verb = "look" if len(blamed) > 1 else "looks"
    there, here = place_words(wrong[0]), place_words(right[0])
    others = ranks_words(j.rank for j in right)
    return hit(
        joining,
        blamed,
        title=text(
            "{blamed} {verb} for the job at {there}, {others} at {here}{outcome}",
            blamed=ranks_words(blamed),
            verb=verb,
            there=there,
            others=others,
            here=here,
            outcome=outcome(wrong[0]),
        ),
        evidence=point_words(wrong),
        cause=text(
            "All ranks must be given the same MASTER_ADDR and MASTER_PORT (or --rdzv-endpoint): that of rank 0's host."
        ),
        next_steps=[
            text(
                "Give {blamed} the address {here}. Look for an assignment in the code "
                '(`os.environ["MASTER_ADDR"] = ...`), which wins over the launcher.',
                blamed=ranks_words(blamed),
                here=here,
            )
        ],
    )


def _same_place(joiner: Joiner) -> object:
    """Names that resolve to the same machine are one place."""
    point = joiner.point
    if point is not None and point.local:
        return ("this host", joiner.told.port)
    return (tuple(point.addresses) if point is not None and point.addresses else joiner.told.address, joiner.told.port)


def _foreign_store(case: Case, joining: Sequence[Joiner]) -> Hit | None:
    """Somebody listens at the place, and is neither a rank of this job nor its launcher, nor does it answer as a store does."""
    ours = {v.pid for v in case.views} | {case.evidence.launcher_pid}
    if any(j.stage == "mesh" for j in joining):
        return None
    for joiner in joining:
        point = joiner.point
        if (
            point is not None
            and point.state == "open"
            and point.holder_pid is not None
            and point.holder_pid not in ours
        ):
            blamed = [v.rank for v in case.views if v.role == "ended"] or [0]
            return _port_hit(joining, point.port, point, blamed, point_words([joiner]))
    return None


def _unreachable(case: Case, joining: Sequence[Joiner]) -> Hit | None:
    """All look at the same place, and it does not answer. A rank 0 that is not there yet is another matter."""
    cut_off = [
        j
        for j in joining
        if j.stage == "store" and j.link != "connected" and j.point is not None and j.point.state != "open"
    ]
    if not cut_off:
        return None
    state = cut_off[0].point.state if cut_off[0].point else "not known"
    blamed = [j.rank for j in cut_off]
    if state == "refused" and 0 not in {j.rank for j in joining} and not launcher_listens(joining):
        return None  # rank 0 is to listen, and is not there: it is missing
    cause, step = _REMEDIES[state]()
    at = place_words(cut_off[0])
    return hit(
        joining,
        blamed,
        title=text(
            "{blamed} cannot reach the job's store at {at}{outcome}",
            blamed=ranks_words(blamed),
            at=at,
            outcome=outcome(cut_off[0]),
        ),
        evidence=point_words(cut_off),
        cause=cause,
        next_steps=[step, preflight(cut_off[0])],
    )


def _behind(case: Case, joining: Sequence[Joiner]) -> Hit | None:
    """Some have not come past the store where others have been. Not of a job that may be about to begin."""
    behind = [j for j in joining if j.stage == "store" and j.link != "connected"]
    past = [j for j in joining if j.stage == "mesh"]
    if not behind or not past or case.gathering:
        return None
    blamed, others = ranks_words(j.rank for j in behind), ranks_words(j.rank for j in past)
    told = behind[0].meets_at is not None
    return hit(
        joining,
        [j.rank for j in behind],
        title=text(
            "{blamed} {verb} not come past the job's store{at}, and {others} {verb2}",
            blamed=blamed,
            verb="have" if len(behind) > 1 else "has",
            at=text(" at {place}", place=place_words(behind[0])) if told else "",
            others=others,
            verb2="have" if len(past) > 1 else "has",
        ),
        evidence=[],
        cause=text(
            "Ranks meet at MASTER_ADDR:MASTER_PORT first. One that stays there was given another address or port than the "
            "others, or cannot reach it."
        ),
        next_steps=[
            text(
                "Compare MASTER_ADDR and MASTER_PORT of {blamed} with those of {others}.", blamed=blamed, others=others
            ),
            *([preflight(behind[0])] if told else []),
        ],
        confidence="medium",
    )


_REMEDIES: dict[str, Callable[[], tuple[str, str]]] = {
    "unresolved": lambda: (
        text("No name server and no /etc/hosts knows that name here."),
        text(
            "Write the address of rank 0's host as a number, or mend the name: `getent hosts NAME` must "
            "answer on every host."
        ),
    ),
    "refused": lambda: (
        text(
            "The host is there, and nobody listens at that port: a wrong port, a wrong host, or a rank 0 "
            "that has ended."
        ),
        text("Compare with what rank 0 was told, and see whether it runs."),
    ),
    "filtered": lambda: (
        text("Packets to it are dropped: a firewall or a security group, or an address that nobody has."),
        text(
            "Open the port, and those above 1024 between the hosts: ranks also connect to each other at "
            "ports of their own."
        ),
    ),
    "unreachable": lambda: (
        text("There is no route to that address from here, or no such machine."),
        text("Take an address of rank 0's host on the network that the hosts share: `ip -br addr` there."),
    ),
    "not known": lambda: (
        text("What happens at that address could not be seen from here."),
        text("Try it from that host: `nc -vz ADDRESS PORT`."),
    ),
}


_TOLD_WRONG: Sequence[Cause] = (_somebody_died, _different_places, _foreign_store, duplicates, unlike_world_sizes)
_NOT_TOGETHER: Sequence[Cause] = (_unreachable, never_came, not_each_other, _behind)
