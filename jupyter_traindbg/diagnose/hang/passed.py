"""How a rank got past a call at which the others wait: the branch, the handler or the loop of the source that leads there, the exception
that it handles, and what DistributedDataParallel left out of a backward pass that it did run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...frames.phases import in_backward
from ...language import counted, text
from ...model import Detour, Finding, Frame, Past, Replica
from ...words.ranks import ranks_words
from ...words.values import variable_words
from .case import Case, View
from .this_round import made, made_fewer
from .words import on_rank, short_place

__all__ = ["told"]

_OF_CALLS = frozenset({"collective_mismatch", "collective_not_issued"})
"""Findings whose cause a way past the call is."""
_OF_ROUNDS = _OF_CALLS | {"unequal_steps"}
"""Those that a round which was left out explains as well."""
_OF_COLLECTIVES = _OF_ROUNDS | {"collective_order"}
_ELSEWHERE = _OF_COLLECTIVES | {"lock_wait", "python_wait"}
MOST_NAMES = 4


def told(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with that in the evidence of those that blame ranks for not doing what the others do; and as their cause, where nothing
    else can have led past the call.
    """
    return [_with(case, f) if f.severity == "critical" and f.code in _ELSEWHERE and f.ranks else f for f in findings]


@dataclass(frozen=True)
class _Why:
    """What is known of it, in words. ``cause`` is empty where it is not sure."""

    evidence: Sequence[str] = ()
    cause: str = ""
    steps: Sequence[str] = ()


def _with(case: Case, finding: Finding) -> Finding:
    own = [v for rank in finding.ranks if (v := case.by_rank.get(rank)) is not None]
    direct, others = _past(case, finding.ranks)
    why = None if direct is None else _went(case, direct)
    if why is None:
        one_more = _makes_one_more(case, own, others) if finding.code in _OF_COLLECTIVES else _Why()
        before = _left_out(case, direct) if finding.code in _OF_ROUNDS else _Why()
        why = _joined(one_more, before)
    found = dataclasses.replace(
        finding, evidence=tuple(dict.fromkeys((*finding.evidence, *why.evidence, *_handled(own))))
    )
    if not why.cause:
        return dataclasses.replace(found, next_steps=(*why.steps, *found.next_steps))
    if finding.code in _OF_CALLS:
        return dataclasses.replace(found, cause=why.cause, next_steps=tuple(why.steps))
    return found  # it knows better


def _past(case: Case, blamed: Sequence[int]) -> tuple[Past | None, Past | None]:
    """The ranks in question past the line of most of those that wait; and those past theirs."""
    waiting, first = {v.rank for v in case.waiting} - set(blamed), blamed[0]
    known = case.evidence.past
    direct = [p for p in known if first in p.ranks and waiting & set(p.others)]
    others = [p for p in known if first in p.others and waiting & set(p.ranks) and p.detours]
    return (
        max(direct, key=lambda p: len(p.others), default=None),
        max(others, key=lambda p: len(p.ranks), default=None),
    )


def _went(case: Case, past: Past, *, usually: bool = True) -> _Why | None:
    """By which way ranks have gone past the call in this round; None where they may not have. ``usually``: see `this_round.made`."""
    unused = _unused(case, past)
    if unused is not None:
        return unused
    taken = [one for one in past.detours if one.taken]
    if not (_are_waited_for(case, past) and (taken or made(case, past, usually=usually) is False)):
        return None
    ways = taken or past.detours
    if not ways:
        return _ran_it(case, past) if past.behind and _in_backward(case, past) else None
    words = _words(case, past, [one for one in ways if one.kind != "loop"] or ways)
    return _Why([words]) if len(ways) > 1 else _Why([words], _cause(past, ways[0]), [_step(ways[0])])


def _are_waited_for(case: Case, past: Past) -> bool:
    """Whether the ranks belong to the group in whose call the others wait, as far as that is known."""
    view = case.by_rank.get(past.others[0])
    if view is None or view.collectives is None or view.pending is None:
        return True
    members = next((g.ranks for g in view.collectives.groups if g.name == view.pending.group), ())
    return not members or past.ranks[0] in members


def _makes_one_more(case: Case, own: Sequence[View], others: Past | None) -> _Why:
    """Why ranks make a call that the others do not make, where something tells that they do."""
    went = None if others is None else _went(case, others, usually=False)
    return _joined(went or _Why(), _more_forward(own))


