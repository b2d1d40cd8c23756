"""Jobs that a feed can watch without a process: they say what they are told to. For what no small training can show, as 300 ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jupyter_traindbg.agent.recorder import FIELDS
from jupyter_traindbg.errors import TargetGone
from jupyter_traindbg.model import Diagnosis, Doing, GpuReport, NewSteps, NotAvailable

BEGAN_S = 1_700_000_000.0


def record(
    step: int, *, loss: float | None = None, step_s: float | None = 0.1, lr: float = 1e-3, **others: Any
) -> list[Any]:
    """A step's record as an agent gives it; step 1 ended at `BEGAN_S`, and each takes 0.1 s."""
    values: dict[str, Any] = {
        "step": step,
        "time_s": BEGAN_S + 0.1 * (step - 1),
        "duration_s": step_s,
        "optimizer": 0,
        "loss": 1.0 / step if loss is None else loss,
        "micro_batches": 1,
        "lr": [lr],
        "rss_bytes": 1 << 20,
        **others,
    }
    return [values.get(name) for name in FIELDS]


class Made:
    """A job of `ranks` ranks. `step` adds steps; `problems` says why a rank does not answer, `gone` which have ended."""

    name = "made"

    def __init__(self, ranks: int = 1) -> None:
        self.records: dict[int, list[list[Any]]] = {rank: [] for rank in range(ranks)}
        self.problems: dict[int, str] = {}
        self.gone: set[int] = set()
        self.doings: dict[int, list[Doing]] = {}
        self.closed = False
        self.asked: list[Mapping[int, int] | None] = []
        self.diagnoses = 0
        self.diagnosis: Callable[[], Diagnosis] = lambda: Diagnosis("made", "progressing", (), ())
        self.report = GpuReport((), NotAvailable("none"), NotAvailable("none"))

    @property
    def who(self) -> Mapping[int, str]:
        return {rank: f"rank {rank}" for rank in self.records}

    def step(self, count: int = 1, *, ranks: Sequence[int] | None = None, **values: Any) -> None:
        for rank in self.records if ranks is None else ranks:
            last = self.records[rank][-1][0] if self.records[rank] else 0
            self.records[rank] += [record(last + i + 1, **values) for i in range(count)]

    def poll(self, since: Mapping[int, int] | None, *, timeout: float) -> list[NewSteps]:
        if self.closed:
            raise TargetGone("this job is closed")
        self.asked.append(since)
        wanted = dict.fromkeys(self.records, 0) if since is None else since
        return [self._answer(rank, step) for rank, step in wanted.items()]

    def _answer(self, rank: int, since: int) -> NewSteps:
        if rank in self.gone:
            return NewSteps(rank, 100 + rank, problem="process has ended", gone=True)
        if rank in self.problems:
            return NewSteps(rank, 100 + rank, problem=self.problems[rank])
        records = self.records[rank]
        last = records[-1][0] if records else 0
        new = [r for r in records if r[0] > since]
        return NewSteps(rank, 100 + rank, FIELDS, new, last, doings=self.doings.pop(rank, []))

    def diagnose(self, *, timeout: float) -> Diagnosis:
        self.diagnoses += 1
        return self.diagnosis()

    def gpu(self, *, timeout: float) -> GpuReport:
        return self.report


NAN = math.nan
