"""A log that is followed: what is usual in it, and what is told when a stage or a silence is longer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pytest
from cases import each

from jupyter_traindbg.diagnose.log import stages
from jupyter_traindbg.diagnose.log.advice import BadKnowledge, parse, stage_advice
from jupyter_traindbg.model import (
    Finding,
    LogEvidence,
    LogGrowth,
    LogLine,
    LogSource,
    LogStage,
    LogWriter,
    NotAvailable,
)
from jupyter_traindbg.model.logs import LogStageName
from jupyter_traindbg.outside.logs.markers import STAGES

ROUND: Sequence[tuple[LogStageName, str, float]] = (
    ("rollout", "Collecting trajectories...", 10.0),
    ("train", "update_actor", 4.0),
    ("sync", "update_weights", 1.0),
)


def log(rounds: int, last: Sequence[tuple[LogStageName, str, float]] = (), *, timed: bool = True) -> LogEvidence:
    """Rounds of three stages, and perhaps the begin of another one."""
    lines, entered, now = [], [], 1000.0
    for name, words, takes_s in (*ROUND * rounds, *last):
        line = LogLine(0, len(lines) + 1, words, time_s=now if timed else None)
        lines.append(line)
        entered.append(LogStage(name, line))
        now += takes_s
    return LogEvidence((LogSource("train.log", None, 99, len(lines)),), lines, stages=entered, total_lines=len(lines))


def test_a_round_like_the_others_is_nothing_to_tell() -> None:
    seen = stages.follow("train.log", LogGrowth(log(4, ROUND[:1]), silent_s=8.0), ())
    assert (seen.stage, seen.visits, seen.usual_stage_s, seen.in_stage_s) == ("rollout", 5, 10.0, 8.0)
    assert seen.usual_silence_s == 10.0
    assert seen.findings == ()


def test_a_long_silence_names_who_writes_and_what_it_does() -> None:
    writer = LogWriter(77, "python train.py", "waits for the collective broadcast", "/job/sync.py:8 push")
    seen = stages.follow("train.log", LogGrowth(log(4, ROUND), silent_s=340.0, writers=(writer,)), ())
    (finding,) = seen.findings
    assert (finding.code, finding.who, finding.where) == ("log_silent", ["process 77"], "/job/sync.py:8 push")
    assert finding.title == "No new line for 340 s while process 77 waits for the collective broadcast"
    assert "train.log:15 update_weights" in finding.evidence[1]
    assert any("77" in step for step in finding.next_steps)


def test_a_stage_that_takes_longer_than_it_did_although_lines_come() -> None:
    told = log(4, (("rollout", "Collecting trajectories...", 200.0), ("rollout", "still collecting", 0.0)))
    growing = LogEvidence(told.sources, told.lines, stages=told.stages[:-1], total_lines=told.total_lines)
    seen = stages.follow("train.log", LogGrowth(growing, silent_s=1.0, writers=(LogWriter(7, "python"),)), ())
    (finding,) = seen.findings
    assert finding.code == "stage_overdue"
    assert finding.title == "In the stage rollout for 201 s, which usually takes 10 s"
    assert any("ray list actors" in step for step in finding.next_steps), "the guide's place has advice of its own"


def test_one_long_pause_is_an_exception_and_not_what_is_usual() -> None:
    seen = stages.follow("train.log", LogGrowth(log(3), 0.0, gaps_s=(0.5, 600.0, 0.7)), ())
    assert seen.usual_silence_s == 10.0


@pytest.mark.parametrize(("silent_s", "codes"), [(100.0, []), (130.0, ["log_silent"])])
def test_a_log_without_times_needs_longer(silent_s: float, codes: list[str]) -> None:
    seen = stages.follow("train.log", LogGrowth(log(2, timed=False), silent_s, writers=(LogWriter(7, "python"),)), ())
    assert isinstance(seen.in_stage_s, NotAvailable)
    assert isinstance(seen.usual_stage_s, NotAvailable)
    assert [f.code for f in seen.findings] == codes
    assert all(f.confidence == "low" for f in seen.findings)


def test_a_finished_log_is_not_silent() -> None:
    assert stages.follow("train.log", LogGrowth(log(4), silent_s=9000.0), ()).findings == ()


def test_lines_that_came_while_we_followed_need_no_times() -> None:
    growth = LogGrowth(log(2, timed=False), 3.0, arrivals=((5, 20.0), (6, 3.5)))
    assert stages.follow("train.log", growth, ()).in_stage_s == 3.5


def test_what_the_lines_say_comes_first_and_an_ended_job_is_not_silent() -> None:
    failed = Finding("cuda_oom", "critical", "Out of memory")
    going = stages.follow("train.log", LogGrowth(log(4), 500.0, writers=(LogWriter(7, "python"),)), (failed,))
    assert [f.code for f in going.findings] == ["cuda_oom", "log_silent"]
    ended = stages.follow("train.log", LogGrowth(log(4), 500.0, closed=True), (failed,), "the job has ended")
    assert [f.code for f in ended.findings] == ["cuda_oom"]


def test_every_stage_that_the_reader_knows_has_advice_in_both_languages() -> None:
    last = {advice.name: advice for advice in stage_advice()}
    assert set(last) == set(get_args(LogStageName)) == set(STAGES)
    assert all(not advice.lines for advice in last.values()), "the last of a name is for all lines"


def test_places_with_advice_of_their_own_are_lines_that_the_reader_knows() -> None:
    for advice in stage_advice():
        assert set(advice.lines) <= set(STAGES[advice.name]), advice.name


@each(
    ("words", "wrong"),
    [
        ("[[stage]\n", "no TOML"),
        ("[[stage]]\nname = 'lunch'\n", "lunch"),
        ("[[stage]]\nname = 'data'\nline = ['Big']\n", "lower case"),
        ("[[stage]]\nname = 'data'\nmean = 1\n", "'mean'"),
        ("[[stage]]\nname = 'data'\nmeans = {en = 'a', zh = 'b'}\n", "look"),
        ("[[stage]]\nname = 'data'\nmeans = {en = 'a'}\nlook = [{en = 'a', zh = 'b'}]\n", "zh"),
    ],
)
def test_a_file_that_is_wrong_says_what_to_mend(words: str, wrong: str) -> None:
    with pytest.raises(BadKnowledge, match=wrong):
        parse(words)
