"""`memory` on programs that nobody prepared: who holds what grows, and the line; and nothing of programs that do not leak."""

from __future__ import annotations

from pathlib import Path

import pytest
import support
from leaks import LEAKS, ask, assert_right, leaking, marked_line, sound, warnings
from support import Start
from visits import losses_of

import traindbg

RUN = ("losses", "carried", "hooks", "cycles", "optimizers", "workers")
KNOWN = {leak.name: leak for leak in LEAKS}


@pytest.mark.parametrize("name", RUN)
def test_a_cold_memory_names_who_holds_it_and_the_line(name: str, tmp_path: Path) -> None:
    leak = KNOWN[name]
    with leaking(leak, tmp_path) as program:
        answer = ask(program.pid)
    assert_right(answer, leak)
    if leak.line:
        assert any("# leaks" in line for line in answer["findings"][0]["source"]["lines"])


@pytest.mark.parametrize("program", ["no_leaks/bounded.py", "no_leaks/cyclic.py"])
def test_what_has_a_bound_or_waits_for_the_collector_is_no_leak(program: str, tmp_path: Path) -> None:
    with sound(program, tmp_path) as running:
        answer = ask(running.pid)
    assert answer["findings"] == []


def test_the_flight_recorder_that_fills_up_is_named_and_no_leak(tmp_path: Path) -> None:
    with sound("no_leaks/gathers.py", tmp_path) as running:
        answer = ask(running.pid)
    assert answer["findings"] == []
    (held,) = answer["ranks"][0]["look"]["holders"]
    assert (held["name"], held["bound"], round(held["a_step"])) == ("FlightRecorder", 100_000, 6)
    assert held["bytes_a_step"] > 1024


def test_objects_are_not_counted_where_nothing_grows_unless_somebody_asks_for_it(tmp_path: Path) -> None:
    with sound("no_leaks/metrics.py", tmp_path) as running:
        quick, long = ask(running.pid), ask(running.pid, "--growth")
    (of_quick,), (of_long,) = (answer["ranks"] for answer in (quick, long))
    assert (of_quick["look"]["looked"], of_long["look"]["looked"]) == (False, True)
    assert of_long["look"]["objects"] > 500
    assert (quick["findings"], long["findings"]) == ([], [])


def test_losses_of_a_training_that_was_looked_at_are_bit_identical(start: Start) -> None:
    alone, looked_at = (start("leaks/carried.py", "--steps", "400", ready="ready") for _ in range(2))
    with traindbg.attach(looked_at.pid) as job:
        for growth in (False, True):
            (rank,) = job.memory(growth=growth).ranks
            assert rank.look
            assert rank.look.looked
            assert rank.look.holders
    assert looked_at.wait(120) == alone.wait(120) == 0
    assert len(losses_of(alone)) == 400
    assert losses_of(looked_at) == losses_of(alone)


def test_one_leak_of_several_ranks_is_one_finding(start: Start, free_port: str) -> None:
    program = start("leaks/losses.py", command=support.torchrun(2, free_port), timeout_s=90)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        result = job.memory(growth=True)
    (finding,) = result.findings
    assert (finding.code, list(finding.who)) == ("graphs_kept", ["rank 0", "rank 1"])
    assert f"losses.py:{marked_line(KNOWN['losses'])} main" in (finding.where or "")
    assert [rank.rank for rank in result.ranks] == [0, 1]


def test_diagnose_names_the_holder_as_memory_does(start: Start) -> None:
    """Its rule of the curve takes 40 steps at least; from then on it is the same finding."""
    program = start("leaks/outputs.py", ready="300 ")
    with traindbg.attach(program.pid) as job:
        support.until(
            lambda: any(finding.code != "memory_growth" for finding in job.diagnose().findings), "no holder", 90
        )
        (of_diagnose,) = job.diagnose().findings
        (of_memory,) = job.memory().findings
    assert (of_diagnose.code, of_diagnose.where) == (of_memory.code, of_memory.where)
    assert of_diagnose.title.startswith("`outputs`, a global of __main__, keeps")
    assert of_diagnose.source == of_memory.source
    assert any("Mann-Kendall" in line for line in of_diagnose.evidence)


def test_a_leak_that_no_curve_shows_is_told_by_memory_and_by_diagnose_however_long_it_is_watched(start: Start) -> None:
    """7 KiB a step: what 160 steps of the resident set look like says nothing of it."""
    program = start("leaks/losses.py", ready="ready")
    with traindbg.attach(program.pid) as job:
        support.until(lambda: job.memory().ranks[0].growth.startswith("steady"), "the curve is not known", 90)
        result, diagnosis = job.memory(), job.diagnose()
    where = f"losses.py:{marked_line(KNOWN['losses'])} main"
    for findings in (result.findings, diagnosis.findings):
        assert [finding.code for finding in findings] == ["graphs_kept"]
        assert where in (findings[0].where or "")
    assert diagnosis.state == "progressing"
    assert [check.state for check in diagnosis.checks if check.verb == "memory"] == ["trouble"]


def test_a_buffer_that_fills_up_is_called_so_where_its_curve_grows(start: Start) -> None:
    program = start("no_leaks_apart/capped.py", ready="ready")
    with traindbg.attach(program.pid) as job:
        support.until(lambda: job.memory().findings, "the curve does not grow", 90)
        told = [*job.memory().findings, *job.diagnose().findings]
    assert {(finding.code, finding.severity) for finding in told} == {("fills_up", "info")}
    assert {finding.title.split("`")[1] for finding in told} == {"gallery.pictures", "recent.batches"}


@pytest.mark.parametrize("program", ["no_leaks_apart/first_epoch.py", "no_leaks_apart/epoch_outputs.py"])
def test_what_may_end_is_told_of_and_nobody_is_warned(program: str, tmp_path: Path) -> None:
    with sound(program, tmp_path) as running:
        answer = ask(running.pid)
    assert warnings(answer) == []


def test_no_pause_is_long(tmp_path: Path) -> None:
    """A tree of a hundred thousand places takes many pauses, none of them much longer than the others."""
    with leaking(KNOWN["wide"], tmp_path) as running:
        answer = ask(running.pid)
    assert_right(answer, KNOWN["wide"])
    pauses = answer["ranks"][0]["look"]["pauses_s"]
    assert len(pauses) > 10
