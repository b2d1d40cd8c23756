"""Calls of other places in the program that answered each other, in words: nothing hangs, and what is averaged is not what was meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...frames.forks import parting
from ...frames.whose import full_place, own_frames, short_place
from ...language import counted, text
from ...model import CallSite, CallSites, Finding, Fork, ForkAt, Frame, RankCollectives, rank_subjects
from ...words.ranks import ranks_words
from .joined import join
from .pairing import Mispaired, compared, mispaired
from .words import capital, group_words

__all__ = ["count", "findings"]


def findings(
    records: Sequence[RankCollectives],
    world_size: int,
    sites: Mapping[int, CallSites],
    forks: Mapping[ForkAt, Fork],
    *,
    stuck: bool = False,
) -> list[Finding]:
    """One for each group whose ranks answered each other with calls that do not belong together. Code: collective_mispaired.

    `sites` by rank, `forks` what the source says of functions in which their stacks part. Sound where ranks issue a call at different
    lines on purpose. Critical in a job that is `stuck` with ranks that are out of step to the end. Linear in the number of calls:
    0.4 s for 2000 calls of 300 ranks.
    """
    return [_finding(one, stuck=stuck) for one in mispaired(join(records, world_size), sites, forks)]


def count(records: Sequence[RankCollectives], world_size: int, sites: Mapping[int, CallSites]) -> int:
    """How many calls can be compared, over all groups."""
    return compared(join(records, world_size), sites)


def _finding(one: Mispaired, *, stuck: bool) -> Finding:
    ours, theirs = _frames(one)
    at = theirs if one.kind == "left out" else ours
    told = one.ranks if one.sure else sorted((*one.ranks, *one.others))
    return Finding(
        code="collective_mispaired",
        severity="critical" if stuck and one.lasts and one.kind != "names" else "warning",
        title=text(
            "{ranks} issued #{n} of {group} at {ours}, and {others} at {theirs}: two calls that do not belong together",
            ranks=capital(ranks_words(one.ranks)),
            n=one.number,
            group=group_words(one.group),
            ours=_short(ours),
            others=ranks_words(one.others),
            theirs=_short(theirs),
            ranks2=ranks_words(one.ranks),
        ),
        who=tuple(rank_subjects(told)),
        where=None if at is None else full_place(at),
        evidence=[
            _evidence(one.ranks, one.ours, ours, one),
            _evidence(one.others, one.theirs, theirs, one),
            *_extent(one),
        ],
        cause=_cause(one),
        next_steps=_steps(one, _short(ours), _short(theirs)),
        confidence="high" if one.sure and one.kind != "names" else "medium",
    )


def _frames(one: Mispaired) -> tuple[Frame | None, Frame | None]:
    """Where each side is in the user's code: the innermost lines of it that differ; in libraries alone, those at which the ways part."""
    ours, theirs = ([f for f in own_frames(site.frames) if not f.library] for site in (one.ours, one.theirs))
    found = next(((a, b) for a, b in zip(ours, theirs, strict=False) if a != b), None)
    parts = parting(one.ours, one.theirs)
    return found or ((None, None) if parts is None else (parts.first, parts.second))


def _short(frame: Frame | None) -> str:
    return text("a place that is not known") if frame is None else short_place(frame)


def _evidence(ranks: Sequence[int], site: CallSite, frame: Frame | None, one: Mispaired) -> str:
    by = _parted(one, site)
    way = "" if by is None or by == frame else text(", on the way from {at}", at=short_place(by))
    return text(
        "{ranks}: {op} #{n} at {at}{way}", ranks=ranks_words(ranks), op=site.op, n=one.number, at=_short(frame), way=way
    )


def _parted(one: Mispaired, site: CallSite) -> Frame | None:
    """The line of `site` at which the ways part."""
    parts = parting(one.ours, one.theirs)
    if parts is None:
        return None
    return parts.first if site is one.ours else parts.second


def _extent(one: Mispaired) -> list[str]:
    """How many calls are wrong, and whether it goes on."""
    found = [
        counted(
            "{count} of the last {total} calls of this group is paired wrongly (#{first})",
            "{count} of the last {total} calls of this group are paired wrongly (#{first} to #{last})",
            one.count,
            count=one.count,
            total=one.total,
            first=one.number,
            last=one.last,
        )
    ]
    if not one.before:
        found.append(text("the calls before are not in the record any more"))
    if one.behind:
        found.append(_apart(one, one.behind))
    elif one.behind == 0:
        found.append(text("the latest calls are paired as they should be"))
    return found


def _apart(one: Mispaired, behind: int) -> str:
    ranks, others = ranks_words(one.ranks), ranks_words(one.others)
    if behind > 0:
        return counted(
            "now {ranks}: {some} call behind {others}, each is answered by another one than its own",
            "now {ranks}: {some} calls behind {others}, each is answered by another one than its own",
            behind,
            ranks=ranks,
            some=behind,
            others=others,
        )
    return counted(
        "now {ranks}: {some} call ahead of {others}, each is answered by another one than its own",
        "now {ranks}: {some} calls ahead of {others}, each is answered by another one than its own",
        -behind,
        ranks=ranks,
        some=-behind,
        others=others,
    )


def _cause(one: Mispaired) -> str:
    ours, theirs = _frames(one)
    if one.names is not None:
        return text(
            'What one side calls "{first}" is put together with what the other one calls "{second}".',
            first=one.names[0],
            second=one.names[1],
        )
    ranks, others = ranks_words(one.ranks), ranks_words(one.others)
    if not one.sure:
        return text(
            "The ranks come to these calls in different order, or one of them has left one out: each call was answered by "
            "another one, and as the sizes agree, nobody noticed. What they give is a mixture of two things."
        )
    if one.kind in ("extra", "left out"):
        at, without = (ours, others) if one.kind == "extra" else (theirs, ranks)
        return text(
            "The call at {at} was not made by {others}, whose next one has answered it; as the sizes agree, nobody noticed. What both "
            "give is a mixture of two things.",
            at=_short(at),
            others=without,
        )
    return text(
        "{ranks} came to these calls in another order: each was answered by another one, and as the sizes agree, nobody noticed. What they "
        "give is a mixture of two things.",
        ranks=capital(ranks),
        ranks2=ranks,
    )


def _steps(one: Mispaired, ours: str, theirs: str) -> list[str]:
    if one.names is not None:
        first = text("Reduce the same names on every rank, with a zero and a count of none where a rank has no value.")
    elif one.kind == "other order" or not one.sure:
        first = text("Make the same calls in the same order on every rank: `sorted(...)` over names, no sets.")
    elif one.kind == "extra":
        first = text("Take the call at {at} out of its branch, or let every rank make it.", at=ours)
    else:
        first = text("Let every rank make the call at {at}, with zeros where it has nothing to add.", at=theirs)
    return [
        first,
        text(
            "Do not trust what was reduced since #{n}: metrics, flags, gradients that were averaged by hand.",
            n=one.number,
        ),
        text("Run `%nccl_check` again afterwards: it compares the lines of every call."),
    ]
