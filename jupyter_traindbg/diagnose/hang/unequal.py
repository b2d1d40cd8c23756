"""Ranks that do not make the same number of steps: one has left a loop that the others are still in, or has counted other steps than they.

That one rank waits in another collective than the rest can also mean a call that only it makes. The source decides: who stands behind the
loop in which the others stand has run out of batches; who stands in the same loop, or in a branch on its rank, has not.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ...frames.whose import own_frames
from ...language import text
from ...model import Block, Collective, Finding, Frame, NotAvailable, rank_subjects
from ...words.ranks import ranks_words
from ..collectives.habit import departed
from .case import Case, Hit, View
from .new_groups import out_of_order
from .this_round import made
from .words import alike, on_rank, place, short_place

__all__ = ["EXPLAINS", "rule"]

EXPLAINS = {"unequal_steps": ("collective_mismatch", "collective_not_issued")}
REFERENCE = "https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html"
LAST_CALLS, LATEST_CALLS, RANKS_ASKED = 400, 8, 64
_MODULE = "/torch/nn/modules/module.py"


@dataclass(frozen=True)
class Place:
    """Ranks that wait with the same stack, outermost frame first."""

    views: Sequence[View]
    stack: Sequence[Frame]

    @property
    def ranks(self) -> list[int]:
        return [v.rank for v in self.views]


def rule(case: Case) -> list[Hit]:
    """One verdict at most, on a job that stands still with its ranks waiting for each other at different places."""
    if not case.overdue or case.suspects or case.left_out or case.roles("ended"):
        return []  # somebody else is waited for, or something else
    if any(v.now.kind == "peer" for v in case.waiting) or out_of_order(case):
        return []  # who waits for a send or a receive is told by `peers`, and for a group that is being made by `new_groups`
    waiting = [v for v in case.waiting if v.now.thread is not None]
    places = [Place(same, _stack(same[0])) for same in alike(waiting, lambda v: tuple(_stack(v)))]
    found = _left_a_loop(case, places) or _counted_otherwise(case, waiting)
    return [] if found is None else [found]


def _stack(view: View) -> list[Frame]:
    """Down to where a module is called: the loops within a model are parts of a step."""
    thread = view.now.thread
    frames = [] if thread is None else list(reversed(own_frames(thread.frames)))
    return list(itertools.takewhile(lambda f: not f.file.endswith(_MODULE), frames))


# --- loops ---------------------------------------------------------------------------------------------------------


def _left_a_loop(case: Case, places: Sequence[Place]) -> Hit | None:
    for inside in places:
        for outside in places:
            loop = None if inside is outside else _loop_left(case, inside.stack, outside.stack)
            if loop is not None:
                file, block = loop
                still = [p for p in places if p is inside or _loop_left(case, p.stack, outside.stack) == loop]
                gone = [p for p in places if p not in still]
                if _never_made(inside.views[0].pending, outside.views[0]):
                    return None  # it is that call, made in the loop by them alone, and no step too many
                if _left_out_a_call(case, still, gone):
                    return None  # it is that call, in the round that both are in
                if not _wait_for_each_other(still, gone):
                    return None  # a loop within a step, and the ones past it are held up by one of themselves
                if _further_round(inside, outside) and _did_what_is_new(still) and not _did_what_is_new(gone):
                    return None  # it is no loop of the usual step: only those in it have ever come there
                return _loop_hit(case, file, block, still, gone)
    return None


def _loop_left(case: Case, inside: Sequence[Frame], outside: Sequence[Frame]) -> tuple[str, Block] | None:
    """The outermost loop, with its file, that the one stack is in and that the other has been through; None where there is no such loop, or
    where the other is in a loop of its own, or one of them in a branch on its rank.
    """
    at = _apart(inside, outside)
    if at is None or (inside[at].file, inside[at].function) != (outside[at].file, outside[at].function):
        return None
    here, there = inside[at], outside[at]
    shared = [b for b in _around(case, here, "for", "while") if b in _around(case, there, "for", "while")]
    own = _only(case, inside, at, shared)
    if not own or _only(case, outside, at, shared) or _branches_on_rank(case, [*inside[at:], *outside[at:]]):
        return None
    behind = there.line > here.line or bool(shared)
    return own[0] if behind else None


def _apart(one: Sequence[Frame], other: Sequence[Frame]) -> int | None:
    """Where two stacks part."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)


def _further_round(inside: Place, outside: Place) -> bool:
    """Whether the ones past the loop are not behind it in the source, but before it, in the next round of a loop around both."""
    at = _apart(inside.stack, outside.stack)
    return at is not None and outside.stack[at].line <= inside.stack[at].line


def _only(case: Case, stack: Sequence[Frame], at: int, shared: Sequence[Block]) -> list[tuple[str, Block]]:
    loops = [(f.file, b) for f in stack[at:] for b in _around(case, f, "for", "while")]
    return [(file, b) for file, b in loops if not (file == stack[at].file and b in shared)]


def _branches_on_rank(case: Case, stack: Sequence[Frame]) -> bool:
    return any(on_rank(b.words) for frame in stack for b in _around(case, frame, "if"))


def _around(case: Case, frame: Frame, *kinds: str) -> list[Block]:
    blocks = case.evidence.blocks.get(frame.file, ())
    return [b for b in blocks if b.kind in kinds and b.first <= frame.line <= b.last]


