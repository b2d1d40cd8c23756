"""A worker that stands still in a method, for far longer than the same call took others, while those are done or go on.

To stand still is not enough: workers wait for work, servers for requests, and a queue may be empty for an hour. To blame is who is
unlike its peers: finished calls of the same method took far less (the cluster knows how long), or the others finish theirs meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...language import text
from ...model import RayWorker
from ...words.durations import time_words
from ..hang.doing import phrase
from ..hang.words import alike
from .case import ENDED, NOT_UP, Hit, RayCase, hit, known
from .peers import call_name, in_words, longest, usual, waiting_for
from .words import calls_words, names, short

__all__ = ["Unlike", "rule", "unlike_peers"]

LEAST_S, FACTOR = 5.0, 3.0
"""Too long is more than this, and so many times what the slowest of the same calls took."""
UNKNOWN_S, ENOUGH_PEERS = 20.0, 2
"""Where nothing is known of finished calls: so long, while as many peers at least are in younger ones."""
SURELY_S, SURELY = 30.0, 5.0
FEWEST_CALLS = 2


@dataclass(frozen=True)
class Unlike:
    """Why a call takes too long for its kind: what finished ones took, else who has finished some meanwhile."""

    call: str
    since_s: float
    took: Sequence[float] = ()
    ahead: Sequence[RayWorker] = ()

    @property
    def factor(self) -> float | None:
        """How many times the slowest; None where that is not known."""
        return self.since_s / max(longest(self.took), 1e-3) if self.took else None

    @property
    def words(self) -> str:
        lasts = text("this one has lasted {since_s}", since_s=time_words(self.since_s))
        if self.took:
            took = calls_words(self.took)
            return text("of {call} {took}; {lasts}", call=self.call, took=took, lasts=lasts)
        whom = names(self.ahead)
        return text("{whom} have finished such calls meanwhile; {lasts}", whom=whom, lasts=lasts)


def rule(case: RayCase) -> list[Hit]:
    """One finding for all that stand at the same line."""
    odd = {r.who: unlike for r in case.states("running", "blocked") if (unlike := _stuck(case, r)) is not None}
    bad = [r for r in case.rows if r.who in odd]
    return [_hit(case, same, odd) for same in alike(bad, lambda r: (r.job_id, call_name(r), case.where(r)))]


def _stuck(case: RayCase, row: RayWorker) -> Unlike | None:
    seen = case.doing(row)
    if case.pace(row) != "still" or case.waits_on_ray(row) or seen is None or seen.users is None or row.kind == "train":
        return None
    return None if case.waits_for_ranks(row) else unlike_peers(case, row)


def unlike_peers(case: RayCase, row: RayWorker) -> Unlike | None:
    """Whether `row` has been in its call for longer than its peers ever were."""
    since, took = case.since_s(row), usual(case, row)
    if since is None:
        return None
    if len(took) >= FEWEST_CALLS:
        late = since > max(LEAST_S, FACTOR * longest(took))
        return Unlike(call_name(row), since, took) if late else None
    if since <= UNKNOWN_S:
        return None
    peers = [p for p in case.peers(row) if p.method == row.method and p.state not in ENDED | NOT_UP]
    ahead = [p for p in peers if _is_ahead(p, since)]
    if len(ahead) < max(ENOUGH_PEERS, (len(peers) + 1) // 2):
        return None
    return Unlike(call_name(row), since, ahead=ahead)


def _is_ahead(peer: RayWorker, since: float) -> bool:
    """Whether `peer` is in a much younger call of the same method: it has finished one since."""
    younger = known(peer.since_s)
    return peer.state == "running" and younger is not None and younger < since / FACTOR


def _hit(case: RayCase, same: Sequence[RayWorker], odd: dict[str, Unlike]) -> Hit:
    first, unlike = same[0], max((odd[r.who] for r in same), key=lambda u: u.since_s)
    seen, at = case.doing(first), short(case.where(first))
    kind = seen.kind if seen is not None else "unknown"
    waits = waiting_for(case, same)
    sure = unlike.factor is not None and unlike.factor > SURELY and unlike.since_s > SURELY_S
    have = "have" if len(same) > 1 else "has"
    method = first.method or call_name(first)
    return hit(
        "ray_worker_stuck",
        "critical" if waits and (sure or kind in ("lock", "native", "thread", "sleep")) else "warning",
        text(
            "{names} {have} been stuck in {method} for {since_s} at {at}, while its peers are done",
            names=names(same),
            have=have,
            method=method,
            since_s=time_words(unlike.since_s),
            at=at,
        ),
        same,
        case.where(first),
        evidence=[*(in_words(case, r) for r in same[:4]), *(odd[r.who].words for r in same[:2]), *waits],
        cause=text(
            "It {phrase}, and what it waits for does not come.",
            phrase=phrase(seen) if seen is not None else text("stands still"),
        ),
        next_steps=[
            text(
                "Give up this call and keep the actor: `traindbg ray-rescue --interrupt {who}`; the call then "
                "fails in the driver, and the actor takes the next one.",
                who=first.who,
            ),
            text(
                "In the code: a time-out on the wait at {at}; in the driver `ray.wait(..., timeout=)` and leave "
                "out who is late.",
                at=at,
            ),
        ],
        confidence="high" if sure else "medium",
    )
