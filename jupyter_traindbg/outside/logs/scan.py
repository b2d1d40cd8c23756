"""One pass over a log of any size: which lines are worth keeping. Bounded memory; the work per line is the automaton's, not Python's.

A block is searched for all literals at once. A line with some is kept until its kind (the literals that it has, and who wrote it) has come
`QUOTA` times; of the later ones the last `QUOTA` are. So a million lines about the same are a hundred, and one that is new is never lost.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

from ...model.logs import LogStageName
from .columns import is_row
from .lines import LONGEST
from .markers import FRAME, KEEP, NONFINITE, STAGE, TYPE, Automaton
from .markers import metrics as metrics_automaton

__all__ = ["Kept", "Scan"]

QUOTA, SCARCE = 50, 3
"""So many first and so many last lines of a kind are kept; and so many, once the log has shown too many kinds."""
BEFORE, AFTER = 3, 6
ENDS = 200
"""Lines at each end of a source that are kept whatever they say."""
WHOLE_LINES = 5000
"""A source of so many lines is kept whole, unless it is larger than `_WHOLE_BYTES` or one of many."""
_WHOLE_BYTES = 2**23
_WHOLE_TOGETHER = 20_000
_KEPT_BYTES = 3 * 2**20
_KEPT_LINES = 18_000
_MOST_KINDS, _KINDS_BY_WRITER = 10_000, 3000
_WIDE_RINGS, _MOST_RINGS = 400, 2000
"""Of so many kinds the last `QUOTA` lines are kept; of so many, the last `SCARCE`."""
_CONTEXT_BYTES = 2**11
_SAMPLE, _FIRST_SAMPLE = 16, 1000
"""So many lines with metrics are read of a block of a large log (more of its first ones), and every line with a nan that is new."""
ROW_BYTES = 256
"""So much of a line tells whether it is a row of numbers."""
_RECENT = 4
"""Blocks that are kept until it is known which of their lines are among the last of a kind."""
_STAGES_A_BLOCK = 40

_WRITER = re.compile(
    rb"(?:\x1b\[[\d;]*m)?(?:\[[A-Za-z]+\d+\]:|\([\w.:]+ pid=\d+[^)\n]{0,48}\)|\[\d+(?:,\d+)?\](?:<\w+>)?:|\d{1,4}: )"
)
_MORE_OF_A_WORD = re.compile(rb"[\w/-]")
_NAME_BEFORE = re.compile(rb"([\w/.-]+)['\"\s:=(]*$")


@dataclass(frozen=True)
class Kept:
    """Bytes that begin at `offset` of the log, with line `number`; perhaps several lines. `repeats`: with those left out after it."""

    number: int
    offset: int
    data: bytes
    repeats: int = 1
    last_number: int | None = None


@dataclass(eq=False)
class _Kind:
    """Lines with the same literals of the same writer."""

    count: int = 0
    early: int = 0
    early_at: int = -1
    """Where in the log the last of the first lines begins."""
    last: deque[Kept] | None = None

    @property
    def left_out(self) -> int:
        return self.count - self.early - len(self.last or ())


@dataclass
class _Recent:
    """A block, and for each kind the lines in it that came after the first ones, with the count of the kind at the block's end."""

    here: Kept
    flat: bytes
    late: dict[_Kind, tuple[list[tuple[int, int]], int]]


@dataclass
class _Sorted:
    """Where in a block the lines begin that are wanted for something. `at`: where in them the first literal is."""

    early: dict[int, int] = field(default_factory=dict)
    late: dict[_Kind, list[tuple[int, int]]] = field(default_factory=dict)
    nonfinite: list[int] = field(default_factory=list)
    stages: list[tuple[int, LogStageName]] = field(default_factory=list)


