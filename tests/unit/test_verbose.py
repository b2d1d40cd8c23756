"""-v: what is done is told to whoever asks for it, without secrets, and to nobody else."""

from __future__ import annotations

import logging
import re
import threading

import pytest
from cases import each

from jupyter_traindbg import cli
from jupyter_traindbg.verbose import telling

ROOT = logging.getLogger("jupyter_traindbg")
A_ROOM = logging.getLogger("jupyter_traindbg.attach.inject")


def test_a_line_says_when_and_who() -> None:
    told: list[str] = []
    with telling(told.append):
        A_ROOM.debug("process %d: %s", 4711, "done")
    (line,) = told
    assert re.fullmatch(r" +0\.\d{3} s  attach\.inject: process 4711: done", line)


def test_nobody_is_told_without_asking() -> None:
    assert not A_ROOM.isEnabledFor(logging.DEBUG)
    with telling(lambda line: None):
        assert A_ROOM.isEnabledFor(logging.DEBUG)
    assert not A_ROOM.isEnabledFor(logging.DEBUG)
    assert ROOT.handlers == []


def test_several_listen_and_the_level_somebody_has_set_comes_back() -> None:
    first: list[str] = []
    second: list[str] = []
    ROOT.setLevel(logging.ERROR)
    try:
        one, other = telling(first.append), telling(second.append)
        one.__enter__()
        other.__enter__()
        A_ROOM.debug("both")
        one.__exit__(None, None, None)
        thread = threading.Thread(target=A_ROOM.debug, args=("the second",))
        thread.start()
        thread.join()
        other.__exit__(None, None, None)
        A_ROOM.debug("nobody")
        assert ROOT.level == logging.ERROR
    finally:
        ROOT.setLevel(logging.NOTSET)
    assert [line.rpartition(": ")[2] for line in first] == ["both"]
    assert [line.rpartition(": ")[2] for line in second] == ["both", "the second"]


@each(
    ("said", "secret"),
    [
        ("refused: --api_key=sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD", "abcdefghij"),
        ("GET https://ada:s3cr3tpassw0rd@host/api", "s3cr3tpassw0rd"),
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "abcdefghij"),
        ("title \x1b]0;x\x07 end", "\x1b"),
    ],
)
def test_no_secret_and_nothing_that_a_terminal_obeys(said: str, secret: str) -> None:
    told: list[str] = []
    with telling(told.append):
        A_ROOM.debug("%s", said)
    assert len(told) == 1
    assert secret not in told[0]


def test_who_listens_badly_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(line: str) -> None:
        raise ValueError(line)

    with telling(broken):
        A_ROOM.debug("told")
    assert "Logging error" in capsys.readouterr().err


@each(
    "words", [["-v", "stacks", "1"], ["stacks", "1", "-v"], ["stacks", "--verbose", "1"], ["-v", "stacks", "-v", "1"]]
)
def test_the_terminal_tells_on_stderr_wherever_it_is_asked(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.main(words)
    quiet = cli.main([word for word in words if word not in ("-v", "--verbose")])
    said = capsys.readouterr()
    assert status == quiet
    lines = [line for line in said.err.splitlines() if re.match(r" +\d+\.\d{3} s  ", line)]
    assert "attach: 1: rank 0 of 1 is process 1" in lines[0]
    assert len([line for line in lines if "rank 0 of 1" in line]) == 1, "the second time nobody asked"
    assert not re.search(r"^ +\d+\.\d{3} s  ", said.out, re.MULTILINE)


def test_a_verb_that_there_is_not_is_refused_behind_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-v", "stakcs"]) == cli.BAD_USAGE
    assert capsys.readouterr().err == (
        "traindbg: there is no verb 'stakcs'; did you mean `traindbg stacks`? `traindbg --help` shows all\n"
    )
