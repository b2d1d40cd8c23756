"""Whether a run went on after a line, which makes a frightening one harmless; and whether a person had stopped it before.

Progress is what comes from the training itself: metrics at new lines, bars that count, and words that say the run has completed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict

from ...model import LogEvidence, LogLine

__all__ = ["COMPLETED", "ON_PURPOSE", "Progress"]

ON_PURPOSE = frozenset(
    ("KeyboardInterrupt", "SystemExit", "StopIteration", "GeneratorExit", "SignalException", "BdbQuit")
)
"""Exceptions by which somebody ends a run, or a generator ends: their tracebacks show no failure."""
ENOUGH = 3
"""So many later lines of progress. One or two may be older than what is above them: standard output is buffered, errors are not."""
BUFFERED = 300
"""Of a rank that its launcher says has failed: standard output of the others may come a whole buffer later than its last words."""

COMPLETED = (
    "training completed",
    "training complete",
    "training finished",
    "training done",
    "finished training",
    "executed successfully",
    "completed successfully",
    "finished successfully",
    "job succeeded",
    "completed in ",
    "execution finished in ",
    "train_runtime",
    "final validation metrics",
    "successfully saved checkpoint",
    "max_epochs=",
    "max_steps=",
    "stopping training due to num_updates",
)
"""What is printed at a good end, in lower case."""

_REACHED = re.compile(r"max_(?:epochs|steps)=(?!.*reached)")
_SUCCESS = re.compile(r"^\W*success\W*$")
_STOPPED = re.compile(r"\bKeyboardInterrupt\b|^\^C|[Cc]trl-[Cc] pressed")
_SERVED = re.compile(r'"post [^"]{1,200}" 200\b')
"""A server that goes on answering what it is asked; its health and metrics are answered by the front door alone."""
_BAR = re.compile(r"\b([1-9]\d*)/\d+ ?\[\d+:\d\d")
_NOT_TRAINING = re.compile(r"load|download|extract|generat|\bmap\b|token|fetch|filter|captur|compil|shard")


def _spread(first: int, last: int, repeats: int) -> list[int]:
    """Where the lines that were folded into one may have been: evenly between the first and the last."""
    n = min(repeats, 20)
    return [first + (last - first) * i // max(1, n - 1) for i in range(max(1, n))]


class Progress:
    """Where in each source the run made progress. Building it is linear in the evidence."""

    def __init__(self, evidence: LogEvidence) -> None:
        marks: dict[tuple[int, int | None], set[int]] = defaultdict(set)
        completed: dict[int, int] = defaultdict(int)
        for series in evidence.series:
            marks[series.source, series.rank].update(number for number, _ in series.points)
        for line in evidence.lines:
            last = line.last_number or line.number
            low = line.text.lower()
            if low.lstrip().startswith('file "'):
                continue  # a frame of a traceback; files are called all sorts of things
            if (any(words in low for words in COMPLETED) and not _REACHED.search(low)) or _SUCCESS.match(low):
                completed[line.source] = max(completed[line.source], last)
            elif ("[" in low and _BAR.search(low) and not _NOT_TRAINING.search(low)) or (
                '" 200' in low and _SERVED.search(low)
            ):
                marks[line.source, line.rank].update(_spread(line.number, last, line.repeats))
        self._marks: dict[int, dict[int | None, list[int]]] = defaultdict(dict)
        for (source, rank), numbers in marks.items():
            self._marks[source][rank] = sorted(numbers)
        self._completed = completed
        self._failed = {e.rank for e in evidence.ends if e.by_itself and e.rank is not None}
        self._stopped: dict[int, int] = {}
        for line in evidence.lines:
            if line.source not in self._stopped and _STOPPED.search(line.text) and not self.after(line):
                self._stopped[line.source] = line.number

    def after(self, line: LogLine, number: int | None = None) -> bool:
        """Whether the run went on well after `line` (after line `number` of its source), or said that it completed.

        A rank that shows its own steps is judged by them alone: others do some more before they notice, or their lines come later.
        """
        at = max(line.number, number or 0)
        if self._completed.get(line.source, 0) > at:
            return True
        of_ranks = self._marks.get(line.source, {})
        own = of_ranks.get(line.rank, []) if line.rank is not None else []
        judged_by = [own] if own and own[0] < line.number else of_ranks.values()
        enough = BUFFERED if line.rank in self._failed and not own else ENOUGH
        return any(len(marks) - bisect_right(marks, at) >= enough for marks in judged_by)

    def completed(self, line: LogLine, number: int) -> bool:
        """Whether the run said that it completed, after line `number` of the source of `line`."""
        return self._completed.get(line.source, 0) > number

    def stopped_before(self, line: LogLine) -> bool:
        """Whether a person had stopped the run (Ctrl-C) before `line`, for good: what follows is it being torn down."""
        return self._stopped.get(line.source, line.number) < line.number
