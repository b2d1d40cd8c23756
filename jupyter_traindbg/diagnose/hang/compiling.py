"""A rank that compiles, exports a model or builds an extension while the others wait for it: it gets on, however long that takes.

What torch writes down of its compilations tells why this rank alone is at it: code that did not fit any more, a cache that was cold, a
function that only it has called.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ...frames import phases
from ...language import counted, later, text
from ...model import Compilation, Compilations, Finding, Frame, NotAvailable, rank_subjects
from ...words.durations import time_words
from ...words.ranks import ordinal, ranks_words
from .case import Case, Hit, View
from .motion import started_for, work_words
from .patience import Patience, patience
from .phase import at_risk, compiles, others_polls, seen_at
from .stuck import allowed_s
from .words import alike, place, short_place

__all__ = ["compiles_again", "rule", "steps_against_it"]

LATELY_S, SEVERAL = 60.0, 3
HALF = 0.5
"""Of its time, for a rank to be slow because it compiles."""


def rule(case: Case) -> list[Hit]:
    """Where all ranks have only begun, and those that wait are merely the first to be done, nothing as long as their time-out is far."""
    if not case.overdue or not case.waiting or case.seen_once:
        return []
    at_it = [(v, phase) for v in case.roles("moving") if (phase := compiles(v)) is not None]
    compiling = [v for v, phase in at_it if phase is phases.COMPILING]
    if compiling and not at_risk(case) and _merely_later(case, compiling):
        at_it = [one for one in at_it if one[0] not in compiling]
    found = alike(at_it, lambda one: (one[1].english, _caller(*one)))
    return [_hit(case, same[0][1], [v for v, _ in same]) for same in found]


def _caller(view: View, phase: phases.Phase) -> Frame | None:
    """Where the program has asked for it: what is traced below that are its lines, too."""
    thread = view.now.thread
    return (phases.caller(thread.frames, phase) if thread is not None else None) or view.now.frame


def _merely_later(case: Case, compiling: Sequence[View]) -> bool:
    """Without a pause that the job has got over before: whether they have compiled for about as long as the others took for theirs, or
    that is not known.
    """
    if case.progress.longest_s is not None:
        return False
    ours, others = (
        [known.seconds for v in views if (known := _known(v)) is not None] for views in (compiling, case.waiting)
    )
    return len(ours) < len(compiling) or not others or max(ours) <= allowed_s(statistics.median(others))


def _known(view: View) -> Compilations | None:
    told = view.evidence.compilations
    return None if isinstance(told, NotAvailable) else told


def _under_way(view: View) -> Compilation | None:
    """What torch.compile is at work on in that rank, where it is that of a function."""
    known = _known(view)
    return known.now if known is not None and compiles(view) is phases.COMPILING else None


def compiles_again(view: View) -> list[str]:
    """That a rank has spent most of its time, within the last minute, on compiling functions once more; empty where it has not."""
    known = _known(view)
    lately = [] if known is None else [c for c in known.last(LATELY_S) if c.number is not None and c.number > 1]
    took, since = sum(c.seconds or 0.0 for c in lately), max((c.ago_s or 0.0 for c in lately), default=0.0)
    if len(lately) < SEVERAL or took < HALF * since:
        return []
    told = text(
        "within the last {since}, rank {rank} has compiled {n} graphs, which took {took}",
        since=time_words(since),
        rank=view.rank,
        n=len(lately),
        took=time_words(took),
    )
    last = next((c for c in reversed(lately) if c.at is not None), lately[-1])
    return [": ".join([told, *([short_place(last.at)] if last.at else []), *filter(None, [_why(last)])])]


def steps_against_it() -> list[str]:
    """What to do where compiled code does not fit again and again."""
    return [
        text(
            "Pad batches to a few sizes that all ranks share, or torch.compile(dynamic=True); a number that changes becomes a tensor."
        ),
        text("TORCH_LOGS=recompiles says at the start of each what did not fit."),
    ]


def _why(one: Compilation) -> str:
    """torch's reason for compiling a function again, without the number of the one that did not fit."""
    return one.reason.partition(": ")[2] or one.reason


# --- why this rank, and not the others -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Others:
    """Those that have compiled the same function. ``seconds``: the longest of them."""

    ranks: Sequence[int]
    seconds: float
    cached: bool


def _others(case: Case, now: Compilation) -> _Others | None:
    found = {}
    for view in case.waiting:
        known = _known(view)
        same = [] if known is None else [c for c in known.past if c.is_of(now)]
        if same:
            found[view.rank] = same[-1]
    if not found:
        return None
    return _Others(list(found), max(c.seconds or 0.0 for c in found.values()), all(c.cached for c in found.values()))


_CAUSES = {
    phases.EXPORTING: later(
        "Exporting traces every operation of the model, in Python; the others wait for it meanwhile."
    ),
    phases.BUILDING_EXTENSION: later("A C++ extension is built there that the others have, or do not need."),
}
_AGAINST = {
    phases.EXPORTING: later("Export from a checkpoint after the job, or in a process of its own."),
    phases.BUILDING_EXTENSION: later(
        "Build extensions before the job, or on one rank of each host, and let the others find them."
    ),
}


