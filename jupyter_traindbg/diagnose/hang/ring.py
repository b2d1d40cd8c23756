"""Processes that wait for each other in a ring, of which some are none of the job's: a trainer and an engine, a driver and its server.

The ring has no beginning, so all who are in it are named, each with its line. And whom a rank waits for outside of its job, in words.
"""

from __future__ import annotations

from ...language import counted, text
from ...model import Channel, Finding, Subject
from ...words.durations import time_words
from ..collectives.words import capital
from . import stop_words as say
from . import why
from .case import Case, Hit, View
from .doing import FOR_OTHER_RANKS, Doing
from .file_locks import what_it_does, why_kept
from .onward import Onward
from .partners import Chain, waits_outside
from .stops import ENDS, Stop
from .words import and_list, place, short_place

__all__ = ["EXPLAINS", "beside", "ring", "rule"]

EXPLAINS = {
    "process_deadlock": (
        "io_wait",
        "python_wait",
        "unequal_steps",
        "collective_not_issued",
        "collective_order",
        "straggler",
    )
}


def rule(case: Case) -> list[Hit]:
    """One finding for each ring; one for each rank that waits in a collective with a process that is not in it."""
    if not case.overdue:
        return []
    hits = []
    told: set[frozenset[int]] = set()
    for rank, chain in case.chains.items():
        view = case.by_rank[rank]
        members = frozenset((view.pid, *(stop.pid for stop in chain.stops)))
        if chain.ring and members not in told:
            told.add(members)
            ranks = [rank for rank in (view.rank, *(stop.rank for stop in chain.stops)) if rank is not None]
            hits.append(Hit(ring(case, view, chain), ranks))
        elif waits_outside(view, chain):
            hits.append(_not_in_it(case, view, chain))
    return hits


def beside(case: Case, view: View) -> Onward | None:
    """For whom outside of its job `view` waits; None where nobody is known."""
    chain = case.chains.get(view.rank)
    if chain is None or chain.ring or chain.last.rank is not None:
        return None
    last = chain.last
    cause, step = _why(case, view, chain)
    does = say.does(last) + say.at(short_place(last.seen.frame), last.seen)
    return Onward(
        text("{process}, which holds the lock of a file, {does}", process=say.named(last), does=does)
        if _keeps_a_lock(view, chain)
        else text("{process} {does}", process=say.named(last), does=does),
        [*_way(case, view, chain), *say.held(case, (last.host or view.host, last.pid)), *_wakes(last)],
        cause,
        step,
        last.seen.users,
        last.process,
        last.who,
        _rescue(case, last),
        unsure=_comes_by(last),
    )


# --- findings ------------------------------------------------------------------------------------------------------


def ring(case: Case, view: View, chain: Chain) -> Finding:
    """That `view` and those of the `chain`, which leads back to it, wait for each other."""
    ranks = [view.rank, *(stop.rank for stop in chain.stops if stop.rank is not None)]
    first, last = say.asking(view), chain.last
    between = [say.named(stop) for stop in chain.stops[:-1]]
    return Finding(
        "process_deadlock",
        "critical",
        text(
            "{first} and {last} wait for each other{between}: {first2} at {at}, {last2} at {at2}",
            first=capital(first),
            last=say.named(last),
            between=text(", by way of {processes}", processes=and_list(between)) if between else "",
            first2=first,
            at=short_place(view.now.frame),
            last2=say.short(last),
            at2=short_place(last.seen.frame),
        ),
        _subjects(view, chain),
        place(view.now.frame),
        [*_way(case, view, chain), _back(view, chain), *case.others_wait(ranks)],
        _ring_cause(chain),
        _ring_steps(case, view, chain),
        confidence="medium" if chain.unsure else "high",
    )


def _not_in_it(case: Case, view: View, chain: Chain) -> Hit:
    last = chain.last
    finding = Finding(
        "collective_not_issued",
        "critical",
        text(
            "{process} is not in the {operation} in which rank {rank} waits for it: it {does}",
            process=capital(say.named(last)),
            operation=view.now.operation or text("collective"),
            rank=view.rank,
            does=say.does(last) + say.at(short_place(last.seen.frame), last.seen),
        ),
        _subjects(view, chain),
        place(view.now.frame),
        [*_way(case, view, chain), *case.others_wait([view.rank])],
        text(
            "It was never told of that call, or refused it: the answer to the request that should announce it was not looked at."
        ),
        [
            text(
                "Look at the status of each answer before the call at {at}, and raise on an error.",
                at=short_place(view.now.frame),
            ),
            text("See in the log of {process} what became of the last request.", process=say.short(last)),
        ],
        confidence="medium",
    )
    return Hit(finding, [view.rank])


def _subjects(view: View, chain: Chain) -> tuple[Subject, ...]:
    others = [say.subject(s.process, s.who) if s.rank is None else Subject("rank", s.rank) for s in chain.stops]
    return (say.asker(view), *(others if chain.ring else others[-1:]))


def _ring_cause(chain: Chain) -> str:
    if chain.speechless:
        return text(
            "Both ends of one connection wait for the other one: a message was lost or cut short, its length does not match, or both send "
            "more than the connection holds while nobody reads."
        )
    return text(
        "Each waits for what the next one gives only after it has got what it waits for itself: this never ends by itself."
    )


