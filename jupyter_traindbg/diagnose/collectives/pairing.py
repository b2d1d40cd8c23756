"""Which calls the ranks of a group have answered each other with: places of the program under the same number, and whether that is meant.

Ranks may issue a call at different lines on purpose: each in its own arm of an ``if``, in a function of its own, or those that have
finished answer the others until all have. What is left is a mistake: a call that some left out, or made besides, or in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from ...frames.forks import parting
from ...model import CallSite, CallSites, Fork, ForkAt
from .alike import Alike, Window, windows
from .habit import departed
from .joined import Joined

__all__ = ["Mispaired", "compared", "mispaired"]

MOST_BEHIND = 8
HORIZONS = (200, 40, 20, 12, 6)
"""Over so many calls a shift has to explain every one of them."""
LEAST_ODD, OFTEN, A_HABIT = 3, 3, 3
MOST_CALLS = 0.5
"""So many have to be odd where the source does not tell: tasks that ranks take in turns are one call of several in a step."""
_BY_JOIN = "torch/distributed/algorithms/join.py"
"""torch's context for uneven inputs answers for ranks that have none left (torch.distributed.algorithms.Join)."""

Kind = Literal["extra", "left out", "other order", "names"]
Places = Sequence[CallSite]


@dataclass(frozen=True)
class Mispaired:
    """Ranks of `group` whose calls were answered by other calls than theirs.

    As number ``number`` they issued ``ours``, and the others ``theirs``: the first pair that is wrong, ``before`` is whether calls were
    paired well before it; the last is ``last``, and in all ``count`` of ``total`` calls. ``names``: the texts with which both lines call
    the same function, where these are what is wrong. ``behind``: so many calls `ranks` are behind the others now (negative: ahead); 0
    where they are in step again; None where that cannot be told. ``lasts``: they are, or may be, out of step to the end of the record.
    ``sure``: whether it is these ranks that do what the others do not.
    """

    group: Joined
    ranks: Sequence[int]
    others: Sequence[int]
    number: int
    ours: CallSite
    theirs: CallSite
    before: bool
    last: int
    count: int
    total: int
    kind: Kind
    behind: int | None
    lasts: bool
    sure: bool
    names: tuple[str, str] | None = None


def compared(groups: Sequence[Joined], sites: Mapping[int, CallSites]) -> int:
    """How many calls could be compared between at least two ranks."""
    return sum(len(window.numbers) for window in windows(groups, sites))


def mispaired(
    groups: Sequence[Joined], sites: Mapping[int, CallSites], forks: Mapping[ForkAt, Fork]
) -> list[Mispaired]:
    """Of each group the ranks that fell out of step first; empty where all is as it was written. Linear in the number of calls.

    `sites` by rank. `forks`: what the source says of functions in which stacks part; where it is not known, two places are said to be
    mispaired only if a shift, or an order that differs again and again, proves it.
    """
    found = []
    for window in windows(groups, sites):
        most, *others = window.ranks
        odd = [one for alike in others if (one := _Two(window, alike, most, forks).mispaired()) is not None]
        found += sorted(odd, key=lambda one: one.number)[:1]
    return found


