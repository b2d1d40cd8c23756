"""For whom the ranks of a job wait where no host can tell by itself: each tells who there has the other end of a connection, and on whom
that one waits.

A host sees its own processes alone (`partners`). Whoever brings its evidence together asks all of them for the connections that lead away
from one, and then for those that lead on from there. Of calls that a scheduler has handed on (Ray) no host sees anything: where somebody
waits for the result of one, the scheduler's word leads to whoever was called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from ..attach.base import Link
from ..model import Beside, Channel, Channels, FarEnd, HostPid, JobEvidence, JobProcess, Partner, TcpEnds
from .called import called_by_them, with_calls
from .partners import OtherEnds, at_other_ends

__all__ = ["followed"]

T = TypeVar("T")
Ends = Mapping[TcpEnds, tuple[str, FarEnd]]
"""By the two ends of a connection, as the one that has it names them: its host, and what is known of it there."""

ROUND_S, LEAST_S = 5.0, 1.5
MOST_ROUNDS, MOST_ASKED = 3, 1024


class Ask(Protocol):
    """Has the hosts look, within so many seconds, and gives what each has seen, by its name in the evidence: all of them for the ends of
    connections, and each for its own processes that were called.
    """

    def __call__(
        self,
        look: Callable[[Sequence[Link], Sequence[TcpEnds], Mapping[int, JobProcess], float], T],
        wanted: Sequence[TcpEnds],
        called: Mapping[str, Mapping[int, JobProcess]],
        timeout: float,
        /,
    ) -> Mapping[str, T]: ...


def followed(
    seen: JobEvidence, ask: Ask, ends_at: float, processes: Mapping[HostPid, JobProcess] | None = None
) -> JobEvidence:
    """The evidence, with the processes of all hosts that stand on the way of a wait; `processes` are those of the job that its scheduler
    knows, by their hosts in the evidence. One call of `ask`, 0.7 s mostly, for each time that the way leads on to another host, or to one
    that was called; none where nobody waits for either. Begins nothing where less than `LEAST_S` is left.
    """
    known = processes or {}
    asked: set[TcpEnds] = set()
    called: set[HostPid] = {(one.host, one.pid) for one in seen.ranks}
    for _ in range(MOST_ROUNDS):
        left_s = ends_at - time.monotonic()
        seen = with_calls(seen, known)
        away = _leading_away(seen)
        wanted = [end for end in away if end not in asked][:MOST_ASKED]
        callees = [one for one in called_by_them(seen, known) if one not in called][:MOST_ASKED]
        if not (wanted or callees) or left_s < LEAST_S:
            break
        asked.update(away)  # what is too much is left out for good
        called.update(callees)
        on_hosts: dict[str, dict[int, JobProcess]] = {}
        for host, pid in callees:
            on_hosts.setdefault(host, {})[pid] = known[host, pid]
        answers = ask(at_other_ends, [end.turned() for end in wanted], on_hosts, min(ROUND_S, left_s))
        for host, there in answers.items():
            far = {end: (host, told) for end, told in there.ends.items()}
            seen = _met(_with(seen, host, there, on_hosts.get(host, ())), {**away, **far})
    return with_calls(seen, known)


def _leading_away(seen: JobEvidence) -> Ends:
    """The connections at which a thread waits and of which nobody on its own host has the other end, surest first; and the servers of other
    hosts of which one knows that looks again and again.
    """
    waits = [
        (min((len(keys) for keys in channels.at.values() if one.key in keys), default=0), host, pid, one)
        for host, beside in seen.beside.items()
        for pid, channels in _of_all(beside)
        for one in channels.open
        if one.ends is not None and one.ends.leaves and not one.others
        if one.kind == "port" or channels.is_waited_at(one)
    ]
    found: dict[TcpEnds, tuple[str, FarEnd]] = {}
    for _, host, pid, one in sorted(waits, key=lambda wait: wait[0]):
        assert one.ends is not None
        _, known = found.get(one.ends, ("", FarEnd(())))
        found[one.ends] = host, FarEnd((*known.others, pid), one.key, one.unread_bytes)
    return found


def _of_all(beside: Beside) -> Iterator[tuple[int, Channels]]:
    """The channels of the ranks first."""
    yield from beside.channels.items()
    yield from ((pid, partner.channels) for pid, partner in beside.partners.items())


def _with(seen: JobEvidence, host: str, there: OtherEnds, called: Collection[int]) -> JobEvidence:
    """With what was seen on that host, beside what it has told before; of those that were `called` it tells more now."""
    own, more = seen.beside.get(host, Beside()), there.beside
    both = Beside(
        {**more.channels, **own.channels},
        {**more.partners, **own.partners, **{pid: one for pid, one in more.partners.items() if pid in called}},
        {**more.lock_holders, **own.lock_holders},
    )
    return replace(seen, beside={**seen.beside, host: both}, sources={**there.sources, **seen.sources})


def _met(seen: JobEvidence, ends: Ends) -> JobEvidence:
    """Each channel of which `ends` has the other end, with that."""

    def met(one: Channel) -> Channel:
        host, end = ends.get(one.ends.turned(), ("", None)) if one.ends is not None and not one.others else ("", None)
        return one if end is None else one.joined(end, host)

    def of_all(channels: Channels) -> Channels:
        return replace(channels, open=tuple(map(met, channels.open)))

    def of_partner(partner: Partner) -> Partner:
        return replace(partner, channels=of_all(partner.channels))

    def on_host(beside: Beside) -> Beside:
        channels = {pid: of_all(known) for pid, known in beside.channels.items()}
        return replace(beside, channels=channels, partners={p: of_partner(one) for p, one in beside.partners.items()})

    return replace(seen, beside={host: on_host(beside) for host, beside in seen.beside.items()})
