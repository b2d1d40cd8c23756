"""What may come back from a cluster: plain data and this package's own, and nothing that would run."""

from __future__ import annotations

import os
import pickle
import time
from typing import Any

import pytest
from cases import each
from render_scenes import SMALL

from jupyter_traindbg.errors import NotPermitted, ProbeFailed, TargetGone
from jupyter_traindbg.hosts import wire
from jupyter_traindbg.model import NotAvailable, Picture, Problem, Result, Silent
from jupyter_traindbg.verbose import telling


class Planted:
    """What would call something when it is unpickled."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> object:
        return self.call


@each(
    "value",
    [None, {"a": [1, 2.5, b"x", {3}]}, (Silent(1, 2, "why"), NotAvailable("not here")), frozenset({1}), slice(1, 2)],
)
def test_plain_data_and_our_own_come_through(value: object) -> None:
    assert wire.loads(wire.dumps(value)) == value


@each("result", [result for result in SMALL.values() if not isinstance(result, Picture)])
def test_every_result_comes_through(result: Result) -> None:
    back = wire.loads(wire.dumps(result))
    assert back.to_dict() == result.to_dict()
    assert [(one.kind, one.id) for f in back.findings for one in f.who] == [
        (one.kind, one.id) for f in result.findings for one in f.who
    ]


def test_a_problem_keeps_its_next_step() -> None:
    problem = wire.loads(wire.dumps(Problem("there is no driver", "install it")))
    assert (problem, problem.cause, problem.next_step) == (
        "there is no driver; install it", "there is no driver", "install it",
    )  # fmt: skip


def test_an_error_keeps_its_next_step() -> None:
    error = wire.loads(wire.dumps(NotPermitted("the kernel forbids it", "use sudo")))
    assert isinstance(error, NotPermitted)
    assert (error.cause, error.next_step) == ("the kernel forbids it", "use sudo")


@each(
    "planted",
    [
        Planted(os.system, "true"),
        Planted(eval, "1"),
        Planted(getattr, "x", "upper"),
        Planted(wire.function, "jupyter_traindbg.outside.procfs:processes"),
        Planted(wire.send, 1, b""),
    ],
)
def test_what_would_run_is_refused(planted: Planted) -> None:
    with pytest.raises(pickle.UnpicklingError, match="no place"):
        wire.loads(pickle.dumps([planted]))


@each("name", ["os:system", "jupyter_traindbg", "jupyter_traindbg.errors:", "jupyter_traindbgx.y:z", ":x"])
def test_only_functions_of_this_package_are_run(name: str) -> None:
    with pytest.raises(ValueError, match="names no function"):
        wire.function(name)


def test_a_request_is_answered_with_its_value_or_its_error() -> None:
    def served(*request: Any) -> object:
        return wire.answered(wire.serve(wire.request(*request)), "it")

    assert served("jupyter_traindbg.outside.procfs:exists", (os.getpid(),), {}) is True
    with pytest.raises(TargetGone, match="there is no process"):
        served("jupyter_traindbg.attach.process:link", (2**22 + 1,), {})
    with pytest.raises(ProbeFailed, match="TypeError"):
        served("jupyter_traindbg.outside.procfs:exists", (), {})
    with pytest.raises(ProbeFailed, match="the answer of it could not be read"):
        wire.answered(b"no pickle", "it")


def test_what_is_done_there_is_told_here_where_somebody_listens() -> None:
    request = ("jupyter_traindbg.attach.process:found", (os.getpid(), 0.1), {})
    assert wire.loads(wire.serve(wire.request(*request)))[2] == []
    here: list[str] = []
    with telling(here.append):
        asked = wire.request("jupyter_traindbg.attach.access:not_permitted", (1,), {})
    there = wire.serve(asked)
    with telling(here.append):
        wire.answered(there, "node 1")
    (line,) = (line for line in here if "node 1" in line)
    assert "attach.access: process 1 is closed: it has uid 0" in line


def test_pieces_arrive_as_they_were_sent() -> None:
    there, here = os.pipe()
    try:
        for piece in (b"", b"one", b"x" * 60_000):
            wire.send(here, piece)
            assert wire.receive(there) == piece
        os.close(here)
        with pytest.raises(EOFError):
            wire.receive(there)
    finally:
        os.close(there)


def test_what_nobody_reads_is_given_up_in_time() -> None:
    there, here = os.pipe()
    try:
        with pytest.raises(TimeoutError, match="were not taken in time"):
            wire.send(here, bytes(1 << 20), time.monotonic() + 0.05)
    finally:
        os.close(there)
    with pytest.raises(BrokenPipeError):
        wire.send(here, b"x", time.monotonic() + 5)
    os.close(here)