def _joined(one: _Why, other: _Why) -> _Why:
    return _Why([*one.evidence, *other.evidence], one.cause or other.cause, [*one.steps, *other.steps])


def _left_out(case: Case, past: Past | None) -> _Why:
    """Ways by which a round may have been left out before, and were not to be."""
    known = () if past is None else (*past.detours, *past.skips)
    ways = [one for one in known if one.kind != "loop" and not _is_meant(one)]
    if past is None or not ways:
        return _Why()
    words = "; ".join(map(_detour_words, ways))
    said = text("{at} is left out in a round in which: {words}", at=_where_they_wait(case, past), words=words)
    return _Why([said], steps=[_step(ways[0])] if len(ways) == 1 else [])


def _is_meant(one: Detour) -> bool:
    """Whether it is a branch that is there to lead some ranks past it."""
    return one.kind == "condition" and on_rank(one.words)


def _where_they_wait(case: Case, past: Past) -> str:
    view = case.by_rank.get(past.others[0])
    return short_place(past.line if view is None or view.now.frame is None else view.now.frame)


def _words(case: Case, past: Past, ways: Sequence[Detour]) -> str:
    at, ranks, others = _where_they_wait(case, past), ranks_words(past.ranks), ranks_words(past.others)
    words = "; ".join(map(_detour_words, ways))
    if len(ways) == 1:
        return counted(
            "{ranks} went past {at}, where {others} waits: {words}",
            "{ranks} went past {at}, where {others} wait: {words}",
            len(past.others),
            ranks=ranks,
            at=at,
            others=others,
            words=words,
        )
    return text("past {at} leads one of these: {words}", at=at, words=words)


def _detour_words(one: Detour) -> str:
    at, words = short_place(one.at), one.words
    values = f" ({variable_words(one.values)})" if one.values else ""
    if one.kind == "condition":
        return (
            text("`{words}` at {at} held{values}", words=words, at=at, values=values)
            if one.holds
            else text("`{words}` at {at} did not hold{values}", words=words, at=at, values=values)
        )
    if one.kind == "exception":
        return (
            text("an exception was caught at {at}: `except {words}`", at=at, words=words)
            if words
            else text("an exception is on its way out, past {at}", at=at)
        )
    if one.kind == "loop":
        return text("the loop `{words}` at {at} ended, or never began", words=words, at=at)
    return text("gradients are not reduced within `{words}` at {at}", words=words, at=at)


def _cause(past: Past, way: Detour) -> str:
    ranks = ranks_words(past.ranks)
    if _is_meant(way):
        return text("The call is in a branch that not every rank takes.")
    causes = {
        "condition": text(
            "The condition came out otherwise on {ranks} than on the others, and led past the call.", ranks=ranks
        ),
        "exception": text("An exception on {ranks} led past the call.", ranks=ranks),
        "loop": text("The loop was over earlier on {ranks} than on the others.", ranks=ranks),
        "unsynchronised": text(
            "Some ranks reduce their gradients in this backward pass, and {ranks} only accumulated them: they count their micro-batches "
            "in different ways.",
            ranks=ranks,
        ),
    }
    return causes[way.kind]


def _step(way: Detour) -> str:
    at = short_place(way.at)
    if _is_meant(way):
        return text(
            "Let every rank come to the call: move it out of the branch at {at}, or into it on all ranks.", at=at
        )
    steps = {
        "condition": text(
            "Have all ranks decide alike at {at}: all_reduce the flag (MIN or MAX) first, and go by what comes of it.",
            at=at,
        ),
        "exception": text(
            "Do not go on alone after the exception at {at}: let it end the program, or all_reduce a flag and have all ranks leave the "
            "step out.",
            at=at,
        ),
        "loop": text("Give all ranks the same number of rounds at {at}.", at=at),
        "unsynchronised": text(
            "Decide at {at} by a count that is the same on all ranks, as the number of the batch, not by one that skips batches.",
            at=at,
        ),
    }
    return steps[way.kind]


# --- the exception that is being handled ----------------------------------------------------------------------------


