"""The benchmarks run and print their tables. What they measure is not judged here: a test machine is no place for timings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import REPO

BENCHMARKS = REPO / "benchmarks"
Quick = Callable[[str], str]
pytestmark = pytest.mark.timeout(300)


class Run:
    """A benchmark in its shortest form, and what it printed."""

    def __init__(self, script: str, out: Path, **env: str) -> None:
        self.out, self.err = out / f"{script}.out", out / f"{script}.err"
        command = [sys.executable, "-W", "error", str(BENCHMARKS / script), "--quick"]
        with self.out.open("w") as stdout, self.err.open("w") as stderr:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env={**os.environ, **env}
            )

    def printed(self) -> str:
        status = self.process.wait(200)
        assert status == 0, self.err.read_text()
        return self.out.read_text()


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quick]:
    """What a script prints. They all run at once: nobody looks at their figures, and they wait most of the time."""
    out = tmp_path_factory.mktemp("benchmarks")
    scripts = ("peers.py", "attach.py", "overhead.py", "scan.py", "checkpoint.py", "hangs.py", "logs.py", "watch.py")
    scripts += (
        "bounds.py",
        "deadlines.py",
        "faults.py",
        "slow.py",
        "leaks.py",
        "step_cost.py",
        "profiling.py",
        "hosts.py",
    )
    runs = {script: Run(script, out) for script in scripts}
    yield lambda script: runs[script].printed()
    for run in runs.values():  # those that nobody waited for end the trainings that they have started
        run.process.send_signal(signal.SIGINT)
    for run in runs.values():
        run.process.wait(60)


def tables(text: str) -> list[list[list[str]]]:
    """The cells of the lines below the head of each table in `text`."""
    found: list[list[list[str]]] = []
    above = ""
    for line in text.splitlines():
        if line.startswith("|") and set(line) <= set("|- "):
            found.append([])
        elif line.startswith("|") and above.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        above = line
    return found


def table(text: str) -> list[list[str]]:
    """The last one."""
    found = tables(text)
    assert found, text
    return found[-1]


def with_confidence(text: str) -> list[list[str]]:
    """The table in front of the one that tells how sure findings were, and how often they were right."""
    *_, rows, sure = tables(text)
    assert {row[0] for row in sure} <= {"high", "medium", "low"}
    assert all(right.partition("/")[0] == right.partition("/")[2] for _, right, *_ in sure), sure
    return rows


def test_overhead_prints_every_state(quick: Quick) -> None:
    rows = table(quick("overhead.py"))
    assert [row[0].split(": ")[1] for row in rows] == [
        "attached, idle",
        "polled at 2 Hz",
        "polled at 2 Hz, stacks too",
        "while it is diagnosed",
        "detached again",
    ]
    assert all(float(row[1]) > 0 and float(row[2]) > 0 for row in rows)


def test_the_cost_of_a_step_is_told_for_every_kind_of_step(quick: Quick) -> None:
    rows = table(quick("step_cost.py"))
    assert [row[0] for row in rows] == ["5 ms of a transformer layer", "5 ms of pure Python", "a bare step"]
    assert all(row[1].endswith(")") and row[4].endswith("ms") for row in rows), rows


def test_slow_trainings_are_told_with_what_mending_saves(quick: Quick) -> None:
    rows = with_confidence(quick("slow.py"))
    assert [row[0] for row in rows][:2] == ["sleeps (1 rank)", "sound_plain (1 rank)"]
    assert [row[0].partition(" /")[0] for row in rows][-2:] == [
        "a step while it is looked at",
        "the same where nobody looks",
    ]


def test_attach_prints_every_way_in(quick: Quick) -> None:
    rows = table(quick("attach.py"))
    assert len(rows) == 8
    assert all(row[1] and row[4] for row in rows), rows


def test_scan_is_measured_at_a_safe_point_beside_both_yardsticks(quick: Quick) -> None:
    rows = table(quick("scan.py"))
    assert {row[0].split(": ")[1].split(" (")[0] for row in rows} == {"naive isnan and isinf per tensor", "memcpy"}
    assert all(float(row[3].split()[0]) > 0 for row in rows)


def test_a_checkpoint_is_measured_beside_torch_save(quick: Quick) -> None:
    rows = table(quick("checkpoint.py"))
    assert [row[0].split(",")[0] for row in rows] == [
        "pause of the training",
        "the same by our own clock",
        "until it is complete on the disk",
    ]
    assert float(rows[0][3].split()[0]) > 0
    assert all(float(row[1].split()[0]) > 0 for row in rows)


def test_a_hang_is_diagnosed_and_its_evidence_spread_over_many_ranks(quick: Quick) -> None:
    said = quick("hangs.py")
    assert "right cause" in said
    assert tables(said)[-2] == [["high", "1/1", "100.0%", "21%-100%", ">= 98% met"]]
    ((what, gathered, verdict, first, _),) = table(said)
    assert what == "sleeping, 100 ranks"
    assert min(float(gathered), float(verdict)) > 0
    assert first == "python_wait rank 1"


def test_a_training_that_is_not_sound_is_told_from_one_that_is(quick: Quick) -> None:
    fault, sound, *totals = with_confidence(quick("faults.py"))
    assert fault[:3] == ["lr (1 rank)", "1 of 1", "lr_implausible"]
    assert sound[:3] == ["sound: none", "1 of 1", "nothing"]
    assert [row[1] for row in totals] == ["1 of 1", "1 of 1"]


def test_reading_is_measured_for_every_kind_of_log_and_the_memory_of_it(quick: Quick) -> None:
    *speeds, memory = table(quick("logs.py"))
    assert len(speeds) == 5
    assert all(float(row[1].split()[0]) > 0 and float(row[2]) > 0 for row in speeds)
    assert "peak memory" in memory[0]
    assert 20 < float(memory[1].split()[0]) < 300


def test_watching_is_measured_for_few_and_many_ranks_and_on_a_real_training(quick: Quick) -> None:
    *made_up, real, cpu, added = table(quick("watch.py"))
    assert [row[0] for row in made_up if "on the wire" in row[0]] == [
        f"{who}: KB on the wire a refresh" for who in ("1 rank", "8 ranks", "300 ranks")
    ]
    assert all(float(row[1].split()[0]) > 0 for row in made_up)
    assert "watched at 4 Hz" in real[0]
    assert "ms of CPU" in cpu[0]
    assert "CPU of the agent's threads" in added[0]
    assert min(float(row[3].split()[0]) for row in (real, cpu)) > 0
    assert float(added[3].split()[0]) >= 1


def test_the_cost_of_pure_code_is_told_at_two_sizes(quick: Quick) -> None:
    rows = table(quick("bounds.py"))
    assert len(rows) == 21
    assert all(float(row[1].split()[0]) >= 0 for row in rows)


def test_whoever_does_not_answer_is_told_beside_the_deadline(quick: Quick) -> None:
    rows = table(quick("deadlines.py"))
    assert len(rows) > 5
    assert any("import traindbg" in row[0] for row in rows)


def test_no_peer_is_one_line_and_no_failure(tmp_path: Path) -> None:
    said = Run("peers.py", tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS="").printed()
    assert len(said.splitlines()) == 1
    assert "probing==0.2.4 could not be installed" in said


def test_peers_are_measured_beside_ours(quick: Quick) -> None:
    said = quick("peers.py")
    if "could not be installed" in said:
        pytest.skip(said.strip())
    assert "probing, tracing" in said
    assert all(float(row[3]) > 0 for row in table(said))


def test_leaks_prints_who_was_found_and_how_long_the_training_paused(quick: Quick) -> None:
    rows = with_confidence(quick("leaks.py"))
    assert [row[0] for row in rows] == ["losses", "hooks", "sound: no_leaks/metrics.py", "all leaks", "all sound ones"]
    assert all(row[1].endswith((" of 1", " of 2")) for row in rows), rows
    assert all(row[3].endswith(" ms") for row in rows[:2]), rows


def test_profiling_is_compared_with_what_people_write_into_their_loop(quick: Quick) -> None:
    guide, lean, nothing = table(quick("profiling.py"))
    assert "shapes, memory, stacks" in guide[0]
    assert "operators alone" in lean[0]
    assert float(guide[2]) > 0
    assert "nothing done" in nothing[0]
    assert float(guide[4]) > 0


def test_hosts_name_the_rank_and_whom_nobody_hears(quick: Quick) -> None:
    rows = table(quick("hosts.py"))
    assert [row[0].partition(": ")[2].split()[0] for row in rows] == [
        "python_wait",
        "python_wait",
        *["host_unreachable"] * 2,
    ]
