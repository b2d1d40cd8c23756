"""Uneven work: a rank for which all the others wait at every step. Nothing hangs; the job is as slow as that rank.

Waiting hides in a step's duration, which is the same on all ranks. So it is judged by when each rank *issues* its collectives, as
the flight recorder has it: from the moment when the last one arrived at the previous call, a rank works until it issues the next; the
rest is waiting.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...language import text
from ...model import Finding, Frame, NotAvailable, rank_subjects
from ...words.durations import duration
from ..soundness.seen import longest_at
from .case import Case, Hit, View
from .compiling import compiles_again, steps_against_it
from .doing import FOR_OTHER_RANKS
from .words import place

__all__ = ["EXPLAINS", "Arrivals", "arrivals", "rule"]

EXPLAINS = {"straggler": ("data_wait", "host_wait")}
LEAST_ROUNDS, MOST_ROUNDS, MOST_TIMES = 16, 400, 400_000
"""Of many ranks fewer rounds are looked at, so that a verdict on 10,000 takes less than a second."""
FEW_ROUNDS, FAR, NEARLY_ALL, HABIT = 4, 2.0, 0.9, 2.5
"""So few are enough where the ratio is `FAR`, nearly all waiting was for that rank, and as if in `HABIT` equal waits: no single pause."""
RATIO = 1.5
"""The least ratio of the slowest rank's work to that of the others that is worth a word."""
LOST = 0.2
"""The least share of the time that the others lose by it."""
LAST = 0.7
"""The least share of all waiting that is for this rank."""
MORE_CPU = 1.25
"""A rank that uses so many times the CPU of the others has more to do than they."""
LEAST_SHARE = 0.2
"""Of its time, for a line to be called the one at which a rank loses it."""
QUARTERS = 3
"""In so many of four parts of the time it has to be as slow as that: one long pause (an evaluation, a checkpoint) is no habit."""


@dataclass(frozen=True)
class Arrivals:
    """What the times of issuing say. ``work_s``: by rank, its own work between two calls, mean. ``lost``: the share of the time that
    a typical other rank waits. ``blame``: the share of all waiting during which `slowest` was the one waited for. ``quarters``: in how
    many of four parts of the time its ratio was `RATIO` or more. ``waits``: how many waits for it would make up all of them, were each
    as long as the longest.
    """

    rounds: int
    slowest: int
    ratio: float
    lost: float
    blame: float
    quarters: int
    work_s: Mapping[int, float]
    others_s: float
    waits: float = 0.0


def rule(case: Case) -> list[Hit]:
    """At most one: the slowest rank, where it costs the others much of their time. Not for a job that stands still."""
    if case.overdue or len(case.views) < 2:
        return []
    issued = _issued(case)
    seen = arrivals(issued)
    if seen is not None and _matters(seen) and _is_no_clock(case, seen) and not _starved(case, seen):
        return [_hit(case, case.by_rank[seen.slowest], seen)]
    return [_compiles(case, view) for view in _compiling_alone(case) if view.rank in issued and len(issued) > 1]


def _compiling_alone(case: Case) -> list[View]:
    """At most one: the rank that compiles again and again while no other does. That tells before enough calls have come for a ratio."""
    found = [view for view in case.views if compiles_again(view)]
    return found if len(found) == 1 else []


def _matters(seen: Arrivals) -> bool:
    if seen.lost < LOST:
        return False
    if seen.rounds < LEAST_ROUNDS:
        return seen.ratio >= FAR and seen.blame >= NEARLY_ALL and seen.waits >= HABIT
    return seen.ratio >= RATIO and seen.blame >= LAST and seen.quarters >= QUARTERS


def _is_no_clock(case: Case, seen: Arrivals) -> bool:
    """Whether it is more than the clocks of several hosts may be apart, each of the two moments between which a rank works by so much."""
    error_s = case.evidence.clock_error_s
    return isinstance(error_s, NotAvailable) or seen.work_s[seen.slowest] - seen.others_s > 2 * 2 * error_s


def _starved(case: Case, seen: Arrivals) -> bool:
    """Whether the rank is late because others have the CPUs of its host, and not because it has more to do: what it was ready for and
    given no CPU explains half of what is lost, and it uses no more CPU than the others.
    """
    used = {v.rank: _cpu(v) for v in case.views}
    own = used.get(seen.slowest)
    others = [cpu for rank, cpu in used.items() if rank != seen.slowest and cpu is not None]
    if own is None or not others:
        return False
    more_work = own[0] > MORE_CPU * statistics.median(cpu for cpu, _ in others)
    return not more_work and own[1] - statistics.median(starved for _, starved in others) >= seen.lost / 2


