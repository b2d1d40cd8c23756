"""What a person who types gets back: help that begins with examples, and errors of one line with what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from cases import each

from jupyter_traindbg import commands
from jupyter_traindbg.cli import main
from jupyter_traindbg.errors import AmbiguousTarget, NoTarget, TargetGone, TraindbgError, UsageError
from jupyter_traindbg.magics import base
from jupyter_traindbg.magics.ipython import NotebookSession, error_lines


@pytest.fixture
def notebook() -> Iterator[None]:
    commands.in_a_notebook(True)
    yield
    commands.in_a_notebook(False)


def lines(error: TraindbgError) -> list[str]:
    """What a cell shows, without its colour."""
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error_lines(error))).split("\n")


# --- help


def test_help_says_what_it_does_then_examples_then_usage(notebook: None) -> None:
    shown = base.parser("lr").format_help()
    places = [
        shown.index(words)
        for words in ("Show all learning rates", "examples:\n  %lr  ", "usage: %lr [-h]", "--scale X")
    ]
    assert places == sorted(places)
    assert "%%" not in shown
    assert "traindbg" not in shown


def test_help_at_a_terminal_has_the_commands_of_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nccl-check", "-h"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "\n  traindbg nccl-check dumps/ " in shown
    assert "usage: traindbg nccl-check [-h]" in shown
    assert "%" not in shown


# --- refusals


@each(
    ("words", "said"),
    [
        ("--scal 0.1", "--scal means nothing here; did you mean `--scale`? `%lr -h` shows what it takes"),
        ("4711 1e-4 more", "more means nothing here; `%lr -h` shows what it takes"),
        ("--timeout 0", "--timeout: must be a positive number of seconds; `%lr -h` shows what it takes"),
        ("--group two", "--group: 'two' is no whole number; `%lr -h` shows what it takes"),
        ("--scale half", "--scale: 'half' is no number; `%lr -h` shows what it takes"),
        ("--scale", "--scale: a value must follow it; `%lr -h` shows what it takes"),
        (
            "'a",
            "the line cannot be read: no closing quotation; close the quotation, or put a backslash before the quote",
        ),
    ],
)
def test_words_that_mean_nothing_are_refused_in_one_line(notebook: None, words: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        base.parser("lr").parse_args(base.split(words))
    assert str(refused.value) == said


@each(
    ("words", "said"),
    [
        (["lr", "--scal", "3"], "--scal means nothing here; did you mean `traindbg lr --scale`?"),
        (["lrr"], "there is no verb 'lrr'; did you mean `traindbg lr`? `traindbg --help` shows all"),
        (["nccl_check"], "there is no verb 'nccl_check'; did you mean `traindbg nccl-check`?"),
        (["xyzzy"], "there is no verb 'xyzzy'; `traindbg --help` shows all"),
        ([], "VERB is missing; `traindbg -h` shows what there is"),
    ],
)
def test_a_terminal_gets_one_line_and_status_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("traindbg: ")
    assert captured.err.count("\n") == 1
    assert said.replace("`traindbg lr --scale`", "`--scale`") in captured.err


@each("words", ["--last -1", "--since 10**9", "--rank x"])
def test_what_counts_steps_is_a_whole_number(notebook: None, words: str) -> None:
    option, value = words.split()
    with pytest.raises(UsageError) as refused:
        base.parser("steps").parse_args(base.split(words))
    assert str(refused.value) == f"{option}: {value!r} is no whole number from 0 on; `%steps -h` shows what it takes"


# --- what a cell shows


def test_an_error_is_named_for_what_happened(notebook: None) -> None:
    assert lines(TargetGone("there is no process 4194000")) == [
        "TargetGone: there is no process 4194000; `%targets` shows what can be attached to"
    ]


def test_lines_end_between_words_and_never_inside_a_command(notebook: None) -> None:
    path = "/a/very/long/path/" + "x" * 90 + ".ckpt"
    shown = lines(
        NoTarget(f"{path} is nothing", "look with `%checkpoint --inspect " + path + "`, then again and again " * 4)
    )
    assert " ".join(line.strip() for line in shown).count(path) == 2
    assert f"  `%checkpoint --inspect {path}`," in shown
    assert all(len(line) <= 88 for line in shown if path not in line)


def test_candidates_are_complete_commands_one_in_each_line(notebook: None) -> None:
    error = AmbiguousTarget(
        "there are 14 jobs to choose from",
        candidates={str(4700 + n): f"/usr/bin/python3 -u train_{n}.py --lr {n}" for n in range(14)},
    )
    error.asked = ("lr", "--scale 0.1")
    shown = lines(error)
    assert shown[:2] == [
        "AmbiguousTarget: there are 14 jobs to choose from; name one of them:",
        "  %lr 4700 --scale 0.1   python train_0.py --lr 0",
    ]
    assert shown[-1] == "  ... and 2 more: %targets"
    assert len(shown) == 14


def test_what_is_asked_of_another_job_names_it(notebook: None) -> None:
    session: Any = type("Session", (), {"current": None, "named": None})()

    def job(target: str | None, timeout: float) -> None:
        session.named = target
        raise TargetGone("it has ended", "see `%steps` and `%targets`")

    session.job = job
    with pytest.raises(TargetGone) as gone:
        base.run("lr", base.parser("lr").parse_args(["4711"]), session, "4711")
    assert str(gone.value) == "it has ended; see `%steps 4711` and `%targets`"
    with pytest.raises(TargetGone, match=r"it has ended; where a value was meant, write 2\.0; see `%steps 2`"):
        base.run("clip", base.parser("clip").parse_args(["2"]), session, "2")


@each(
    ("address", "target"),
    [
        ("auto", "ray:auto"),
        ("10.0.0.1:6379", "ray:@10.0.0.1:6379"),
        ("ray://head:10001", "ray:@ray://head:10001"),
        ("ray:job@auto", "ray:job"),
    ],
)
def test_a_command_about_a_cluster_names_it_in_a_form_that_every_verb_takes(address: str, target: str) -> None:
    session = NotebookSession()
    assert base.ray_address(base.parser("ray_workers").parse_args([address]), session) == address
    assert session.named == target


def test_an_attach_that_fails_is_about_what_was_to_be_attached_to() -> None:
    with pytest.raises(TargetGone) as gone:
        base.run("attach", base.parser("attach").parse_args(["4194000"]), NotebookSession())
    assert gone.value.asked_about == "4194000"
