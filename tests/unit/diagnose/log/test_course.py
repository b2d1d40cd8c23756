"""The course of a log: lanes, places, and what is bounded."""

from __future__ import annotations

import math

import log_evidence
from cases import each
from log_evidence import evidence

from jupyter_traindbg.diagnose.log import course, judge
from jupyter_traindbg.diagnose.log.course import BUCKETS, MOST_LANES, MOST_POINTS, MOST_STAGES
from jupyter_traindbg.model import LogCourse, LogEvidence, LogLine, LogMark, LogSeries, LogSource, LogStage


def of(found: LogEvidence, *marks: LogMark) -> LogCourse:
    made = course(found, marks)
    assert made is not None
    return made


def dated(*times: float | None, source: int = 0, who: str = "") -> list[LogLine]:
    return [LogLine(source, n, "says", who=who, time_s=t) for n, t in enumerate(times, 1)]


def files(*of_each: list[LogLine]) -> LogEvidence:
    sources = [LogSource(f"{chr(97 + n)}.log", None, 1, len(lines)) for n, lines in enumerate(of_each)]
    lines = [line for own in of_each for line in own]
    return LogEvidence(sources, lines, total_lines=len(lines))


def test_nothing_kept_has_no_course() -> None:
    assert course(LogEvidence([LogSource("a.log", None, 0, 0)])) is None


def test_a_lane_for_each_writer() -> None:
    made = of(evidence("begins\n[rank10]: a\n[rank2]: b\n[rank2]: c"))
    assert [(lane.who, list(lane.written)) for lane in made.lanes] == [
        ("", [1, 0, 0, 0]),
        ("rank 2", [0, 0, 1, 1]),
        ("rank 10", [0, 1, 0, 0]),
    ]
    assert not made.by_clock
    assert (made.first, made.last) == (0.5, 4.5)
    assert made.whole


@each("lines", [1, 2, BUCKETS, BUCKETS + 1, 5000])
def test_every_line_is_counted_in_buckets_of_equal_size(lines: int) -> None:
    [lane] = of(evidence("\n".join(["line"] * lines))).lanes
    assert sum(lane.written) == lane.lines == lines
    assert len(lane.written) <= BUCKETS
    assert len(set(lane.written[:-1])) <= 1


def test_exceptions_are_where_they_begin() -> None:
    found = evidence("\n".join(["[rank1]: line"] * 10))
    made = of(evidence("\n".join(["[rank1]: line"] * 10), errors=[log_evidence.error(found.lines[6], "ValueError")]))
    assert list(made.lanes[0].errors) == [6]


def test_files_whose_names_tell_no_rank_are_writers() -> None:
    assert [lane.who for lane in of(evidence("one", "two")).lanes] == ["a.log", "b.log"]


def test_several_files_with_clocks_go_by_them() -> None:
    made = of(files(dated(100.0, None, 160.0), dated(130.0, 400.0, source=1)))
    assert made.by_clock
    assert (made.first, made.last) == (100.0, 400.0)
    assert made.lanes[0].written[0] == 2, "a line without a time was written when the one before it was"
    assert made.lanes[1].written[-1] == 1


@each("second", [dated(None, None, source=1), dated(100.0, source=1)])
def test_without_a_clock_that_tells_they_go_by_the_numbers_of_their_lines(second: list[LogLine]) -> None:
    assert not of(files(dated(100.0, 100.0), second)).by_clock


def test_many_writers_share_the_last_lane_but_those_of_interest_do_not() -> None:
    found = evidence("\n".join(f"[rank{n}]: line" for n in range(40) for _ in range(2)))
    mark = LogMark(found.lines[74], "failed", "cause")
    made = of(found, mark)
    assert len(made.lanes) == MOST_LANES + 1
    assert made.lanes[-1].writers == 40 - MOST_LANES
    assert sum(lane.lines for lane in made.lanes) == 80
    assert made.lanes[-2].who == "rank 37"
    assert [(place, lane) for place, lane, _ in made.marks] == [(75, MOST_LANES - 1)]


def test_a_lane_is_not_folded_for_one_writer() -> None:
    made = of(evidence("\n".join(f"[rank{n}]: line" for n in range(MOST_LANES + 1))))
    assert [lane.writers for lane in made.lanes] == [1] * (MOST_LANES + 1)


def test_stages_are_bounded_and_change() -> None:
    text = "\n".join(["line"] * 10_000)
    names = ("rollout", "train")
    found = evidence(text)
    stages = [LogStage(names[n % 2], line) for n, line in enumerate(found.lines[:2000])]  # type: ignore[arg-type]
    made = of(LogEvidence(found.sources, found.lines, stages=stages, total_lines=10_000))
    assert 2 <= len(made.stages) <= MOST_STAGES
    assert all(a[1] != b[1] for a, b in zip(made.stages, made.stages[1:], strict=False))


def series(name: str, *values: float, rank: int | None = None) -> LogSeries:
    return LogSeries(name, rank, tuple(enumerate(values, 1)), len(values))


@each(
    ("names", "chosen"),
    [
        (["lr", "val loss", "loss"], "loss"),
        (["grad_norm", "actor/pg_loss"], "actor/pg_loss"),
        (["reward/mean", "grad_norm"], "reward/mean"),
        (["lr", "epoch"], ""),
    ],
)
def test_the_curve_is_that_of_a_loss_or_what_comes_next(names: list[str], chosen: str) -> None:
    found = evidence("\n".join(["line"] * 9), series=[series(name, 3.0, 2.0, 1.0) for name in names])
    assert of(found).metric == chosen


def test_two_values_are_no_curve() -> None:
    assert of(evidence("a\nb", series=[series("loss", 2.0, 1.0)])).points == ()


def test_a_long_curve_is_thinned_and_keeps_what_stands_out() -> None:
    values = [1.0 + n / 5000 for n in range(2000)]
    values[777], values[1234], values[1501] = 99.0, -5.0, math.nan
    made = of(evidence("\n".join(["line"] * 2000), series=[series("loss", *values)]))
    assert len(made.points) <= MOST_POINTS
    assert {99.0, -5.0} <= {value for _, value in made.points}
    assert any(math.isnan(value) for _, value in made.points)
    assert [place for place, _ in made.points] == sorted(place for place, _ in made.points)
    assert made.points[-1] == (2000, values[-1])


def test_a_log_of_which_little_was_kept_is_not_whole() -> None:
    found = evidence("a\nb")
    assert not of(LogEvidence(found.sources, found.lines, total_lines=1000)).whole


# --- what a verdict rests on


def test_the_marks_of_a_verdict() -> None:
    verdict = judge(
        evidence(
            "[rank0]: step 1\n[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB.\n"
            + "\n".join(f"[rank{n}]: RuntimeError: Connection closed by peer [127.0.0.1]:23{n}" for n in (0, 1))
        )
    )
    assert [(mark.role, mark.line.number) for mark in verdict.marks] == [
        ("cause", 2),
        ("consequence", 3),
        ("consequence", 4),
    ]
    assert {(e.line.number) for e in verdict.timeline} <= {mark.line.number for mark in verdict.marks}


def test_a_healthy_log_has_no_marks() -> None:
    assert judge(evidence("step 1 loss 2.0\nstep 2 loss 1.0")).marks == ()