class _Two:
    """The calls of two kinds of ranks, number by number."""

    def __init__(self, window: Window, own: Alike, most: Alike, forks: Mapping[ForkAt, Fork]) -> None:
        self._window, self._own, self._most, self._forks = window, own, most, forks
        self._ours, self._theirs = own.places, most.places
        self._our_own = set(self._ours) - set(self._theirs)
        self._their_own = set(self._theirs) - set(self._ours)
        self._known: dict[tuple[CallSite, CallSite], tuple[str, tuple[str, str] | None]] = {}
        self._verdicts = [self._verdict(a, b) for a, b in zip(self._ours, self._theirs, strict=True)]

    def mispaired(self) -> Mispaired | None:
        runs = self._runs()
        reordered = len(runs) >= OFTEN and all(self._same_calls(run) for run in runs)
        wrong: list[int] = []
        for run in runs:
            share = MOST_CALLS if all(self._verdicts[i] == "open" for i in run) else 0.0
            if reordered or _shift(self._ours, self._theirs, run.start, share) is not None:
                wrong += run
            elif not self._is_tail(run):
                wrong += [i for i in run if self._verdicts[i] == "odd"]
        if not wrong:
            return self._named()
        unknown_start = wrong[0] == 0 and self._window.numbers[0] > 1
        if unknown_start and self._window.group.backend == "gloo":  # it may be merely counted differently (`windows`)
            return None
        end = next(run.stop for run in runs if wrong[0] in run)
        return self._told(wrong, range(wrong[0], end), None)

    def _runs(self) -> list[range]:
        """Pairs next to each other that are not as they should be, or of which that is not known."""
        found, at = [], 0
        for good, run in groupby(self._verdicts, key=lambda v: v not in ("odd", "open")):
            length = len(list(run))
            if not good:
                found.append(range(at, at + length))
            at += length
        return found

    # --- one pair

    def _verdict(self, ours: CallSite, theirs: CallSite) -> str:
        if ours is theirs:
            return "same"
        if (ours, theirs) not in self._known:
            self._known[ours, theirs] = self._judged(ours, theirs)
        return self._known[ours, theirs][0]

    def _judged(self, ours: CallSite, theirs: CallSite) -> tuple[str, tuple[str, str] | None]:
        """``meant``, ``odd``, ``named`` (with the names), or ``open``."""
        parts = parting(ours, theirs)
        if parts is None or any(_BY_JOIN in frame.file for site in (ours, theirs) for frame in site.frames):
            return "meant", None
        fork = self._forks.get(parts.at) if parts.one_function else None
        each_its_own = ours in self._our_own and theirs in self._their_own
        if fork is not None and fork.names is not None and "barrier" not in ours.op and (fork.apart or each_its_own):
            return "named", fork.names if parts.first.line < parts.second.line else fork.names[::-1]
        if each_its_own or (fork is not None and fork.apart):
            return "meant", None
        return ("open" if fork is None else "odd"), None

    # --- one run

    def _same_calls(self, run: range) -> bool:
        """Whether both have issued the same calls in it, in another order."""
        ours, theirs = (Counter(places[run.start : run.stop]) for places in (self._ours, self._theirs))
        return ours == theirs

    def _is_tail(self, run: range) -> bool:
        """Whether the ones have left a loop and answer the others until these have left it, too, and all go on together; or may yet."""
        ours, theirs = (set(places[run.start : run.stop]) for places in (self._ours, self._theirs))
        if ours & theirs or len(run) == len(self._verdicts):
            return False
        if run.stop == len(self._verdicts):
            return True
        before = {self._ours[run.start - 1]} if run.start else ours | theirs
        after = {self._ours[run.stop]}
        left = [one for one, other in ((ours, theirs), (theirs, ours)) if before & one and after & other]
        if not left:
            return False
        answers = theirs if left[0] is ours else ours
        onward = next((i for i in range(run.stop, len(self._verdicts)) if self._ours[i] not in answers), None)
        return onward is None or self._verdicts[onward] in ("same", "meant")

    # --- what is told

    def _kind(self, run: range, *, swap: bool) -> Kind:
        """What those did who are to blame: of a shift in a loop of two calls, which both sides explain, that they left one out."""
        ours, theirs = (self._theirs, self._ours) if swap else (self._ours, self._theirs)
        our_own, their_own = (self._their_own, self._our_own) if swap else (self._our_own, self._their_own)
        shift = _shift(ours, theirs, run.start)
        if self._same_calls(run) and len(run) > 1 and (shift is None or run.start == 0):
            return "other order"
        if ours[run.start] in our_own:
            return "extra"
        if theirs[run.start] in their_own:
            return "left out"
        if shift is None:
            return "other order"
        return "extra" if shift > 0 else "left out"

    def _named(self) -> Mispaired | None:
        wrong = [i for i, verdict in enumerate(self._verdicts) if verdict == "named"]
        if not wrong:
            return None
        names = self._known[self._ours[wrong[0]], self._theirs[wrong[0]]][1]
        return self._told(wrong, range(wrong[0], wrong[0] + 1), names)

    def _told(self, wrong: Sequence[int], run: range, names: tuple[str, str] | None) -> Mispaired:
        first = wrong[0]
        swap, sure = self._blamed(wrong, named=names is not None)
        if not sure:
            swap = min(self._most.ranks) < min(self._own.ranks)
        kind: Kind = "names" if names is not None else self._kind(run, swap=swap)
        behind = self._behind_now(early=(kind == "left out") is not swap)
        ours, theirs = self._ours[first], self._theirs[first]
        every = {rank for alike in self._window.ranks for rank in alike.ranks}
        ranks = sorted(every - set(self._own.ranks)) if swap else list(self._own.ranks)
        return Mispaired(
            self._window.group,
            ranks,
            sorted(every - set(ranks)),
            self._window.numbers[first],
            theirs if swap else ours,
            ours if swap else theirs,
            before=first > 0,
            last=self._window.numbers[wrong[-1]],
            count=len(wrong),
            total=len(self._verdicts),
            kind=kind,
            behind=-behind if swap and behind is not None else behind,
            lasts=bool(behind) or (behind is None and wrong[-1] >= len(self._verdicts) - MOST_BEHIND),
            sure=sure,
            names=names[::-1] if swap and names is not None else names,
        )

    def _blamed(self, wrong: Sequence[int], *, named: bool) -> tuple[bool, bool]:
        """Whether it is the others that are to blame, and whether one side is for sure: the fewer, else those that alone make a call that
        the others never make, or that do something else than what they always did.
        """
        if 2 * len(self._most.ranks) > sum(len(alike.ranks) for alike in self._window.ranks):
            return False, True
        if named:
            return False, False
        first = wrong[0]
        ours, theirs = (
            any(places[i] in own for i in wrong)
            for places, own in ((self._ours, self._our_own), (self._theirs, self._their_own))
        )
        if ours is theirs:
            ours, theirs = (departed(places[: first + 1], least=A_HABIT) for places in (self._ours, self._theirs))
        return theirs and not ours, ours is not theirs

    def _behind_now(self, *, early: bool) -> int | None:
        """0 where the latest calls are paired well, and would not be if they were shifted."""
        for horizon in HORIZONS[::-1]:
            for shift in _shifts(early=early):
                start = len(self._ours) - abs(shift) - horizon
                if start >= 0 and _explains(self._ours, self._theirs, start, shift, horizon):
                    return shift
        latest = range(max(0, len(self._ours) - HORIZONS[-1]), len(self._ours))
        several = len({self._ours[i] for i in latest}) > 1
        return 0 if several and all(self._verdicts[i] in ("same", "meant") for i in latest) else None


