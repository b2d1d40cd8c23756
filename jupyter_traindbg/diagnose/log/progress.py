"""Whether a run went on after a line, which makes a frightening one harmless; whether it was over by then, or somebody had stopped it.

Progress is what comes from the training itself: metrics at new lines, bars and steps that count, and words that say it has completed.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from ...model import LogEvidence, LogLine
from . import signs
from .exceptions import Place, in_program, unraisable
from .metric_names import of_training

__all__ = ["ON_PURPOSE", "Progress", "progress_of"]

ON_PURPOSE = frozenset(
    ("KeyboardInterrupt", "SystemExit", "StopIteration", "GeneratorExit", "SignalException", "BdbQuit")
)
"""Exceptions by which somebody ends a run, or a generator ends: their tracebacks show no failure."""
ENOUGH = 3
"""So many later marks of progress. One or two may be older than what is above them: standard output is buffered, errors are not."""
BUFFERED = 300
"""Of a rank that its launcher says has failed: standard output, its own too, may come a whole buffer later than its last words."""


def _spread(first: int, last: int, repeats: int) -> list[int]:
    """Where the lines that were folded into one may have been: evenly between the first and the last."""
    n = min(repeats, 20)
    return sorted({first + (last - first) * i // max(1, n - 1) for i in range(max(1, n))})


def _between(numbers: Sequence[int], after: int, before: int) -> int:
    """How many of `numbers`, which are in order."""
    return bisect_left(numbers, before) - bisect_right(numbers, after)


@dataclass
class _Source:
    """What one source shows, by the numbers of its lines."""

    marks: dict[int | None, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Of progress, by rank; a bar that has come to its end in this log has as many as are enough."""
    complete: int = 0
    """The last line that speaks of a good end, of a part perhaps."""
    said: list[int] = field(default_factory=list)
    """Where the whole work is said to be complete."""
    ends: list[int] = field(default_factory=list)
    """Those, and where the bar is full and no other one has begun."""
    unfinished: list[int] = field(default_factory=list)
    """Bars that are not full."""
    stopped: int | None = None
    _open: set[str] = field(default_factory=set)
    _epoch: tuple[int, int] = (0, 0)
    _steps: dict[tuple[int | None, str], int] = field(default_factory=dict)

    def read(self, line: LogLine) -> None:
        low = line.text.lower()
        if signs.is_frame(low):
            return
        last = line.last_number or line.number
        self._epoch = signs.epoch(low) or self._epoch
        if signs.complete(low):
            self.complete = max(self.complete, last)
            if signs.final(low):
                self.said.append(last)
                self.ends.append(last)
        elif bar := signs.bar(low):
            self._bar(bar, line, last)
        elif signs.served(low) or self._counts(low, line.rank):
            self.marks[line.rank] += _spread(line.number, last, line.repeats)

    def _bar(self, bar: signs.Bar, line: LogLine, last: int) -> None:
        whole = bar.full and bar.of >= ENOUGH
        if bar.at:
            self.marks[line.rank] += _spread(line.number, last, line.repeats) * (ENOUGH if whole else 1)
        if bar.full:
            self._open.discard(bar.label)
            if not self._open and self._epoch[0] >= self._epoch[1]:
                self.ends.append(last)
        else:
            self._open.add(bar.label)
            self.unfinished.append(last)

    def _counts(self, low: str, rank: int | None) -> bool:
        """Whether the line shows a higher step than the one before."""
        counted = signs.step(low)
        if counted is None:
            return False
        name, number = counted
        before = self._steps.get((rank, name))
        self._steps[rank, name] = number
        return before is not None and number > before