def _cpu(view: View) -> tuple[float, float] | None:
    """The CPUs that a rank and its DataLoader workers used, and those that they waited for; None where that is not known."""
    if view.activity is None:
        return None
    threads = [t for activity in (view.activity, *view.evidence.children) for t in activity.threads]
    starved = [t.starved_share for t in threads if not isinstance(t.starved_share, NotAvailable)]
    return (sum(t.cpu_share for t in threads), sum(starved)) if len(starved) == len(threads) else None


# --- arrivals ------------------------------------------------------------------------------------------------------


def _issued(case: Case) -> dict[int, dict[int, float]]:
    """By rank: when it issued each call, by its number, on the process group that most ranks share. Nothing where hosts have clocks of
    their own, and nobody knows how far these are apart.
    """
    several = len({view.evidence.host for view in case.views}) > 1
    if several and isinstance(case.evidence.clock_error_s, NotAvailable):
        return {}
    found: dict[str, dict[int, dict[int, float]]] = {}
    for view in case.views:
        collectives = view.evidence.collectives
        if isinstance(collectives, NotAvailable):
            continue
        for call in collectives.calls:
            if not call.p2p and not isinstance(call.issued_s, NotAvailable):
                found.setdefault(call.group, {}).setdefault(view.rank, {})[call.sequence] = call.issued_s
    return max(found.values(), key=lambda of: (len(of), sum(map(len, of.values()))), default={})