def _loop_hit(case: Case, file: str, block: Block, still: Sequence[Place], gone: Sequence[Place]) -> Hit:
    inside, outside = [v for p in still for v in p.views], [v for p in gone for v in p.views]
    fewer = len(outside) <= len(inside)
    blamed = outside if fewer else inside
    which, rest = ranks_words(v.rank for v in blamed), ranks_words(v.rank for v in (inside if fewer else outside))
    name = file.rpartition("/")[2]
    loop = f"`{block.kind} {block.words}` ({name}:{block.first})"
    one = len(blamed) == 1
    if fewer:
        have, are = ("it has" if one else "they have"), ("is" if len(inside) == 1 else "are")
        title = text(
            "{which} made fewer steps: {have} left the loop that {rest} {are} still in",
            which=which.capitalize(),
            have=have,
            rest=rest,
            are=are,
            which2=which,
        )
    else:
        title = text(
            "{which} made more steps: {value} still in a loop that the others have left",
            which=which.capitalize(),
            value="it is" if one else "they are",
            which2=which,
        )
    return _hit(
        case,
        blamed,
        title,
        [
            text("the loop: {loop}", loop=loop),
            *(_stands(p, text("still in it")) for p in still[:3]),
            *(_stands(p, text("past it")) for p in gone[:3]),
        ],
        "high" if len(inside) != len(outside) else "medium",
    )


def _stands(at: Place, how: str) -> str:
    where = short_place(at.views[0].now.frame)
    return text("{ranks}: {how}, at {where}", ranks=ranks_words(at.ranks), how=how, where=where)


def _wait_for_each_other(still: Sequence[Place], gone: Sequence[Place]) -> bool:
    """Whether every rank waits in a call of which some of the other side are members, as far as the recorders tell."""
    inside, outside = {r for p in still for r in p.ranks}, {r for p in gone for r in p.ranks}
    sides = [(v, outside) for p in still for v in p.views] + [(v, inside) for p in gone for v in p.views]
    return not any((members := _members(v)) and members.isdisjoint(others) for v, others in sides)


def _left_out_a_call(case: Case, still: Sequence[Place], gone: Sequence[Place]) -> bool:
    """Whether those in the loop are past the line of the others by the source, and have not made that call in this round."""
    inside, outside = {r for p in still for r in p.ranks}, {r for p in gone for r in p.ranks}
    past = [p for p in case.evidence.past if p.behind and inside & set(p.ranks) and outside & set(p.others)]
    return any(made(case, one) is False for one in past)


def _did_what_is_new(places: Sequence[Place]) -> bool:
    """Whether each of these ranks has just made a call that did not follow those before it in any earlier step."""
    records = [v.collectives for p in places for v in p.views][:RANKS_ASKED]
    return all(r is not None and departed([(c.group, c.op) for c in r.calls], LATEST_CALLS) for r in records)


def _members(view: View) -> set[int]:
    """Of the group of its oldest call that is not completed; empty where that is not known, or is the group of all."""
    if view.collectives is None or view.pending is None:
        return set()
    return {r for g in view.collectives.groups if g.name == view.pending.group for r in g.ranks}


def _never_made(call: Collective | None, by: View) -> bool:
    """Whether another rank has not made this call in its last ones: a step of the loop makes those of the steps before."""
    collectives = by.evidence.collectives
    if call is None or isinstance(collectives, NotAvailable):
        return False
    made = [_kind(c) for c in collectives.calls[-LAST_CALLS:] if c is not by.pending]
    return bool(made) and _kind(call) not in made


def _kind(call: Collective) -> tuple[object, ...]:
    return call.group, call.op, call.input_sizes, call.dtypes


# --- counts --------------------------------------------------------------------------------------------------------


def _counted_otherwise(case: Case, waiting: Sequence[View]) -> Hit | None:
    """By the optimizers' own counts, where the agents saw them: ranks that have synchronised all along differ by the step under way, and
    by no more.
    """
    counted = [v for v in waiting if v.pace is not None and v.pace.optimizer_step is not None]
    groups = sorted(alike(counted, _step), key=lambda same: (len(same), _step(same[0])))
    if len(groups) < 2 or max(map(_step, counted)) - min(map(_step, counted)) < 2:
        return None
    odd, most = groups[0], groups[-1]
    named = ranks_words(v.rank for v in odd).capitalize()
    return _hit(
        case,
        odd,
        text(
            "{named} made {step} optimizer steps, the others {step2}",
            named=named,
            step=_step(odd[0]),
            step2=_step(most[0]),
            rank=ranks_words(v.rank for v in odd),
        ),
        [],
        "medium",
    )


def _step(view: View) -> int:
    return view.pace.optimizer_step or 0 if view.pace is not None else 0


def _hit(case: Case, blamed: Sequence[View], title: str, evidence: Sequence[str], confidence: str) -> Hit:
    ranks = [v.rank for v in blamed]
    steps = [
        text("{rank}: optimizer step {step}", rank=ranks_words(v.rank for v in same), step=_step(same[0]))
        for same in alike([v for v in case.waiting if _step(v)], _step)[:4]
    ]
    finding = Finding(
        "unequal_steps",
        "critical",
        title,
        rank_subjects(ranks),
        place(blamed[0].now.frame),
        [*evidence, *steps, *case.others_wait()],
        text(
            "The ranks' shares of the data differ in length, or one skipped batches. Every step needs all "
            "ranks, so the first step that one of them does not make waits for ever."
        ),
        [
            text(
                "Give every rank the same number of batches: DistributedSampler(drop_last=True), or count in "
                "steps instead of batches."
            ),
            text(
                "Where they must differ: `with Join([model]):` around the loop (DDP); and skip a bad batch on "
                "all ranks or on none."
            ),
        ],
        reference=REFERENCE,
        confidence=confidence,  # type: ignore[arg-type]
    )
    return Hit(finding, ranks)