class Scan:
    """Feed it blocks of whole lines, then `end` it. `on_metric` and `on_stage` are called with the number and the bytes of a line."""

    def __init__(
        self,
        automaton: Automaton,
        on_metric: Callable[[int, bytes], None],
        on_stage: Callable[[LogStageName, int, bytes], None],
        sources: int = 1,
    ) -> None:
        """`sources`: how many share the room."""
        self.lines = 0
        self.bytes = 0
        self._automaton = automaton
        self._on_metric = on_metric
        self._on_stage = on_stage
        self._first_sample = _FIRST_SAMPLE // sources
        self._ends = min(ENDS, max(20, _WHOLE_TOGETHER // 2 // sources))
        self._whole_lines = min(WHOLE_LINES, max(2 * self._ends, _WHOLE_TOGETHER // sources))
        self._room = max(2**16, _KEPT_BYTES // sources)
        self._most_lines = max(100, _KEPT_LINES // sources)
        self._whole: list[Kept] | None = []
        self._early: list[Kept] = []
        self._early_bytes = 0
        self._kinds: dict[tuple[int, bytes], _Kind] = {}
        self._rings = 0
        self._matching = 0
        self._head: list[Kept] = []
        self._owing = 0
        self._before = Kept(1, 0, b"")
        self._last: list[Kept] = []
        self._blocks = 0
        self._recent: deque[_Recent] = deque()
        self._nonfinite: set[bytes] = set()
        self._share = 1.0
        """Of a block, that is searched for metrics."""

    def feed(self, block: bytes) -> None:
        """One block, ending with a line unless that is longer than a block."""
        if b"\r\n" in block:
            block = block.replace(b"\r\r\n", b"\n").replace(
                b"\r\n", b"\n"
            )  # Windows, or a terminal's recording: no progress bar
        here = Kept(self.lines + 1, self.bytes, block)
        flat = block.replace(b"\r", b"\n") if b"\r" in block else block
        lower = flat.lower() if flat.endswith(b"\n") else flat.lower() + b"\n"
        if self._whole is not None:
            self._whole.append(here)
        if here.number <= self._ends:
            self._head.append(Kept(here.number, here.offset, block[: _after(flat, 0, self._ends + 1 - here.number)]))
        if self._owing:
            self._early.append(Kept(here.number, here.offset, block[: _after(flat, 0, self._owing)]))
            self._owing = 0
        self._blocks += 1
        wanted = self._sort(flat, lower)
        self._use(here, flat, wanted, self._metric_lines(flat, lower))
        start = _before(flat, len(flat), BEFORE)
        self.lines += block.count(b"\n")
        self.bytes += len(block)
        self._before = Kept(here.number + block.count(b"\n", 0, start), here.offset + start, block[start:])
        self._last = [*self._last[-1:], here]
        if self.lines > self._whole_lines or self.bytes > _WHOLE_BYTES:
            self._whole = None

    @property
    def total_lines(self) -> int:
        """All lines, a last one without a newline included."""
        return self.lines + bool(self._last and not self._last[-1].data.endswith(b"\n"))

    # --- which lines

    def _sort(self, flat: bytes, lower: bytes) -> _Sorted:
        wanted = _Sorted()
        kinds, stages = self._automaton.kinds, self._automaton.stages
        begin, end, at, which, mark = 0, -1, 0, 0, b""
        for number, start, stop in self._automaton.hits(lower):
            if start >= end:
                if which:
                    self._one(flat, (begin, at), which, mark, wanted)
                begin = flat.rfind(b"\n", 0, start) + 1
                end = flat.find(b"\n", stop)
                if end < 0:
                    end = len(flat)
                at, which, mark = start, 0, b""
            kind = kinds[number]
            if kind & KEEP:
                which |= 1 << number
                if kind & (FRAME | TYPE) and not mark:
                    # the frame itself, or the name of the exception
                    first = start if kind & FRAME else flat.rfind(b" ", begin, start) + 1 or begin
                    mark = flat[first : min(end, first + 160) if kind & FRAME else stop]
            if kind & NONFINITE and self._new_nonfinite(flat, begin, start, stop):
                wanted.nonfinite.append(begin)
            if kind & STAGE and (name := stages[number]):
                wanted.stages.append((begin, name))
        if which:
            self._one(flat, (begin, at), which, mark, wanted)
        return wanted

    def _one(self, flat: bytes, place: tuple[int, int], which: int, mark: bytes, wanted: _Sorted) -> None:
        """A line with literals to be kept (where it begins, where its first literal does): is it among the first of its kind?"""
        begin, at = place
        self._matching += 1
        # thousands of ranks share the room: what a line says is then more than who says it
        writer = _WRITER.match(flat, begin) if len(self._kinds) < _KINDS_BY_WRITER else None
        key = (which, mark if writer is None else writer.group() + mark)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _MOST_KINDS or self._early_bytes > 4 * self._room:
                return
            kind = self._kinds[key] = _Kind()
        kind.count += 1
        if kind.count <= (QUOTA if self._early_bytes < self._room else SCARCE):
            wanted.early[begin] = at
            kind.early, kind.early_at = kind.early + 1, self.bytes + begin
        else:
            wanted.late.setdefault(kind, []).append((begin, at))

    def _new_nonfinite(self, flat: bytes, begin: int, start: int, stop: int) -> bool:
        """Whether this is a nan or inf, and the first one after this name."""
        if _MORE_OF_A_WORD.match(flat, stop):
            return False
        match = _NAME_BEFORE.search(flat, max(begin, start - 40), start + 1)
        name = b"" if match is None else match.group(1)
        if name in self._nonfinite or len(self._nonfinite) >= 1000:
            return False
        self._nonfinite.add(name)
        return True

    def _metric_lines(self, flat: bytes, lower: bytes) -> list[int]:
        """Where lines with metrics begin: all of a small log; of a large one some of each kind, from all over the block."""
        whole = self.lines + flat.count(b"\n") <= self._whole_lines
        searched = len(lower) if whole else max(2**16, int(len(lower) * self._share))
        hits = metrics_automaton().find_matches_as_indexes(lower[:searched])
        self._share = min(1.0, 2000 / (1 + len(hits)) * searched / max(1, len(lower)))
        groups: dict[int, list[int]] = {}
        begin, end, which = 0, -1, 0
        for number, start, stop in hits:
            if start >= end:
                if which:
                    groups.setdefault(which, []).append(begin)
                begin = flat.rfind(b"\n", 0, start) + 1
                end = flat.find(b"\n", stop)
                if end < 0:
                    end = len(flat)
                which = 0
            which |= 1 << number
        if which:
            groups.setdefault(which, []).append(begin)
        if whole:
            return list(_with_rows(flat, sorted(chain.from_iterable(groups.values()))))
        most = max(_SAMPLE, self._first_sample // self._blocks)
        each = max(2, most // max(1, len(groups)))
        return [b for same in groups.values() for b in same[:: -(-len(same) // each)]][: 2 * most]

    # --- what becomes of them

    def _use(self, here: Kept, flat: bytes, wanted: _Sorted, metrics: list[int]) -> None:
        stages = wanted.stages
        if len(stages) > _STAGES_A_BLOCK:
            stages = [*stages[: _STAGES_A_BLOCK // 2], *stages[-_STAGES_A_BLOCK // 2 :]]
        read = sorted({*metrics, *wanted.nonfinite})
        slices = {begin: self._slice(flat, begin, at) for begin, at in wanted.early.items()}
        numbers = _numbers(here, chain((s for s, _ in slices.values()), read, (begin for begin, _ in stages)))
        for begin, (start, end) in slices.items():
            self._early.append(_cut(here, numbers, start, end))
            self._early_bytes += end - start
            self._owe(flat, begin, end)
        if slices and flat.count(b"\n", 0, min(slices)) < BEFORE:
            self._early.append(self._before)
        for begin in read:
            self._on_metric(numbers[begin], flat[begin : _line_end(flat, begin)])
        for begin, name in stages:
            self._on_stage(name, numbers[begin], flat[begin : _line_end(flat, begin)])
        late = {kind: (begins[-QUOTA:], kind.count) for kind, begins in wanted.late.items()}
        self._recent.append(_Recent(here, flat, late))
        if len(self._recent) > _RECENT:
            self._settle(self._recent.popleft())

    def _settle(self, recent: _Recent) -> None:
        """Keep those lines of a block that may be among the last of their kind: fewer have come since than are kept."""
        surviving: list[tuple[_Kind, int, int]] = []
        for kind, (places, count) in recent.late.items():
            if kind.last is None:
                if self._rings >= _MOST_RINGS:
                    continue
                self._rings += 1
                kind.last = deque(maxlen=QUOTA if self._rings <= _WIDE_RINGS else SCARCE)
            left = (kind.last.maxlen or QUOTA) - (kind.count - count)
            surviving += [(kind, *self._slice(recent.flat, begin, at)) for begin, at in places[-left:] if left > 0]
        numbers = _numbers(recent.here, (start for _, start, _ in surviving))
        for kind, start, end in surviving:
            if kind.last is not None:
                kind.last.append(_cut(recent.here, numbers, start, end))

    def _slice(self, flat: bytes, begin: int, at: int) -> tuple[int, int]:
        """The line with its surroundings; of a very long line, the surroundings of the literal."""
        end = _line_end(flat, at, LONGEST)
        if at - begin > LONGEST // 4 or end - begin > LONGEST:
            return max(begin, at - LONGEST // 4), end
        return _before(flat, begin, BEFORE), _after(flat, begin, AFTER + 1)

    def _owe(self, flat: bytes, begin: int, end: int) -> None:
        """The rest of the surroundings is in the next block."""
        if end == len(flat):
            self._owing = max(self._owing, AFTER + 1 - flat.count(b"\n", begin, end))

    # --- the outcome

    def kept(self) -> tuple[list[Kept], int]:
        """The lines that survive, one a piece, in order; and how many lines with literals do not."""
        while self._recent:
            self._settle(self._recent.popleft())
        whole = self._whole is not None
        found: dict[int, Kept] = {}
        for item in self._whole or (*self._head, *self._tail()):
            found.update((line.offset, line) for line in _lines(item, bars=False))
        room = len(found) + self._most_lines
        last = [item for kind in self._kinds.values() for item in kind.last or ()]
        for items, most in ((self._early, room - self._most_lines // 3), (last, room)):
            for item in items:
                if whole and b"\r" not in item.data:
                    continue
                found.update((line.offset, line) for line in _lines(item, bars=True) if len(found) < most)
        if whole:
            return [found[offset] for offset in sorted(found)], 0
        for kind in self._kinds.values():
            if kind.left_out and kind.early_at in found:
                found[kind.early_at] = replace(
                    found[kind.early_at],
                    repeats=1 + kind.left_out,
                    last_number=kind.last[0].number + BEFORE if kind.last else self.lines,
                )
        surely = sum(kind.count - kind.left_out for kind in self._kinds.values())
        return [found[offset] for offset in sorted(found)], self._matching - surely

    def _tail(self) -> Iterator[Kept]:
        """The last lines, as far as they are in the last blocks."""
        left = self._ends
        for block in reversed(self._last):
            flat = block.data.replace(b"\r", b"\n")
            start = len(flat)
            while left and start > max(0, len(flat) - 2**18):
                start, left = _before(flat, start, 1), left - 1
            yield Kept(block.number + block.data.count(b"\n", 0, start), block.offset + start, block.data[start:])


def _before(flat: bytes, begin: int, lines: int) -> int:
    """Where the line `lines` before the one at `begin` begins; not further away than `_CONTEXT_BYTES`."""
    for _ in range(lines):
        if begin <= 0:
            return 0
        previous = flat.rfind(b"\n", max(0, begin - _CONTEXT_BYTES), begin - 1)
        if previous < 0:
            return max(0, begin - _CONTEXT_BYTES) if begin > _CONTEXT_BYTES else 0
        begin = previous + 1
    return begin


def _after(flat: bytes, begin: int, lines: int) -> int:
    """Where the line `lines` after the one at `begin` begins, or the block ends."""
    for _ in range(lines):
        end = flat.find(b"\n", begin, begin + _CONTEXT_BYTES)
        if end < 0:
            return min(len(flat), begin + _CONTEXT_BYTES)
        begin = end + 1
    return begin


def _with_rows(flat: bytes, begins: Sequence[int]) -> Iterator[int]:
    """Those, and the rows of numbers that follow below each of them: what they are named by may stand in it."""
    for begin, following in pairwise([*begins, len(flat)]):
        yield begin
        row = _line_end(flat, begin) + 1
        while row < following and is_row(flat[row : row + ROW_BYTES]):
            yield row
            row = _line_end(flat, row) + 1


def _line_end(flat: bytes, begin: int, most: int = 2 * LONGEST) -> int:
    end = flat.find(b"\n", begin, begin + most)
    return min(len(flat), begin + most) if end < 0 else end


def _numbers(here: Kept, starts: Iterable[int]) -> dict[int, int]:
    """The line numbers at these places of a block, in one pass."""
    numbers: dict[int, int] = {}
    number, previous = here.number, 0
    for start in sorted(set(starts)):
        number += here.data.count(b"\n", previous, start)
        numbers[start] = number
        previous = start
    return numbers


def _cut(here: Kept, numbers: dict[int, int], start: int, end: int) -> Kept:
    return Kept(numbers[start], here.offset + start, here.data[start:end])


def _lines(item: Kept, *, bars: bool) -> Iterator[Kept]:
    """The lines in `item`; of one with carriage returns every piece, or (not `bars`) what was to be seen last."""
    number, offset = item.number, item.offset
    for line in item.data.split(b"\n"):
        if b"\r" in line:
            inner = offset
            pieces = []
            for piece in line.split(b"\r"):
                if piece.strip():
                    pieces.append(Kept(number, inner, piece[: 2 * LONGEST]))
                inner += len(piece) + 1
            yield from pieces if bars else pieces[-1:]
        else:
            yield Kept(number, offset, line[: 2 * LONGEST])
        number += 1
        offset += len(line) + 1
