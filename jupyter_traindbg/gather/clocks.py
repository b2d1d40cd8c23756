"""How far the clocks of the ranks' hosts are apart."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..attach.base import Link, ask_all
from ..model import Collective, JobEvidence, Maybe, NotAvailable, RankCollectives

__all__ = ["Clock", "by_our_clock", "calls_by_our_clock", "clocks"]

ROUNDS = 4


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
    found = {link: Clock() for link in links if link.here}
    elsewhere = [link for link in links if not link.here]
    ends = time.monotonic() + deadline_s
    for _ in range(ROUNDS if elsewhere else 0):
        left_s = max(0.05, ends - time.monotonic())
        for link, seen in ask_all(elsewhere, partial(_one, deadline_s=left_s), left_s).answers:
            if link not in found or seen.error_s < found[link].error_s:
                found[link] = seen
    return {link: _told_apart(found[link]) for link in links if link in found}


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


def _one(link: Link, deadline_s: float) -> Clock:
    asked = time.time()
    told = float(link.call("pace", {}, deadline_s)["time_s"])
    answered = time.time()
    return Clock(told - (asked + answered) / 2, (answered - asked) / 2)