def _cause(case: Case, phase: phases.Phase, now: Compilation | None, others: _Others | None) -> str:
    if phase in _CAUSES:
        return text(_CAUSES[phase])
    if others is not None and others.cached:
        return text("Its cache is cold: the others found in theirs what has to be made here.")
    if others is not None:
        return text("The others have compiled the same and are done; here it takes longer.")
    if now is not None and now.reason:
        return text(
            "What had been compiled does not fit what has come on these ranks alone: {reason}. So the function is compiled once more.",
            reason=_why(now),
        )
    if now is not None and not now.wraps and all(_known(v) is not None for v in case.waiting):
        return text("A function is compiled at its first call, and the others have not called this one.")
    return text("Code is compiled there at its first call, or because what was compiled before does not fit any more.")


def _what_to_change(phase: phases.Phase, now: Compilation | None, others: _Others | None) -> list[str]:
    """So that it does not happen again."""
    if phase in _AGAINST:
        return [text(_AGAINST[phase])]
    if others is not None:
        return [
            text(
                "Give all ranks a cache that lasts (TORCHINDUCTOR_CACHE_DIR), or compile on all of them before the first collective."
            )
        ]
    if now is not None and now.reason:
        return steps_against_it()
    return [text("Call it once on all ranks before the training, with the sizes that will come.")]


# --- the finding ---------------------------------------------------------------------------------------------------


def _hit(case: Case, phase: phases.Phase, same: Sequence[View]) -> Hit:
    ranks = [v.rank for v in same]
    now = next((one for v in same if (one := _under_way(v)) is not None), None)
    others = None if now is None else _others(case, now)
    wait = patience(case)
    at = _caller(same[0], phase)
    finding = Finding(
        "cpu_phase",
        "warning" if at_risk(case) else "info",
        _title(phase, ranks, at),
        rank_subjects(ranks),
        place(at),
        [
            *(words for v in same[:4] for words in (*_what(v), *seen_at(v), *_programs(v), *_before(v))),
            *([] if others is None else [_others_words(others)]),
            *case.others_wait(ranks),
            *([] if wait is None else [wait.words]),
            *others_polls(case),
        ],
        _cause(case, phase, now, others),
        [_wait_or_not(now, others, wait), *_what_to_change(phase, now, others)],
    )
    return Hit(finding, ranks)


def _title(phase: phases.Phase, ranks: Sequence[int], at: Frame | None) -> str:
    return counted(
        "{ranks} is {what} at {at} while the others wait: it gets on, nothing is stuck",
        "{ranks} are {what} at {at} while the others wait: they get on, nothing is stuck",
        len(ranks),
        ranks=ranks_words(ranks).capitalize(),
        ranks2=ranks_words(ranks),
        what=phase.words,
        at=short_place(at),
    )


def _what(view: View) -> list[str]:
    now = _under_way(view)
    if now is None or now.at is None:
        backward = view.now.thread is not None and phases.passes_through(view.now.thread.frames, phases.BACKWARD)
        words = text("rank {rank} compiles the graph of its backward pass", rank=view.rank)
        return [words] if backward and compiles(view) is phases.COMPILING else []
    so_far = "" if now.seconds is None else text(", for {time} so far", time=time_words(now.seconds))
    function = now.wraps or short_place(now.at)
    if now.number is None or now.number < 2:
        told = text("rank {rank} compiles {function}{so_far}", rank=view.rank, function=function, so_far=so_far)
    else:
        told = text(
            "rank {rank} compiles {function} for the {nth} time{so_far}",
            rank=view.rank,
            function=function,
            nth=ordinal(now.number),
            n=now.number,
            so_far=so_far,
        )
    return [told + (f": {_why(now)}" if now.reason else "")]


def _programs(view: View) -> list[str]:
    """The compilers that it has started, where it does something else itself."""
    return [] if view.served else [work_words(work) for work in started_for(view.evidence.children, math.inf)]


def _before(view: View) -> list[str]:
    """What it has compiled before: torch keeps the last 64."""
    known = _known(view) if compiles(view) is phases.COMPILING else None
    took = [] if known is None else [one.seconds for one in known.past if one.seconds is not None]
    if not took:
        return []
    return [
        counted(
            "before that, the last graph that rank {rank} compiled took {total}",
            "before that, the last {n} graphs that rank {rank} compiled took {total}, the longest {longest}",
            len(took),
            rank=view.rank,
            total=time_words(sum(took)),
            longest=time_words(max(took)),
        )
    ]


def _others_words(others: _Others) -> str:
    ranks, within = ranks_words(others.ranks), time_words(others.seconds)
    if others.cached:
        return text("{ranks} compiled the same within {time}, out of a cache", ranks=ranks, time=within)
    return text("{ranks} compiled the same within {time}", ranks=ranks, time=within)


def _wait_or_not(now: Compilation | None, others: _Others | None, wait: Patience | None) -> str:
    """The time-out comes first where what is left of it is less than what the same took elsewhere."""
    usual = None if others is None or others.cached else others.seconds
    left = None if usual is None or now is None or now.seconds is None else usual - now.seconds
    if wait is not None and left is not None and left > wait.left_s:
        return text(
            "The time-out comes first: elsewhere the same took {usual}. Give init_process_group a longer timeout=.",
            usual=time_words(usual or 0.0),
        )
    return text(
        "Wait; look again later: `traindbg stacks` shows whether it gets on. If it will take longer than the time-out, give "
        "init_process_group a longer timeout=."
    )