class Progress:
    """Where in each source the run made progress. Building it is linear in the evidence."""

    def __init__(self, evidence: LogEvidence) -> None:
        sources: dict[int, _Source] = defaultdict(_Source)
        for line in evidence.lines:
            sources[line.source].read(line)
        for series in evidence.series:
            known = sources[series.source].marks[series.rank]
            if of_training(series.name):
                known += {number for number, _ in series.points} - set(known)
        for source in sources.values():
            source.marks = {rank: sorted(numbers) for rank, numbers in source.marks.items()}
            for numbers in (source.said, source.ends, source.unfinished):
                numbers.sort()  # a line that stands for several has the number of the last one
        self._sources = dict(sources)
        self._failed = {e.rank for e in evidence.ends if e.by_itself and e.rank is not None}
        self.let_pass = unraisable(evidence)
        """Lines of exceptions that Python could not raise."""
        self._minded = _minded(evidence, self.let_pass)
        self._elsewhere = {e.line.source for e in evidence.ends if e.by_itself}
        for line in evidence.lines:
            at = self._sources[line.source]
            if at.stopped is None and signs.stopped(line.text) and not self.after(line):
                at.stopped = line.number

    def _of(self, line: LogLine) -> _Source:
        return self._sources.get(line.source) or _Source()

    def after(self, line: LogLine, number: int | None = None) -> bool:
        """Whether the run went on well after `line` (after line `number` of its source), or said that it completed.

        A rank that shows its own steps is judged by them alone: others do some more before they notice, or their lines come later.
        """
        at = max(line.number, number or 0)
        source = self._of(line)
        if source.complete > at:
            return True
        own = source.marks.get(line.rank, []) if line.rank is not None else []
        shown = bool(own) and own[0] < line.number
        judged_by = [own] if shown else source.marks.values()
        enough = BUFFERED if line.rank in self._failed and not shown else ENOUGH
        return any(len(marks) - bisect_right(marks, at) >= enough for marks in judged_by)

    def completed(self, line: LogLine, number: int) -> bool:
        """Whether the run said that it completed, after line `number` of the source of `line`."""
        return self._of(line).complete > number

    def over(self, line: LogLine, *, said: bool = False) -> bool:
        """Whether the work was complete before `line`, and no exception of the program and no launcher minds what came then.

        What is printed after that tells of processes being ended: it is no failure of the work. With `said` a full bar is not enough.
        """
        source = self._of(line)
        ends = source.said if said else source.ends
        at = bisect_left(ends, line.number)
        if not at or self._elsewhere - {line.source}:
            return False
        end = ends[at - 1]
        begun = sum(_between(marks, end, line.number) for marks in source.marks.values())
        goes_on = begun >= ENOUGH or _between(source.unfinished, end, line.number) > 0
        return not goes_on and self._minded.get(line.source, 0) <= end

    def anywhere_but(self, source: int) -> bool:
        """Whether another source shows work that goes on."""
        return any(
            len(marks) >= ENOUGH for n, of in self._sources.items() if n != source for marks in of.marks.values()
        )

    def stopped_before(self, line: LogLine) -> bool:
        """Whether a person had stopped the run (Ctrl-C) before `line`, for good: what follows is it being torn down."""
        stopped = self._of(line).stopped
        return stopped is not None and stopped < line.number


_latest: tuple[weakref.ref[LogEvidence], Progress] | None = None


def progress_of(evidence: LogEvidence) -> Progress:
    """The progress in `evidence`. It is made once for all who judge the same evidence, one after the other."""
    global _latest
    known = _latest
    if known is None or known[0]() is not evidence:
        known = _latest = weakref.ref(evidence), Progress(evidence)
    return known[1]


def _minded(evidence: LogEvidence, let_pass: Set[Place]) -> Mapping[int, int]:
    """By source, the last line of a failure of the program itself: an exception of its own code, or a process that its launcher reports."""
    found: dict[int, int] = defaultdict(int)
    for error in evidence.errors:
        place = (error.line.source, error.line.number)
        on_purpose = error.type.rpartition(".")[2] in ON_PURPOSE
        if place not in let_pass and not on_purpose and in_program(error):
            found[place[0]] = max(found[place[0]], place[1])
    for end in evidence.ends:
        if end.by_itself:
            found[end.line.source] = max(found[end.line.source], end.line.number)
    return found
