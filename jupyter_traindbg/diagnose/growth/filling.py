"""Containers with a bound that they have not reached: they look like a leak until then, and it can be said when that is, and how large they
are by then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ...frames.whose import full_place
from ...language import text
from ...model import Finding, MemoryShare, NotAvailable, RankMemory, rank_subjects
from ...words.sizes import size
from .held import TELLING_BYTES, Seen, amount, called, explain, grouped, has_room, seen

__all__ = ["findings"]


def findings(ranks: Iterable[RankMemory]) -> list[Finding]:
    """Of ranks whose memory grows: what fills up, where that explains it, what takes the most first."""
    filling = [one for rank in ranks for one in _explaining(rank)]
    return [_finding(same, filling) for same in sorted(grouped(filling), key=lambda same: -sum(map(_to_come, same)))]


def _explaining(rank: RankMemory) -> list[Seen]:
    """The holders of one rank that fill up; none where something else grows more."""
    found = [one for one in seen([rank]) if has_room(one.holder) and one.holder.bytes_a_step >= TELLING_BYTES]
    return found if found and explain(found) else []


def _finding(same: Sequence[Seen], filling: Sequence[Seen]) -> Finding:
    """`filling`: all that fills up, for it needs the same room."""
    worst = max(same, key=_to_come)
    holder, more, left = worst.holder, size(_to_come(worst)), _left(same)
    bound = holder.bound or 0
    steps = math.ceil((bound - holder.count) / holder.a_step) if holder.a_step else 0
    too_large = left is not None and any(_needed(one, filling) > left for one in same)
    step = text("Nothing to mend: it stops growing in about {steps:,} steps, {more} from now.", steps=steps, more=more)
    if left is None:
        step = text("See that {more} more fit: it stops growing in about {steps:,} steps.", steps=steps, more=more)
    elif too_large:
        step = text(
            "{more} more are to come within {steps:,} steps, and {left} are left: bound it lower, or keep it on disk (numpy.memmap).",
            more=size(max(_needed(one, filling) for one in same)),
            steps=steps,
            left=size(left),
        )
    return Finding(
        code="fills_up",
        severity="warning" if too_large else "info",
        title=text(
            "{named} fills up: {count:,} of {bound:,} at most, {held} now and {full} when it is full",
            named=called(holder),
            count=holder.count,
            bound=bound,
            held=size(holder.held_bytes),
            full=size(holder.held_bytes + _to_come(worst)),
        ),
        who=rank_subjects(one.rank for one in same),
        where=None if holder.where is None else full_place(holder.where),
        evidence=[amount(one) for one in same[:8]],
        cause=text("It has a bound that it has not reached. Until then it looks like a leak, and it is none."),
        next_steps=[step],
        confidence="high" if holder.where is not None and holder.name else "medium",
    )


def _to_come(one: Seen) -> float:
    """The bytes that it takes until it is full."""
    holder = one.holder
    each = holder.held_bytes / holder.count if holder.count else 0.0
    return each * max(0, (holder.bound or 0) - holder.count)


def _needed(one: Seen, filling: Sequence[Seen]) -> float:
    """What fills up where it is, all together: of a host in all its ranks, of a GPU in its own."""
    beside = [other for other in filling if _device(other) == _device(one)]
    return sum(_to_come(other) for other in beside if _device(one) == "cpu" or other.rank == one.rank)


def _left(same: Sequence[Seen]) -> float | None:
    """What is left where these keep it, at most; None where that is not known."""
    shares = [_share(one) for one in same]
    room = [_room(share) for share in shares if share is not None]
    known = [left for left in room if left is not None]
    return min(known) if len(known) == len(same) else None


def _share(one: Seen) -> MemoryShare | None:
    return next((share for share in one.of.shares if share.device == _device(one)), None)


def _room(share: MemoryShare) -> float | None:
    capacity, used = share.capacity_bytes, share.in_use_bytes
    return None if isinstance(capacity, NotAvailable) or isinstance(used, NotAvailable) else capacity - used


def _device(one: Seen) -> str:
    device = one.holder.device
    return "cpu" if not device or device.startswith("cpu") else device
