"""C code that keeps the GIL: nothing else in the process can run Python, our agent neither."""

from __future__ import annotations

from ...frames.whose import where
from ...language import text
from ...model import Finding, Thread, rank_subjects
from ...words.durations import time_words
from .case import Case, Hit, View
from .motion import busy, thread_activity
from .words import place, short_place

EXPLAINS = {"gil_held": ("unequal_steps", "collective_not_issued", "cpu_phase")}


def rule(case: Case) -> list[Hit]:
    if not case.overdue:
        return []
    return [_hit(case, view, view.holder) for view in case.views if view.holder is not None and view.role == "still"]


def _hit(case: Case, view: View, holder: Thread) -> Hit:
    frame = where(holder.frames)
    computes = busy(thread_activity(view.activity, holder, view.pid))
    does = text("and computes") if computes else text("and sleeps")
    source = case.sources.get(f"{frame.file}:{frame.line}") if frame else None
    line = f": `{source.text}`" if source else ""
    looks = view.evidence.looks
    finding = Finding(
        "gil_held",
        "critical",
        text(
            "Rank {rank}: a C call at {short_place} keeps the GIL {does}",
            rank=view.rank,
            short_place=short_place(frame),
            does=does,
        ),
        rank_subjects([view.rank]),
        place(frame),
        [
            text(
                "thread {name} holds the GIL at every look, over {at_s}, at {short_place}{line}",
                name=holder.name,
                at_s=time_words(looks[-1].at_s - looks[0].at_s),
                short_place=short_place(frame),
                line=line,
            ),
            text("our agent could not run in it: {problem}", problem=view.evidence.problem),
            *case.others_wait([view.rank]),
        ],
        text(
            "An extension, or a long call into the standard library such as a regular expression that "
            "backtracks, does not give the GIL back; all Python threads of this process stand still until it "
            "returns, and the other ranks with it."
        ),
        [
            _next_step(computes),
            text(
                "See the native stack: py-spy dump --native --pid {pid} (pauses the process for half a second).",
                pid=view.pid,
            ),
        ],
        confidence="high" if len(looks) > 1 else "medium",
    )
    return Hit(finding, [view.rank])


def _next_step(computes: bool) -> str:
    if computes:
        return text(
            "Mend the call: bound what it is given (for a regular expression: an unambiguous pattern), or "
            "move it to a process of its own with a time-out."
        )
    return text(
        "Mend the extension: it has to release the GIL round a call that blocks (ctypes: CDLL instead of "
        "PyDLL), or call it in a process of its own."
    )
