"""Which processes of the job ended, as the log's launchers tell it, the first failure first."""

from __future__ import annotations

from cases import each

from jupyter_traindbg.model import LogEnd
from jupyter_traindbg.outside.logs import read_text

BLOCK = """\
[{n}]:
  time      : 2026-03-04_10:00:0{second}
  host      : gpu-{host}
  rank      : {rank} (local_rank: {local})
  exitcode  : {code} (pid: {pid})
"""


def ends(text: str) -> list[LogEnd]:
    return list(read_text(text, anchors=("never there",)).ends)


def summary(second: int, host: int, first: int, code: int, other: int) -> str:
    told = BLOCK.format(n=1, second=second, host=host, rank=other, local=0, code=-15, pid=4000 + other)
    root = BLOCK.format(n=0, second=second, host=host, rank=first, local=1, code=code, pid=4000 + first)
    return f"Failures:\n{told}Root Cause (first observed failure):\n{root}"


def test_torchruns_summary() -> None:
    first, told = ends(summary(1, 7, 9, -11, 8))
    assert (first.rank, first.signal, first.exit_code, first.pid, first.host) == (9, "SIGSEGV", None, 4009, "gpu-7")
    assert (first.first, first.by_itself) == (True, True)
    assert (told.rank, told.signal, told.first, told.by_itself) == (8, "SIGTERM", False, False)
    assert first.line.text.startswith("  exitcode")


def test_it_beats_lines_that_know_local_ranks_alone() -> None:
    line = "E0304 10:00:01 api.py:1002] failed (exitcode: -11) local_rank: 1 (pid: 4009) of binary: /py/bin/python\n"
    assert [e.rank for e in ends(line)] == [1]
    assert [e.rank for e in ends(line + summary(1, 7, 9, -11, 8))] == [9, 8]


def test_of_two_hosts_the_earlier_first_failure_is_the_first() -> None:
    assert [e.rank for e in ends(summary(9, 1, 0, 1, 1) + summary(1, 2, 9, -11, 8))] == [9, 0, 8, 1]


@each(
    ("line", "signal", "code"),
    [
        ("srun: error: gn07: task 5: Exited with exit code 139", "SIGSEGV", None),
        ("srun: error: gn07: task 5: Exited with exit code 255", "", 255),
        ("srun: error: gn07: task 5: Exited with exit code 3", "", 3),
        ("Bus error (core dumped)", "SIGBUS", None),
    ],
)
def test_a_line_and_what_a_shell_makes_of_a_signal(line: str, signal: str, code: int | None) -> None:
    (end,) = ends(line)
    assert (end.signal, end.exit_code) == (signal, code)


@each(
    "line", ["srun: error: gn07: task 343: Terminated", "failed (exitcode: -15) local_rank: 3 (pid: 812) of binary: x"]
)
def test_what_the_launcher_did_itself(line: str) -> None:
    assert not [e for e in ends(line) if e.by_itself]


@each("line", ["Segmentation faults seen: 0", "task 3: Aborted", "exitcode handling is on"])
def test_words_that_tell_of_no_end(line: str) -> None:
    assert ends(line) == []