def arrivals(issued: Mapping[int, Mapping[int, float]]) -> Arrivals | None:
    """From the times of issuing, by rank and number of the call; None where there are too few calls that all have in common.

    A call that a rank issues before the last one has arrived at the previous call did not wait for it (the buckets of a backward
    pass): its work is the time since its own previous call. Linear in the number of calls.
    """
    if len(issued) < 2:
        return None
    most = max(LEAST_ROUNDS + 1, min(MOST_ROUNDS, MOST_TIMES // len(issued)))
    common = sorted(set.intersection(*(set(of) for of in issued.values())))[-most:]
    if len(common) <= FEW_ROUNDS:
        return None
    rounds = [_round(issued, before, now) for before, now in pairwise(common)]
    work = _total(rounds)
    slowest = max(work, key=lambda rank: work[rank])
    waited = sum(one.waited_s for one in rounds)
    span = max(of[common[-1]] for of in issued.values()) - max(of[common[0]] for of in issued.values())
    others = _others(work, slowest)
    for_it = [one.waited_s if one.last == slowest else 0.0 for one in rounds]
    parts = [_total(rounds[len(rounds) * i // 4 : len(rounds) * (i + 1) // 4]) for i in range(4)]
    return Arrivals(
        rounds=len(rounds),
        slowest=slowest,
        ratio=work[slowest] / max(others, 1e-9),
        lost=(work[slowest] - others) / max(span, 1e-9),
        blame=sum(for_it) / max(waited, 1e-9),
        quarters=sum(part[slowest] >= RATIO * _others(part, slowest) for part in parts),
        work_s={rank: w / len(rounds) for rank, w in work.items()},
        others_s=others / len(rounds),
        waits=sum(for_it) / max(*for_it, 1e-9),
    )


@dataclass(frozen=True)
class _Round:
    """From one call to the next: every rank's own work, who came last, and how long a typical rank waited for it."""

    work_s: Mapping[int, float]
    last: int
    waited_s: float


def _round(issued: Mapping[int, Mapping[int, float]], before: int, now: int) -> _Round:
    met = max(of[before] for of in issued.values())
    work = {rank: of[now] - (met if of[now] >= met else of[before]) for rank, of in issued.items()}
    last = max(issued, key=lambda rank: issued[rank][now])
    return _Round(work, last, issued[last][now] - statistics.median(of[now] for of in issued.values()))


def _total(rounds: Sequence[_Round]) -> dict[int, float]:
    return {rank: sum(one.work_s[rank] for one in rounds) for rank in rounds[0].work_s}


def _others(work: Mapping[int, float], slowest: int) -> float:
    return statistics.median(w for rank, w in work.items() if rank != slowest)


# --- the verdict ---------------------------------------------------------------------------------------------------


def _hit(case: Case, slow: View, seen: Arrivals) -> Hit:
    at = _where(slow)
    part = _part(case, slow)
    again = compiles_again(slow)
    finding = Finding(
        "straggler",
        "warning",
        text(
            "Rank {rank} takes {ratio:.1f} times as long as the others, which wait for it {lost:.0%} of the time",
            rank=slow.rank,
            ratio=seen.ratio,
            lost=seen.lost,
        ),
        rank_subjects([slow.rank]),
        place(at),
        [
            text(
                "between two collectives, over the last {rounds}: rank {rank} works {work_s}, the others "
                "{others_s} (median)",
                rounds=seen.rounds,
                rank=slow.rank,
                work_s=duration(seen.work_s[slow.rank]),
                others_s=duration(seen.others_s),
            ),
            text("{blame:.0%} of all waiting was for rank {rank}", blame=seen.blame, rank=slow.rank),
            *_gain(slow, seen),
            *([] if part is None else [_part_words(case, slow, part)]),
            *([] if at is None else [text("seen at {line}", line=case.line(at))]),
            *again,
        ],
        _unfit() if again else _cause(part),
        steps_against_it() if again else _next_steps(part, slow),
        confidence="high" if part is not None or again else "medium",
    )
    return Hit(finding, [slow.rank])


def _compiles(case: Case, slow: View) -> Hit:
    at = _where(slow)
    finding = Finding(
        "straggler",
        "warning",
        text("Rank {rank} compiles again and again, and the others wait for it", rank=slow.rank),
        rank_subjects([slow.rank]),
        place(at),
        [*compiles_again(slow), *([] if at is None else [text("seen at {line}", line=case.line(at))])],
        _unfit(),
        steps_against_it(),
    )
    return Hit(finding, [slow.rank])


def _unfit() -> str:
    return text("What it has compiled does not fit what comes next, again and again.")


def _where(slow: View) -> Frame | None:
    """Where it spends its time, other than by waiting for the others: by many looks where there are, else the last of the few."""
    sound = slow.evidence.soundness
    sampled = NotAvailable("not looked at") if isinstance(sound, NotAvailable) else sound.sampled
    if not isinstance(sampled, NotAvailable) and (frame := longest_at(sampled, LEAST_SHARE)) is not None:
        return frame
    own = [d for d in slow.doings if d.kind not in FOR_OTHER_RANKS and d.kind != "backward"]
    return own[-1].frame if own else None


def _gain(slow: View, seen: Arrivals) -> list[str]:
    """What mending it would give, all else being equal."""
    if seen.lost >= 1:
        return []
    faster = 1 / (1 - seen.lost)
    return [
        text(
            "were rank {rank} as quick as the others, the job would be {faster:.1f} times as fast",
            rank=slow.rank,
            faster=faster,
        )
    ]


def _part(case: Case, slow: View) -> str | None:
    """The part of a step in which it loses most against the others. Not backward: that is where the others wait."""
    others = [v.pace.parts for v in case.views if v is not slow and v.pace is not None and v.pace.parts]
    own = slow.pace.parts if slow.pace is not None else {}
    more = {
        name: own[name] - statistics.median(parts.get(name, 0.0) for parts in others)
        for name in own
        if others and name != "backward"
    }
    worst = max(more, key=lambda name: more[name], default=None)
    return worst if worst is not None and more[worst] > 0.1 * sum(own.values()) else None


def _part_name(part: str) -> str:
    return {
        "data_wait": text("waiting for data"),
        "forward": text("forward"),
        "before_backward": text("what comes before backward"),
        "generation": text("generation"),
        "evaluation": text("evaluation"),
        "saving": text("saving"),
        "optimizer": text("the optimizer"),
    }.get(part, text("code outside of forward, backward and optimizer"))


def _part_words(case: Case, slow: View, part: str) -> str:
    own = slow.pace.parts[part] if slow.pace is not None else 0.0
    others = [v.pace.parts.get(part, 0.0) for v in case.views if v is not slow and v.pace is not None and v.pace.parts]
    name, typical = _part_name(part), statistics.median(others)
    return text(
        "the difference lies in {name}: {own} a step, the others {typical}",
        name=name,
        own=duration(own),
        typical=duration(typical),
    )


def _cause(part: str | None) -> str:
    if part == "data_wait":
        return text(
            "Its batches come later: a slower disk or network mount, fewer or busier DataLoader workers, or "
            "larger samples."
        )
    return text(
        "It has more to compute (longer sequences, more experts, work that only this rank does), or a "
        "slower processor: a hot or throttled GPU, other jobs on its cores."
    )


def _next_steps(part: str | None, slow: View) -> list[str]:
    look = text("Look at it a few times: `traindbg stacks {pid}`, `traindbg steps {pid}`.", pid=slow.pid)
    if part == "data_wait":
        return [
            look,
            text("Move its data nearer, or give it more workers (num_workers, prefetch_factor)."),
        ]
    return [
        look,
        text(
            "Balance the work (batches by length), let all ranks share what one does alone, and compare the "
            "GPUs: `traindbg gpu`."
        ),
    ]