def _handled(views: Iterable[View]) -> list[str]:
    return [
        text(
            "rank {rank} handles {type}{words}, raised at {at}",
            rank=view.rank,
            type=error.type,
            words=f": {error.words}" if error.words else "",
            at=short_place(error.raised_at),
        )
        for view in views
        for error in view.evidence.handled
    ][:MOST_NAMES]


# --- what DistributedDataParallel does not reduce -------------------------------------------------------------------


def _unused(case: Case, past: Past) -> _Why | None:
    """Of ranks that were in the backward pass that others wait in: the parameters for which no gradient came; None where that is not it."""
    here, there = _replica(case, past.ranks), _replica(case, past.others)
    if not (past.behind and _in_backward(case, past)) or made_fewer(case, past) is False:
        return None
    if here is None or there is None or here.name != there.name:
        return None
    cleared = len(here.without) == here.parameters  # by zero_grad(); the optimizer's counts tell what there was before
    without = [*_more(here.left_out, there.left_out)] if cleared else [*_more(here.without, there.without)]
    if not without:
        return None
    ranks, named = ranks_words(past.ranks), _names(without)
    seen = text(
        "{ranks} had no gradient for {count} of {parameters} parameters of {model}, unlike {others}: {named}",
        ranks=ranks,
        count=len(without),
        parameters=here.parameters,
        model=here.name,
        others=ranks_words(past.others),
        named=named,
    )
    cause = text(
        "The forward pass of {ranks} did not use these parameters. DistributedDataParallel reduces only when each of them has a gradient, "
        "and the other ranks wait for that.",
        ranks=ranks,
    )
    if here.finds_unused:
        return _Why([seen])
    return _Why(
        [seen],
        cause,
        [
            text("Let every rank use all parameters in every step: add `0.0 * p.sum()` of the others to the loss."),
            text(
                "Or DistributedDataParallel(..., find_unused_parameters=True), which walks through the graph at every step."
            ),
        ],
    )


def _more(names: Sequence[str], than: Sequence[str]) -> Iterator[str]:
    known = set(than)
    return (name for name in names if name not in known)


def _ran_it(case: Case, past: Past) -> _Why:
    ranks, at = ranks_words(past.ranks), _where_they_wait(case, past)
    return _Why(
        [text("{ranks} ran {at} as well: nothing in the source leads past it", ranks=ranks, at=at)],
        text(
            "The backward pass of {ranks} reduced nothing: its forward pass did not go through the DistributedDataParallel wrapper "
            "(model.module was called), or ran within no_sync().",
            ranks=ranks,
        ),
        [text("Call the wrapper itself wherever gradients are needed, on all ranks or on none.")],
    )


def _more_forward(views: Sequence[View]) -> _Why:
    """Of ranks in a forward pass that begins with the broadcast of a model's buffers."""
    inside = [v for v in views if v.now.thread is not None and any(map(_sends_buffers, v.now.thread.frames))]
    if not inside:
        return _Why()
    ranks, at = ranks_words(v.rank for v in inside), short_place(inside[0].now.frame)
    return _Why(
        [
            text(
                "{ranks}: a forward pass at {at}, with which DistributedDataParallel broadcasts the model's buffers",
                ranks=ranks,
                at=at,
            )
        ],
        text(
            "A forward pass of a model with buffers, as BatchNorm's, is a collective of DistributedDataParallel: {ranks} made one more "
            "than the others.",
            ranks=ranks,
        ),
        [
            text(
                "Call model.module where not all ranks make the pass, as in validation on one of them; or let all of them make it."
            )
        ],
    )


def _sends_buffers(frame: Frame) -> bool:
    return (
        frame.file.endswith("torch/nn/parallel/distributed.py")
        and "_sync" in frame.function
        and "buffers" in frame.function
    )


def _in_backward(case: Case, past: Past) -> bool:
    """Whether those who wait do so for the reduction of gradients."""
    threads = [v.now.thread for rank in past.others[:1] if (v := case.by_rank.get(rank)) is not None]
    return any(t is not None and in_backward(t.frames) for t in threads)


def _replica(case: Case, ranks: Sequence[int]) -> Replica | None:
    view = case.by_rank.get(ranks[0])
    held = () if view is None else view.evidence.replicas
    return held[0] if len(held) == 1 else None


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (text(" and {more} more", more=more) if more > 0 else "")
