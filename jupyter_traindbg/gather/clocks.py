"""How far the clocks of the ranks' hosts are apart."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from ..attach.base import Link
from ..model import Collective, JobEvidence, Maybe, NotAvailable, RankCollectives
from ..tasks import each

__all__ = ["Clock", "by_our_clock", "calls_by_our_clock", "clocks", "measured"]

ROUNDS = 4
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Clock:
    """By how many seconds it is ahead of ours, give or take ``error_s``."""

    ahead_s: float = 0.0
    error_s: float = 0.0


def clocks(links: Sequence[Link], deadline_s: float) -> dict[Link, Clock]:
    """In the order of `links`, without those that do not answer. Ranks on this machine have its clock, and are not asked.

    As NTP does (RFC 5905, section 8): the answer's time was taken somewhere between question and answer, most likely in the middle, and the
    quickest of `ROUNDS` round trips errs least. What such a trip cannot tell from no difference is none: mostly it is the same clock.
    """
    elsewhere = [link for link in links if not link.here]
    told = measured(elsewhere, lambda link, s: float(link.call("pace", {}, s)["time_s"]), deadline_s)
    found = {link: Clock() for link in links if link.here} | told
    return {link: found[link] for link in links if link in found}


def measured(whom: Sequence[K], time_s: Callable[[K, float], float], deadline_s: float) -> dict[K, Clock]:
    """The clocks of all who tell, by `time_s`, what time it is there within so many seconds. Without those that do not."""
    found: dict[K, Clock] = {}
    ends = time.monotonic() + deadline_s
    for _ in range(ROUNDS if whom else 0):
        left_s = max(0.05, ends - time.monotonic())
        for one, seen in each(whom, partial(_asked, time_s, left_s), left_s):
            if isinstance(seen, Clock) and (one not in found or seen.error_s < found[one].error_s):
                found[one] = seen
    return {one: _told_apart(clock) for one, clock in found.items()}


def by_our_clock(seen: JobEvidence, ahead_s: float) -> JobEvidence:
    """The evidence of a host whose clock is so far ahead of ours, with the moments by our clock that rules compare between hosts."""
    ranks = [dataclasses.replace(one, collectives=calls_by_our_clock(one.collectives, ahead_s)) for one in seen.ranks]
    return dataclasses.replace(seen, ranks=tuple(ranks))


def calls_by_our_clock(told: Maybe[RankCollectives], ahead_s: float) -> Maybe[RankCollectives]:
    """The same for what a rank's flight recorder says."""

    def call(one: Collective) -> Collective:
        issued_s = one.issued_s
        return one if isinstance(issued_s, NotAvailable) else dataclasses.replace(one, issued_s=issued_s - ahead_s)

    return told if isinstance(told, NotAvailable) else dataclasses.replace(told, calls=tuple(map(call, told.calls)))


def _told_apart(clock: Clock) -> Clock:
    return clock if abs(clock.ahead_s) > clock.error_s else Clock(0.0, clock.error_s)


def _asked(time_s: Callable[[K, float], float], deadline_s: float, whom: K) -> Clock:
    asked = time.time()
    told = time_s(whom, deadline_s)
    answered = time.time()
    return Clock(told - (asked + answered) / 2, (answered - asked) / 2)
