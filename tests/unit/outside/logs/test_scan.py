"""What is kept of a log that is too long to be kept whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg.model import LogEvidence
from jupyter_traindbg.outside import logs
from jupyter_traindbg.outside.logs.scan import AFTER, BEFORE, ENDS, QUOTA, WHOLE_LINES

LINES = 60_000
PLAIN = "nothing of interest in this line, number {}\n"


def evidence(text: str, *anchors: str) -> LogEvidence:
    return logs.read_text(text, anchors=anchors or ("out of order",))


def long_log(special: dict[int, str]) -> str:
    """Lines that say nothing, but for those of these numbers."""
    return "".join(special.get(i, PLAIN.format(i)) for i in range(1, LINES + 1))


def test_a_short_log_is_kept_whole() -> None:
    text = "".join(PLAIN.format(i) for i in range(1, WHOLE_LINES + 1))
    seen = evidence(text)
    assert [line.number for line in seen.lines] == list(range(1, WHOLE_LINES + 1))
    assert (seen.total_lines, seen.dropped) == (WHOLE_LINES, 0)
    assert [line.number for line in seen.tails[0]] == list(range(WHOLE_LINES - 29, WHOLE_LINES + 1))


def test_of_a_long_one_the_interesting_lines_with_what_surrounds_them_and_both_ends() -> None:
    seen = evidence(long_log({30_000: "The disk is OUT OF ORDER\n"}))
    numbers = {line.number for line in seen.lines}
    assert set(range(30_000 - BEFORE, 30_000 + AFTER + 1)) <= numbers
    assert {1, ENDS, LINES - ENDS + 1, LINES} <= numbers
    assert len(numbers) <= 2 * ENDS + BEFORE + AFTER + 1 + 2
    assert next(line.text for line in seen.lines if line.number == 30_000) == "The disk is OUT OF ORDER"
    assert seen.total_lines == LINES


def test_the_numbers_are_right_wherever_a_line_is() -> None:
    special = {n: f"out of order {n}\n" for n in range(500, LINES, 1777)}
    seen = evidence(long_log(special))
    found = {line.number: line.text for line in seen.lines if "out of order" in line.text}
    assert found == {n: text.strip() for n, text in special.items()}


def test_of_a_kind_the_first_and_the_last_are_kept_and_the_others_counted() -> None:
    special = {n: f"[rank0]: out of order {n}\n" for n in range(1000, 50_000, 10)}
    special[25_005] = "[rank1]: out of order, and this is rank 1\n"
    seen = evidence(long_log(special))
    kept = [line.number for line in seen.lines if line.rank == 0 and "out of order" in line.text]
    assert kept[:QUOTA] == list(range(1000, 1000 + 10 * QUOTA, 10))
    assert kept[-QUOTA:] == list(range(50_000 - 10 * QUOTA, 50_000, 10))
    assert [line.number for line in seen.lines if line.rank == 1] == [25_005]
    assert seen.dropped == len(special) - 1 - 2 * QUOTA
    folded = {line.number: line.repeats for line in seen.lines if line.repeats > 1}
    assert folded == {kept[QUOTA - 1]: 1 + seen.dropped}


def test_a_traceback_is_kept_whole_among_many_others() -> None:
    usual = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x()\nValueError: usual\n'
    new = 'Traceback (most recent call last):\n  File "b.py", line 2, in g\n    y()\nOddError: new\n'
    text = "".join((usual if i != 20_000 else new) + PLAIN.format(i) for i in range(30_000))
    errors = evidence(text).errors
    (odd,) = [e for e in errors if e.type == "OddError"]
    assert (odd.frames[-1].file, odd.frames[-1].code) == ("b.py", "y()")
    assert len(errors) >= 2 * QUOTA


def test_the_first_nan_is_never_missed() -> None:
    lines = [f"step {i} loss: 0.5 grad_norm: 1.0 lr: 1e-4\n" for i in range(1, LINES + 1)]
    for i in range(41_234, LINES):
        lines[i] = lines[i].replace("grad_norm: 1.0", "grad_norm: nan")
    for i in range(52_345, LINES):
        lines[i] = lines[i].replace("loss: 0.5", "loss: nan")
    series = {s.name: s for s in evidence("".join(lines)).series}
    first = {name: s.first_nonfinite.number for name, s in series.items() if s.first_nonfinite is not None}
    assert first == {"grad_norm": 41_235, "loss": 52_346}
    assert series["lr"].nonfinite == 0
    assert series["lr"].count > 300


def test_a_bar_of_one_line_gives_its_pieces() -> None:
    states = [f"{i % 100}%|## | {i}/90000 [00:10<09:00, 2.00it/s, loss=0.5]" for i in range(30_000)]
    states[17_000] = "the disk is out of order"
    seen = evidence("\r".join(states) + "\nthe end\n")
    assert any(line.text == "the disk is out of order" and line.number == 1 for line in seen.lines)
    assert seen.lines[-1].text == "the end"
    assert seen.total_lines == 2
    assert {"loss", "it/s"} <= {s.name for s in seen.series}


def test_a_huge_line_is_searched_and_cut() -> None:
    seen = evidence("start\n" + "x" * 5_000_000 + " out of order " + "y" * 5_000_000 + "\nend\n")
    (line,) = [line for line in seen.lines if "out of order" in line.text]
    assert line.number == 2
    assert len(line.text) <= 4000
    assert seen.lines[-1].text == "end"


def test_nothing_but_interesting_lines_stays_within_bounds() -> None:
    text = "".join(f"[rank{i % 64}]: KindOf{i % 5000}Error: out of order {i}\n" for i in range(30_000))
    seen = evidence(text)
    assert len(seen.lines) < 25_000
    assert seen.dropped > 0
    assert len(seen.errors) <= 2000


def test_a_new_error_is_found_among_those_of_thousands_of_ranks() -> None:
    lines = [
        f'[rank{i % 4000}]:   File "m{i % 7}.py", line 1, in f\n[rank{i % 4000}]: ValueError: usual\n'
        for i in range(20_000)
    ]
    lines[17_777] = "[rank3999]: OddError: new\n"
    seen = evidence("".join(lines))
    assert [(e.line.rank, e.message) for e in seen.errors if e.type == "OddError"] == [(3999, "new")]
    assert len(seen.lines) < 25_000


def test_stages_are_where_they_change() -> None:
    special = {
        100: "Generating train split: 5 examples\n",
        20_000: "init_model START\n",
        30_000: "***** Running training *****\n",
        30_500: "Starting training\n",
        40_000: "Waiting for rollout\n",
        50_000: "Saving model checkpoint to out\n",
    }
    stages = evidence(long_log(special)).stages
    assert [(s.name, s.line.number) for s in stages] == [
        ("data", 100),
        ("init", 20_000),
        ("train", 30_000),
        ("rollout", 40_000),
        ("save", 50_000),
    ]


@pytest.mark.parametrize("separator", ["\n", "\r\n"])
def test_both_ends_of_line(tmp_path: Path, separator: str) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(long_log({9000: "out of order\n"}).replace("\n", separator).encode())
    seen = logs.read(logs.find(str(file)), anchors=("out of order",), timeout=30)
    assert [line.number for line in seen.lines if line.text == "out of order"] == [9000]
    assert seen.total_lines == LINES


def test_times_of_day_are_left_out_where_there_are_dates() -> None:
    dated = evidence("08:00:00 early\n2026-03-04 08:00:01 x\n08:00:02 y\n").lines
    assert dated[0].time_s is None
    assert dated[2].time_s == (dated[1].time_s or 0) + 1
    assert [line.time_s for line in evidence("08:00:00 a\n08:00:02 b\n").lines] == [28800.0, 28802.0]


@each(
    ("line", "launcher"),
    [
        ("torch.distributed.elastic.multiprocessing.api: failed", "torchrun"),
        ("(Actor pid=3) x", "ray"),
        ("srun: error: node1: task 0: Killed", "slurm"),
        ("[2026-03-04 10:00:00,000] [INFO] [launch.py:256:main] Process 1 succesfully started", "deepspeed"),
        ("[1,0]<stderr>: x\nmpirun noticed that process rank 0 exited", "mpi"),
        ("Cell In[3], line 2", "notebook"),
    ],
)
def test_who_started_the_job(line: str, launcher: str) -> None:
    assert list(evidence(line).launchers) == [launcher]
    assert list(evidence("node1:15:20 [0] NCCL INFO x").launchers) == []
