"""A rank that computes something of its own for long while the others wait: tokenising, preparing data. It gets on; nothing is stuck."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ...frames import phases
from ...language import text
from ...model import Finding, rank_subjects
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .doing import Doing, Kind, phrase
from .motion import work_words
from .patience import patience
from .polls import changes, looks_at
from .words import alike, place, short_place

__all__ = ["EXPLAINS", "at_risk", "compiles", "in_phase", "others_polls", "rule", "seen_at", "waited_s"]

EXPLAINS = {"cpu_phase": ("unequal_steps", "collective_not_issued", "straggler")}
_LOOKING: frozenset[Kind] = frozenset({"sleep", "store", "lock"})
"""How a rank waits for others that looks now and then for what they give; DDP's backward pass is one call of theirs."""
_COMPILE = (phases.EXPORTING, phases.COMPILING, phases.BUILDING_EXTENSION)
EXCUSED_S = 300.0
"""Half of the time-out of a process group of NCCL."""


def rule(case: Case) -> list[Hit]:
    """Nothing for evaluating, saving and the training step itself, which others wait for in a healthy job, as long as that does not put
    their time-out at risk. What compiles has a rule of its own, where there was more than one look.
    """
    if not case.overdue or not case.waiting:
        return []
    excused = not at_risk(case)
    compiling = [v for v in case.roles("moving") if compiles(v)]
    own = [v for v in case.roles("moving") if v not in compiling and not (excused and any(map(_usual, v.doings)))]
    own += compiling if case.seen_once else []
    return [
        _hit(case, same)
        for same in alike(
            [v for v in own if v.now.kind not in ("loader", "gpu")], lambda v: v.now.frame and v.now.frame.function
        )
    ]


def at_risk(case: Case) -> bool:
    """Whether the others have waited for so long that their time-out comes near: for half of it, or of NCCL's where it is not known."""
    told = patience(case)
    return (waited_s(case) or 0.0) >= EXCUSED_S or (told is not None and told.half_gone)


def compiles(view: View) -> phases.Phase | None:
    """That a rank is compiling, exporting or building, at most of the looks; None where it is not."""
    seen = [_phase(d) for d in view.doings]
    return next((phase for phase in _COMPILE if 2 * seen.count(phase) > len(seen)), None)


def in_phase(view: View) -> str:
    """``compiling``, ``in a forward pass, then in its backward pass``: over the looks; empty where nothing is known."""
    told = [phase.words for phase, _ in groupby(map(_phase, view.doings)) if phase is not None]
    return text(", then ").join(dict.fromkeys(told))


def _phase(seen: Doing) -> phases.Phase | None:
    return phases.phase_of(seen.thread.frames) if seen.thread is not None else None


def _usual(seen: Doing) -> bool:
    phase = _phase(seen)
    return phase is not None and phase.usual


def _hit(case: Case, same: Sequence[View]) -> Hit:
    view, ranks = same[0], [v.rank for v in same]
    what, at = in_phase(view), short_place(view.now.frame)
    does = text("is {what}", what=what) if what else phrase(view.now)
    waited = waited_s(case)
    if case.seen_once:
        return _at_work(case, same, does)
    finding = Finding(
        "cpu_phase",
        "warning",
        text(
            "{ranks} {does} at {at} while the others wait: it gets on, nothing is stuck",
            ranks=ranks_words(ranks).capitalize(),
            does=does,
            at=at,
            ranks2=ranks_words(ranks),
        ),
        rank_subjects(ranks),
        place(view.now.frame),
        [*(words for v in same[:4] for words in seen_at(v)), *case.others_wait(ranks), *others_polls(case)],
        _cause(case),
        [
            text("Wait; look again later: `traindbg stacks` shows whether it gets on.")
            + ("" if waited is None else text(" The others have waited for {time} so far.", time=time_words(waited))),
            _what_to_change(case),
        ],
    )
    return Hit(finding, ranks)


def others_polls(case: Case) -> list[str]:
    """What those go by that look now and then for what comes of the work."""
    polling = [v for v in case.waiting if v.now.kind in _LOOKING]
    return [line for v in polling[:2] for line in looks_at(v)]


def _all_poll(case: Case) -> bool:
    return all(v.now.kind in _LOOKING for v in case.waiting)


def _cause(case: Case) -> str:
    if _all_poll(case):
        return text("A long piece of work on some ranks only; the others look now and then for what comes of it.")
    return text(
        "A long piece of work on some ranks only. The others wait for it in a collective, and their "
        "patience ends with the time-out of the process group (NCCL: 10 minutes by default, gloo: 30)."
    )


def _what_to_change(case: Case) -> str:
    if _all_poll(case):
        return text("If it takes too long: do the work before the job, or share it out among the ranks.")
    return text(
        "If it takes longer than the time-out: do the work before the job and read its result on all "
        "ranks, share it out, or raise init_process_group(timeout=...)."
    )


def _at_work(case: Case, same: Sequence[View], does: str) -> Hit:
    """The same where each rank was seen once: it may be on its way, or in a loop that does not end."""
    view, ranks = same[0], [v.rank for v in same]
    finding = Finding(
        "cpu_phase",
        "warning",
        text(
            "{ranks} {does} at {at} while the others wait",
            ranks=ranks_words(ranks).capitalize(),
            does=does,
            at=short_place(view.now.frame),
            ranks2=ranks_words(ranks),
        ),
        rank_subjects(ranks),
        place(view.now.frame),
        [*(words for v in same[:4] for words in seen_at(v)), *case.others_wait(ranks)],
        text(
            "Only these ranks were at work at that moment. Whether they get on, or go round in a loop that does not end, "
            "one look does not tell."
        ),
        [
            text(
                "Dump them once more, and diagnose both dumps together: at other lines they get on, at the same one they do not."
            )
        ],
    )
    return Hit(finding, ranks)


def waited_s(case: Case) -> float | None:
    """How long the others have waited."""
    return max((v.waiting_s for v in case.waiting if v.waiting_s is not None), default=None)


def seen_at(view: View) -> list[str]:
    if view.served:
        at, does = short_place(view.now.frame), phrase(view.now)
        waits = text("rank {rank} {does} at {at}", rank=view.rank, does=does, at=at)
        return [waits, *map(work_words, view.served)]
    training = view.training
    share = "" if training is None else text(", {cpu_share:.0%} of a CPU", cpu_share=training.cpu_share)
    lines = list(dict.fromkeys(short_place(d.frame) for d in view.doings if d.frame is not None))
    return [
        text(
            "rank {rank} is at {lines}{share}",
            rank=view.rank,
            lines=", then ".join(lines[:3]),
            share=share,
            lines2="、".join(lines[:3]),
        ),
        *changes(view),
    ]
