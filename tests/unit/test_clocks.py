"""Hosts whose clocks are apart: by how much is measured, and the moments that ranks are compared by are put on one clock."""

from __future__ import annotations

import time
from typing import Any

from hang_evidence import job, waiting

from jupyter_traindbg.attach.base import Entered, Link
from jupyter_traindbg.gather.clocks import by_our_clock, clocks
from jupyter_traindbg.model import NotAvailable

AHEAD_S = 12.5


class Elsewhere(Link):
    """A rank of a host whose clock is ahead of ours."""

    here = False

    def __init__(self, ahead_s: float) -> None:
        super().__init__(9, self._never)
        self.ahead_s = ahead_s

    def call(self, method: str, params: dict[str, Any], deadline_s: float) -> Any:
        return {"time_s": time.time() + self.ahead_s}

    def _never(self, deadline_s: float) -> Entered:
        raise AssertionError("it is on another host")


def test_by_how_much_a_clock_is_ahead_is_measured() -> None:
    near, far = Elsewhere(0.0), Elsewhere(AHEAD_S)
    told = clocks([near, far], 5.0)
    assert told[near].ahead_s == 0.0, "what is no more than the round trip is none"
    assert abs(told[far].ahead_s - AHEAD_S) <= told[far].error_s + 0.001
    assert told[far].error_s < 1.0


def test_moments_that_hosts_are_compared_by_are_put_on_one_clock() -> None:
    part = job(waiting(0))
    before, after = (evidence.ranks[0].collectives for evidence in (part, by_our_clock(part, AHEAD_S)))
    assert not isinstance(before, NotAvailable)
    assert not isinstance(after, NotAvailable)
    times = [(a.issued_s, b.issued_s) for a, b in zip(before.calls, after.calls, strict=True)]
    known = [(a, b) for a, b in times if not isinstance(a, NotAvailable) and not isinstance(b, NotAvailable)]
    assert known
    assert all(a - b == AHEAD_S for a, b in known)
