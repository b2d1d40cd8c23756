"""Questions to many at once: in order, with the reasons of those that fail, and held up by none that never comes back."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from cases import each as each_case

from jupyter_traindbg.errors import DeadlineExceeded, NoTarget
from jupyter_traindbg.tasks import each

PATIENT_S = 30.0
"""For what is done at once: on a busy machine it may take its time."""


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """Whoever waits for it waits until the test is over."""
    event = threading.Event()
    yield event
    event.set()


@each_case("count", [0, 1, 2, 300])
def test_all_are_asked_and_answers_come_in_order(count: int) -> None:
    assert each(range(count), lambda n: n * n, PATIENT_S) == [(n, n * n) for n in range(count)]


def test_no_more_are_asked_at_once_than_wanted() -> None:
    under_way, most, lock = 0, 0, threading.Lock()

    def ask(n: int) -> int:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        with lock:
            under_way -= 1
        return n

    assert [answer for _, answer in each(range(50), ask, PATIENT_S, at_once=3)] == list(range(50))
    assert 1 <= most <= 3


def test_one_that_never_comes_back_has_a_reason_and_the_others_their_answers(never: threading.Event) -> None:
    def ask(n: int) -> int:
        if n == 2:
            never.wait()
        if n == 3:
            raise NoTarget("nobody is here")
        return n

    answers = dict(each(range(5), ask, 0.3, grace_s=0.2))
    assert [answers[n] for n in (0, 1, 4)] == [0, 1, 4]
    assert isinstance(answers[2], DeadlineExceeded)
    assert "no answer came in 0.3 s" in str(answers[2])
    assert isinstance(answers[3], NoTarget)


def test_those_that_had_no_turn_are_not_asked_any_more(never: threading.Event) -> None:
    asked: list[int] = []

    def ask(n: int) -> None:
        asked.append(n)
        never.wait()

    answers = each(range(10), ask, 0.1, at_once=2, grace_s=0.1)
    assert all(isinstance(answer, DeadlineExceeded) for _, answer in answers)
    never.set()
    for thread in threading.enumerate():
        if thread.name == "traindbg-ask":
            thread.join(PATIENT_S)
    assert sorted(asked) == [0, 1]


def test_an_error_of_our_own_does_not_pass_for_a_silent_rank() -> None:
    with pytest.raises(ZeroDivisionError):
        each([1, 0], lambda n: 1 // n, PATIENT_S)


def test_the_interpreter_ends_although_one_hangs() -> None:
    code = (
        "import threading; from jupyter_traindbg.tasks import each; "
        "print([str(a) for _, a in each([1], lambda n: threading.Event().wait(), 0.1)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENT_S, check=True)
    assert "no answer came in 0.1 s" in done.stdout