def _shifts(*, early: bool = True) -> list[int]:
    """The smallest first. Of two that do equally well, as in a loop of two calls, `early` chooses."""
    return sorted((s for s in range(-MOST_BEHIND, MOST_BEHIND + 1) if s), key=lambda s: (abs(s), (s < 0) is not early))


def _shift(ours: Places, theirs: Places, start: int, share: float = 0.0) -> int | None:
    """By how many calls `ours` is late from `start` on (negative: early), where that explains every call for long, and being in step does
    not, at least of that share of them; None where no shift does.
    """
    return next(
        (s for s in _shifts() if any(_explains(ours, theirs, start, s, h, share=share) for h in HORIZONS)), None
    )


def _explains(ours: Places, theirs: Places, start: int, shift: int, horizon: int, *, share: float = 0.0) -> bool:
    stop = min(start + horizon, len(ours) - abs(shift))
    if stop - start < HORIZONS[-1]:
        return False
    late, early = max(0, shift), max(0, -shift)
    agree = all(ours[i + late] is theirs[i + early] for i in range(start, stop))
    if not agree or len({id(ours[i + late]) for i in range(start, stop)}) < 2:
        return False
    odd = sum(ours[i] is not theirs[i] for i in range(start, stop))
    return odd >= max(LEAST_ODD, abs(shift) + 1, share * (stop - start))
