"""The recorded steps of all ranks in bounded memory: the latest one by one, all of them in buckets of least, greatest and mean.

Steps are counted from 1, so that a step's number says where it is and nothing is ever searched. A ring has the latest ones.
Beside it, buckets of `width` steps, the same for all ranks and series, reach from the first step to the last; when they are full,
`width` doubles and neighbours become one. So reading any range costs what its points cost, however many steps it has, and a spike
never vanishes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["BUDGET_BYTES", "History"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

BUDGET_BYTES = 256 << 20
"""For the steps one by one: at 12 series 2 million of one rank, 260 thousand of each of 8, 8 thousand of each of 300."""
FIRST_RING, LEAST_RING = 4096, 4096
BUCKETS = 1024


class History:
    """Arrays by series, rank and step; see the module. `lock` guards all of it: hold it while arrays are looked at."""

    def __init__(self, columns: Sequence[str], *, budget_bytes: int = BUDGET_BYTES) -> None:
        self.columns = tuple(columns)
        self.lock = threading.RLock()
        self.ranks: list[int] = []
        self.width = 1
        self._budget_bytes = budget_bytes
        self._row: dict[int, int] = {}
        self._slot_of: dict[int, int] = {}
        """By the place of a column among `columns`: its place in the arrays. Columns without any value take no memory."""
        self.last: Ints = np.zeros(0, np.int64)
        """By row: the number of the latest step, 0 before the first."""
        self.first: Ints = np.zeros(0, np.int64)
        """By row: the number of the first step there is; 0 before it."""
        self._ring = FIRST_RING
        self._raw: Floats = np.empty((0, 0, FIRST_RING))
        self._bad: Bools = np.empty((0, 0, FIRST_RING), bool)
        self._make_buckets(0, 0)

    # --- what there is ----------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """The number of the latest step of any rank."""
        return int(self.last.max(initial=0))

    @property
    def earliest(self) -> int:
        """The number of the first step that any rank has."""
        known = self.first[self.first > 0]
        return int(known.min()) if known.size else 0

    @property
    def oldest_raw(self) -> int:
        """From this step on there is every single one, of the rank that is furthest."""
        return max(1, self.steps - self._ring + 1)

    def has(self, column: str) -> bool:
        """Whether any rank ever gave a value for it."""
        return self.columns.index(column) in self._slot_of

    @property
    def in_order(self) -> list[tuple[int, int]]:
        """All ranks, in their order, each with its row."""
        return sorted(self._row.items())

    def row_of(self, rank: int) -> int | None:
        return self._row.get(rank)

    @property
    def memory_bytes(self) -> int:
        arrays = (self._raw, self._bad, self.low, self.high, self._sum, self._count, self.bad, self.rising)
        return sum(a.nbytes for a in arrays)

    # --- adding -----------------------------------------------------------------------------------------------------

    def add(self, ranks: Ints, steps: Ints, values: Floats, bad: Bools) -> None:
        """Add records: by record its rank and step, and by record and column its value (NaN: none) and whether that is not finite.

        Records of one rank follow each other, in the order of their steps. One that is there already is brought up to date.
        """
        if not len(steps):
            return
        with self.lock:
            rows = self._rows(ranks)
            self._slots(values, bad)
            order = list(self._slot_of)
            values, bad = values[:, order].T, bad[:, order].T
            self._fit(int(steps.max()))
            self._put_buckets(rows, steps, values, bad)
            newest = self.last.copy()
            np.maximum.at(newest, rows, steps)
            keep = steps > newest[rows] - self._ring
            self._put_raw(rows[keep], steps[keep], values[:, keep], bad[:, keep])
            begun = self.first == 0
            earliest = np.full(len(self.ranks), np.iinfo(np.int64).max)
            np.minimum.at(earliest, rows, steps)
            self.first = np.where(begun & (earliest < np.iinfo(np.int64).max), earliest, self.first)
            self.last = newest

    def _rows(self, ranks: Ints) -> Ints:
        new = [int(rank) for rank in np.unique(ranks) if int(rank) not in self._row]
        if new:
            for rank in new:
                self._row[rank] = len(self.ranks)
                self.ranks.append(rank)
            self._grow(len(self._slot_of), len(self.ranks))
        known = np.array(self.ranks, np.int64)
        order = np.argsort(known)
        found: Ints = order[np.searchsorted(known, ranks, sorter=order)]
        return found

    def _slots(self, values: Floats, bad: Bools) -> None:
        there = ~np.isnan(values).all(axis=0) | bad.any(axis=0)
        new = [int(c) for c in np.flatnonzero(there) if int(c) not in self._slot_of]
        for c in new:
            self._slot_of[c] = len(self._slot_of)
        if new:
            self._grow(len(self._slot_of), len(self.ranks))

    def _grow(self, columns: int, rows: int) -> None:
        """Make place for more columns or ranks; what is there stays."""
        c, r = self._raw.shape[:2]
        ring = min(self._ring, self._ring_at_most(columns, rows))
        if ring < self._ring:
            self._resize_ring(ring)
        raw, bad = np.full((columns, rows, self._ring), np.nan), np.zeros((columns, rows, self._ring), bool)
        raw[:c, :r], bad[:c, :r] = self._raw, self._bad
        self._raw, self._bad = raw, bad
        old = (self.low, self.high, self._sum, self._count, self.bad, self.rising)
        self._make_buckets(columns, rows)
        self.low[:c, :r], self.high[:c, :r], self._sum[:c, :r] = old[:3]
        self._count[:c, :r], self.bad[:c, :r], self.rising[:c, :r] = old[3:]
        grown = rows - len(self.last)
        self.last = np.concatenate([self.last, np.zeros(grown, np.int64)])
        self.first = np.concatenate([self.first, np.zeros(grown, np.int64)])

    def _make_buckets(self, columns: int, rows: int) -> None:
        shape = (columns, rows, BUCKETS)
        self.low: Floats = np.full(shape, np.nan)
        self.high: Floats = np.full(shape, np.nan)
        self._sum: Floats = np.zeros(shape)
        self._count: npt.NDArray[np.int32] = np.zeros(shape, np.int32)
        self.bad: Bools = np.zeros(shape, bool)
        """Where a value was NaN or infinite."""
        self.rising: Bools = np.zeros(shape, bool)
        """Where the least value came before the greatest."""

    def _ring_at_most(self, columns: int, rows: int) -> int:
        each = max(1, columns) * max(1, rows) * 9
        return max(LEAST_RING, 1 << max(0, (self._budget_bytes // each).bit_length() - 1))

    def _fit(self, step: int) -> None:
        """Make place for steps up to number `step`."""
        while step > self.width * BUCKETS:
            self._halve()
        most = self._ring_at_most(*self._raw.shape[:2])
        while self._ring < min(step, most):
            self._resize_ring(self._ring * 2)

    def _resize_ring(self, size: int) -> None:
        newest = self.steps
        keep = np.arange(max(1, newest - min(size, self._ring) + 1), newest + 1)
        raw = np.full((*self._raw.shape[:2], size), np.nan)
        bad = np.zeros(raw.shape, bool)
        raw[:, :, keep % size] = self._raw[:, :, keep % self._ring]
        bad[:, :, keep % size] = self._bad[:, :, keep % self._ring]
        self._raw, self._bad, self._ring = raw, bad, size

    def _halve(self) -> None:
        """Two neighbouring buckets become one."""

        half = BUCKETS // 2
        l0, l1 = self.low[:, :, 0::2], self.low[:, :, 1::2]
        h0, h1 = self.high[:, :, 0::2], self.high[:, :, 1::2]
        r0, r1 = self.rising[:, :, 0::2], self.rising[:, :, 1::2]
        empty = self._count[:, :, 0::2] == 0
        low, high = np.fmin(l0, l1), np.fmax(h0, h1)
        least_first, greatest_first = ~(l1 < l0), ~(h1 > h0)  # in the first of the two; a comparison with NaN is False
        rising = np.where(least_first & greatest_first, r0, np.where(~least_first & ~greatest_first, r1, least_first))
        rising = np.where(empty, r1, rising)
        self.low[:, :, :half], self.low[:, :, half:] = low, np.nan
        self.high[:, :, :half], self.high[:, :, half:] = high, np.nan
        self._sum[:, :, :half], self._sum[:, :, half:] = self._sum[:, :, 0::2] + self._sum[:, :, 1::2], 0.0
        self._count[:, :, :half], self._count[:, :, half:] = self._count[:, :, 0::2] + self._count[:, :, 1::2], 0
        self.bad[:, :, :half], self.bad[:, :, half:] = self.bad[:, :, 0::2] | self.bad[:, :, 1::2], False
        self.rising[:, :, :half], self.rising[:, :, half:] = rising, False
        self.width *= 2

    def _put_raw(self, rows: Ints, steps: Ints, values: Floats, bad: Bools) -> None:
        slots = steps % self._ring
        again = steps <= self.last[rows]  # what this record does not have stays as it was
        if again.any():
            before = self._raw[:, rows[again], slots[again]]
            values[:, again] = np.where(np.isnan(values[:, again]) & ~bad[:, again], before, values[:, again])
            bad[:, again] |= self._bad[:, rows[again], slots[again]]
        self._raw[:, rows, slots] = values
        self._bad[:, rows, slots] = bad
        before = np.where(np.r_[True, np.diff(rows) != 0], self.last[rows], np.r_[0, steps[:-1]])
        # Of a rank of which steps were missed, their places in the ring must not show older ones.
        for i in np.flatnonzero((steps > before + 1) & (before > 0)):
            missed = np.arange(max(int(before[i]) + 1, int(steps[i]) - self._ring + 1), steps[i])
            self._raw[:, rows[i], missed % self._ring] = np.nan
            self._bad[:, rows[i], missed % self._ring] = False

    def _put_buckets(self, rows: Ints, steps: Ints, values: Floats, bad: Bools) -> None:
        buckets = (steps - 1) // self.width
        starts = np.flatnonzero(np.r_[True, (np.diff(rows) != 0) | (np.diff(buckets) != 0)])
        at = (slice(None), rows[starts], buckets[starts])
        finite = np.where(bad, np.nan, values)
        low, high = np.fmin.reduceat(finite, starts, axis=1), np.fmax.reduceat(finite, starts, axis=1)
        before_low, before_high = self.low[at], self.high[at]
        sizes = np.diff(np.r_[starts, len(steps)])
        least = _first_where(finite == np.repeat(low, sizes, axis=1), starts)
        greatest = _first_where(finite == np.repeat(high, sizes, axis=1), starts)
        least_new, greatest_new = ~(before_low <= low), ~(before_high >= high)  # also where there was none before
        within = least < greatest
        rising = np.where(
            least_new & greatest_new, within, np.where(least_new | greatest_new, greatest_new, self.rising[at])
        )
        known = self._known(rows, steps)
        new = ~np.isnan(finite) & ~known
        self._sum[at] += np.add.reduceat(np.where(new, finite, 0.0), starts, axis=1)
        self._count[at] += np.add.reduceat(new.astype(np.int32), starts, axis=1)
        self.low[at], self.high[at] = np.fmin(before_low, low), np.fmax(before_high, high)
        self.bad[at] |= np.logical_or.reduceat(bad, starts, axis=1)
        self.rising[at] = rising

    def _known(self, rows: Ints, steps: Ints) -> Bools:
        """By column and record: whether this value was counted before, in a record that is now brought up to date."""
        again = steps <= self.last[rows]
        known = np.zeros((self._raw.shape[0], len(steps)), bool)
        if again.any():
            known[:, again] = ~np.isnan(self._raw[:, rows[again], steps[again] % self._ring])
        return known

    # --- reading ----------------------------------------------------------------------------------------------------

    def raw(self, column: str, rows: Sequence[int], first: int, last: int) -> tuple[Floats, Bools]:
        """Values and non-finite marks by row and step, for steps that the ring still has (see `oldest_raw`)."""
        slot = self._slot_of[self.columns.index(column)]
        slots = np.arange(first, last + 1) % self._ring
        places = np.array(rows, np.int64)[:, None], slots[None, :]
        values, bad = self._raw[slot][places], self._bad[slot][places]
        beyond = np.arange(first, last + 1)[None, :] > self.last[list(rows)][:, None]
        if beyond.any():  # a rank that is behind: its places still have steps of the last round of the ring
            values[beyond], bad[beyond] = np.nan, False
        return values, bad

    def buckets(
        self, column: str, rows: Sequence[int], first: int, last: int
    ) -> tuple[Floats, Floats, Floats, Bools, Bools]:
        """Least, greatest, mean, non-finite marks and direction by row and bucket, of the buckets number `first` to `last`."""
        slot = self._slot_of[self.columns.index(column)]
        part = (slot, list(rows), slice(first, last + 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Floats = self._sum[part] / self._count[part]
        return self.low[part], self.high[part], mean, self.bad[part], self.rising[part]

    # --- steps and times --------------------------------------------------------------------------------------------

    def times(self, steps: Floats) -> Floats:
        """When steps ended, in seconds since the epoch, on the rank that is furthest; between known ones in proportion."""
        known_steps, known_times = self._clock()
        if not known_steps.size:
            return np.zeros(len(steps))
        out: Floats = np.interp(steps, known_steps, known_times)
        row, fine = self._furthest, steps >= self.oldest_raw
        exact = self._raw[self._slot_of[0], row, steps[fine].astype(np.int64) % self._ring]
        out[fine] = np.where(np.isnan(exact) | (steps[fine] > self.last[row]), out[fine], exact)
        return out

    def step_at(self, time_s: float) -> int:
        """The number of the last step that had ended by then; 0 before the first."""
        known_steps, known_times = self._clock()
        if not known_steps.size or time_s < known_times[0]:
            return 0
        about = int(np.interp(time_s, known_times, known_steps))
        first = max(self.oldest_raw, about - 2 * self.width)
        last = min(self.steps, about + 2 * self.width)
        if last < first:
            return about
        times = self.times(np.arange(first, last + 1, dtype=float))
        return max(0, first + int(np.searchsorted(times, time_s, side="right")) - 1)

    def x_of(self, step: int, x: str) -> float:
        return float(step) if x == "step" else float(self.times(np.array([float(step)]))[0])

    @property
    def _furthest(self) -> int:
        return int(self.last.argmax())

    def _clock(self) -> tuple[Floats, Floats]:
        """Some steps, and when they ended, both rising."""
        if not self.ranks or 0 not in self._slot_of:
            return np.zeros(0), np.zeros(0)
        begun = self.low[self._slot_of[0], self._furthest]
        there = np.flatnonzero(~np.isnan(begun))
        steps = np.maximum(there * self.width + 1, max(1, int(self.first[self._furthest])))
        last = self.steps
        ended = self.high[self._slot_of[0], self._furthest][there[-1:]]
        known, times = np.r_[steps, float(last)], np.maximum.accumulate(np.r_[begun[there], ended])
        keep = np.r_[True, np.diff(known) > 0]
        return known[keep], times[keep]


def _first_where(there: Bools, starts: Ints) -> Ints:
    """By column and group of records: the number of the first record where it is so."""
    n = there.shape[1]
    at = np.where(there, np.arange(n)[None, :], n)
    first: Ints = np.minimum.reduceat(at, starts, axis=1)
    return first
