"""A job that is none: steps that come by the clock, for what no small training shows: many ranks, a million steps, hostile names."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from jupyter_traindbg.live import Feed
from jupyter_traindbg.live.series import COLUMNS
from jupyter_traindbg.model import Diagnosis, GpuReport, NewSteps, NotAvailable, Problem

FIELDS = (
    "step",
    "time_s",
    "duration_s",
    "loss",
    "lr",
    "grad_norm",
    "rss_bytes",
    "data_wait_s",
    "forward_s",
    "backward_s",
)
FIELDS += ("optimizer_s", "other_s", "cuda_allocated_bytes", "cuda_reserved_bytes", "cuda_peak_bytes")
HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>'
GIB = 2**30


class Synthetic:
    """What a `Feed` asks. `hz` steps a second, from step `first` on, and as if there had been `before` steps already.

    At `bad_step` the loss is NaN, at `drop_step` the learning rate drops to a tenth; its optimizer had counted `ahead` steps before (None:
    it keeps no count); the first rank's name would be code where it were trusted.
    """

    def __init__(
        self,
        ranks: int = 1,
        *,
        hz: float = 20.0,
        first: int = 0,
        bad_step: int = 0,
        drop_step: int = 0,
        before: int = 0,
        ahead: int | None = None,
    ) -> None:
        self.name = "synthetic"
        self.who: Mapping[int, str] = {r: HOSTILE if r == 0 and ranks > 1 else f"rank {r}" for r in range(ranks)}
        self._hz, self._first, self._bad, self._drop = hz, first, bad_step, drop_step
        self.ahead = ahead
        self._began = self._base = time.time() - before / hz

    @property
    def ranks(self) -> list[Any]:
        return []

    def poll(self, since: Mapping[int, int] | None, *, timeout: float) -> list[NewSteps]:
        last = self._first + int((time.time() - self._began) * self._hz)
        return [self._answer(rank, max(self._first, (since or {}).get(rank, 0)), last) for rank in self.who]

    def _answer(self, rank: int, begin: int, last: int) -> NewSteps:
        steps = np.arange(begin + 1, last + 1)
        columns = self.columns(np.full(len(steps), rank), steps)
        columns["lr"] = [[rate] for rate in columns["lr"]]
        rows = zip(*(columns[name] if name == "lr" else columns[name].tolist() for name in FIELDS), strict=True)
        own = [None if self.ahead is None else int(step) + self.ahead for step in steps]
        records = [[*row, count] for row, count in zip(rows, own, strict=True)]
        return NewSteps(rank, 1000 + rank, (*FIELDS, "optimizer_step"), records, last)

    def columns(self, rank: Any, step: Any) -> dict[str, Any]:
        """What these ranks record at these steps: arrays of one length."""
        pace = max(300.0, self._first / 20)
        wave = np.sin(step * 30 / pace + rank)
        noise = np.sin(step * 2.7 + rank * 1.3) * np.sin(step * 0.9)
        parts = {
            "data_wait_s": 0.012 + 0.004 * np.abs(noise),
            "forward_s": 0.05 + 0.0 * wave,
            "backward_s": 0.1 + 0.01 * wave,
            "optimizer_s": 0.02 + 0.0 * wave,
            "other_s": 0.003 + 0.0 * wave,
        }
        drop = np.where((self._drop > 0) & (step >= self._drop), 0.1, 1.0)
        return {
            "step": step,
            "time_s": self._base + (step - self._first) / self._hz,
            "duration_s": sum(parts.values()),
            "loss": np.where(step == self._bad, np.nan, 2.0 / (1 + step / pace) + 0.04 * noise + 0.02 * (rank % 7)),
            "lr": 3e-4 * drop * 0.5 * (1.2 + np.cos(step / pace / 3)),
            "grad_norm": 1 + 1.5 / (1 + step / pace) + 0.2 * noise,
            **parts,
            "rss_bytes": (6 + rank % 5 / 10 + 0.1 * step / pace) * GIB,
            "cuda_allocated_bytes": (38 + 2 * wave) * GIB,
            "cuda_reserved_bytes": 60.0 * GIB + 0 * wave,
            "cuda_peak_bytes": 42.0 * GIB + 0 * wave,
        }

    def diagnose(self, *, timeout: float) -> Diagnosis:
        raise NotImplementedError("a synthetic job has no processes")

    def gpu(self, *, timeout: float) -> GpuReport:
        return GpuReport((), NotAvailable("synthetic"), NotAvailable("synthetic"), Problem("no GPU"))


def million(ranks: int, steps: int = 1_000_000, stride: int = 2000) -> Feed:
    """A feed of so many ranks that begins with `steps` steps, every `stride`-th of them recorded, and goes on from there."""
    source = Synthetic(ranks, first=steps)
    feed = Feed(source, rate_hz=4)  # type: ignore[arg-type]
    place = {"duration_s": "step_s", "step": None}
    for block in np.array_split(np.arange(stride, steps + 1, stride), 10):
        step, rank = np.repeat(block, ranks), np.tile(np.arange(ranks), len(block))
        columns = source.columns(rank, step)
        columns["lr_effective"] = columns["lr"]
        values = np.full((len(step), len(COLUMNS)), np.nan)
        for name, column in columns.items():
            kept = place.get(name, name)
            if kept is not None:
                values[:, COLUMNS.index(kept)] = column
        feed.history.add(rank, step, values, np.zeros(values.shape, bool))
    return feed
