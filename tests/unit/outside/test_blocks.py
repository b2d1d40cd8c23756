"""Loops and branches of source files, read where ranks are at different lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_traindbg.model import Block, Frame
from jupyter_traindbg.outside.blocks import MOST_WORDS, blocks, where_ranks_differ

SOURCE = """\
def main():
    for epoch in range(3):
        for step, batch in enumerate(loader):
            train(batch)
        else:
            done()
        if dist.get_rank() == 0:
            save()
    while not finished():
        wait()
"""


def test_every_loop_and_branch_with_its_lines() -> None:
    assert blocks(SOURCE) == (
        Block("for", 2, 8, "epoch in range(3)"),
        Block("for", 3, 4, "step, batch in enumerate(loader)"),
        Block("if", 7, 8, "dist.get_rank() == 0"),
        Block("while", 9, 10, "not finished()"),
    )


@pytest.mark.parametrize("source", ["def f(:\n", "\0", "(" * 5000])
def test_what_cannot_be_parsed_has_none(source: str) -> None:
    assert blocks(source) == ()


def test_long_words_are_cut() -> None:
    (block,) = blocks(f"while {' and '.join(['ready'] * 50)}:\n    pass\n")
    assert len(block.words) == MOST_WORDS
    assert block.words.endswith("...")


def program(tmp_path: Path) -> str:
    file = tmp_path / "train.py"
    file.write_text(SOURCE)
    os.utime(file, (1e9, 1e9))  # older than this process, which is to have loaded it
    return str(file)


def test_files_are_read_where_ranks_are_at_different_lines(tmp_path: Path) -> None:
    file = program(tmp_path)
    in_loop, behind = ((Frame(file, line, "main"), Frame("/lib/runpy.py", 88, "_run_code", True)) for line in (4, 10))
    found = where_ranks_differ([(os.getpid(), in_loop), (os.getpid(), behind)])
    assert list(found) == [file]
    assert found[file] == blocks(SOURCE)


def test_nothing_is_read_where_all_are_at_the_same_line(tmp_path: Path) -> None:
    here = (Frame(program(tmp_path), 4, "main"),)
    assert where_ranks_differ([(os.getpid(), here)] * 3) == {}


def test_a_file_that_is_gone_or_newer_than_the_process_is_left_out(tmp_path: Path) -> None:
    file = program(tmp_path)
    os.utime(file)
    newer = [(os.getpid(), (Frame(file, line, "main"),)) for line in (4, 10)]
    gone = [(os.getpid(), (Frame(str(tmp_path / "gone.py"), line, "main"),)) for line in (4, 10)]
    typed = [(os.getpid(), (Frame("<stdin>", line, "<module>"),)) for line in (4, 10)]
    assert where_ranks_differ([*newer, *gone, *typed]) == {}


def test_a_loop_that_waits_for_works_is_none_of_steps() -> None:
    found = blocks("for batch in loader:\n    while not work.is_completed():\n        sleep(1)\n    step(batch)\n")
    assert found == (Block("for", 1, 4, "batch in loader"),)
