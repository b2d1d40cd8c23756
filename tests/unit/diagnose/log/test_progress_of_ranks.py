"""Whose progress makes an error harmless, where several ranks write into one log."""

from __future__ import annotations

import pytest
from log_evidence import evidence

from jupyter_traindbg.diagnose.log.progress import ENOUGH, Progress
from jupyter_traindbg.model import LogEvidence, LogSeries

FAILS = "[rank2]: IndexError: Target 5 is out of bounds."


def log_of(*text: str) -> LogEvidence:
    """Lines with ``step`` in them are points of their rank's series."""
    made = evidence("\n".join(text))
    ranks = sorted({line.rank for line in made.lines if "step" in line.text}, key=str)
    steps = {r: [(x.number, 1.0) for x in made.lines if x.rank == r and "step" in x.text] for r in ranks}
    series = [LogSeries("step", rank, points, len(points)) for rank, points in steps.items()]
    return LogEvidence(made.sources, made.lines, series=series, total_lines=made.total_lines)


def went_on(log: LogEvidence) -> bool:
    (line,) = (line for line in log.lines if line.text in FAILS)
    return Progress(log).after(line)


def test_steps_of_others_that_come_later_are_no_progress_of_a_rank_that_shows_its_own() -> None:
    before = [f"[rank{rank}]: step 1" for rank in range(3)]
    after = [f"[rank{rank}]: step {step}" for step in (2, 3, 4) for rank in range(2)]
    assert not went_on(log_of(*before, FAILS, *after))
    assert went_on(log_of(*before, FAILS, *after, *(f"[rank2]: step {step}" for step in (2, 3, 4))))


def test_one_more_step_of_each_of_many_ranks_is_not_enough() -> None:
    assert not went_on(log_of(FAILS, *(f"[rank{rank}]: step 7" for rank in range(3, 11))))


@pytest.mark.parametrize("writer", ["[rank0]: ", ""])
def test_where_one_rank_logs_for_all_its_steps_count(writer: str) -> None:
    assert went_on(log_of(f"{writer}step 1", FAILS, *(f"{writer}step {n}" for n in range(2, 2 + ENOUGH))))
    assert not went_on(log_of(f"{writer}step 1", FAILS, *(f"{writer}step {n}" for n in range(2, 1 + ENOUGH))))