def _ring_steps(case: Case, view: View, chain: Chain) -> list[str]:
    first, last = short_place(view.now.frame), short_place(chain.last.seen.frame)
    if chain.speechless:
        return [
            text(
                "Compare what is sent and what is expected at {first} and at {last}: the order, the lengths, and whether all is flushed.",
                first=first,
                last=last,
            ),
            text("Put a time-out on both waits, so that the next one says so itself."),
        ]
    return [
        text(
            "Bring the calls at {first} and {last} into one order: give what the other side waits for before waiting for its answer.",
            first=first,
            last=last,
        ),
        text("Put a time-out on both waits, so that the next one says so itself."),
    ]


# --- the way in words ----------------------------------------------------------------------------------------------


def _way(case: Case, view: View, chain: Chain) -> list[str]:
    """One line for each process, and how one comes there."""
    names = [say.asking(view), *map(say.short, chain.stops)]
    waits = [view.now, *(stop.seen for stop in chain.stops)]
    return [
        text(
            "{before} waits for {process}{over}; that one {does}{at}",
            before=name,
            process=say.process(stop),
            over=_over(wait, stop),
            does=say.does(stop, last=stop is chain.last and not chain.ring),
            at=say.at(case.at(stop.seen), stop.seen),
        )
        for name, wait, stop in zip(names, waits, chain.stops, strict=False)
    ]


def _rescue(case: Case, last: Stop) -> str:
    """How to get a worker of Ray's out of the call in which it stands; empty for others, and for one that does not run."""
    if not last.edge.is_a_call or last.state in ENDS or last.seen.users is None:
        return ""
    return text(
        "Give up its call: `traindbg ray-rescue {target} --interrupt {who}`; the worker lives on, and whoever made the call gets an error.",
        target=case.evidence.name,
        who=last.who,
    )


def _comes_by(last: Stop) -> bool:
    """Whether it sleeps for a while only, and then does something."""
    return last.seen.kind == "sleep" and last.wakes and last.state == "stands"


def _wakes(last: Stop) -> list[str]:
    if not _comes_by(last):
        return []
    return [
        text(
            "{process} wakes up now and then: whether it works in small pieces, or merely looks again, does not show from outside",
            process=say.short(last),
        )
    ]


def _back(view: View, chain: Chain) -> str:
    last = say.short(chain.last)
    if chain.speechless:
        return text(
            "{last} waits for {asking} at the other end of the same connection", last=last, asking=say.asking(view)
        )
    if chain.last.seen.kind in FOR_OTHER_RANKS:
        return text(
            "{last} waits in {operation} for {asking}",
            last=last,
            operation=chain.last.seen.operation or text("a collective"),
            asking=say.asking(view),
        )
    return text("{last} waits for {asking}", last=last, asking=say.asking(view))


def _over(wait: Doing, stop: Stop) -> str:
    """How the process before, which waits as in `wait`, comes to this one."""
    over = stop.edge.over
    if stop.edge.is_a_call:
        return ""
    if over is not None:
        return text(" over {channel}", channel=over) + _left(over)
    return text(" (which holds the lock)") if _is_of_a_lock(wait, stop) else text(" (which it has started)")


def _left(channel: Channel) -> str:
    if not channel.accepted:
        return text(" (not accepted yet)")
    if channel.unread_there_bytes:
        return counted(" (1 byte lies there unread)", " ({n} bytes lie there unread)", channel.unread_there_bytes)
    if channel.silent_s is not None and channel.flow is None:
        return text(" (silent for {time})", time=time_words(channel.silent_s))
    return ""


def _is_of_a_lock(wait: Doing, stop: Stop) -> bool:
    """Whether one comes to a process because it holds a lock: neither over a channel, nor because it may have been started for this."""
    return wait.kind == "lock" and stop.edge.over is None and stop.edge.sure


def _keeps_a_lock(view: View, chain: Chain) -> bool:
    return _is_of_a_lock(chain.stops[-2].seen if len(chain.stops) > 1 else view.now, chain.last)


def _why(case: Case, view: View, chain: Chain) -> tuple[str, str]:
    last = chain.last
    if last.state == "stopped":
        step = text("Let it go on: kill -CONT {pid}", pid=last.pid)
        return text("A process that it waits for was stopped by a signal or a debugger."), say.there(last.process, step)
    if last.state == "idle" and view.now.kind == "sleep":
        return (
            text(
                "It asks again and again, and whoever is asked has nothing to do: what it waits for is not on its way any more."
            ),
            text(
                "See in the log of {process} what became of the request, and give the loop an end.",
                process=say.short(last),
            ),
        )
    if last.state == "idle":
        return (
            text(
                "That process has nothing to do: the request was answered with less than is waited for, was lost, or never came to it."
            ),
            text("See in the log of {process} what became of the last request.", process=say.short(last)),
        )
    if _keeps_a_lock(view, chain):
        return why_kept(), what_it_does(last.process)
    return why.cause(last.seen, case.source_of(last.seen)), say.there(last.process, why.step(last.seen, None, last.pid))
