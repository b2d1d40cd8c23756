"""Safe points: on the training thread, and nothing of ours ever raises into it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from jupyter_traindbg.agent import cuda
from jupyter_traindbg.agent.safepoint import SafePoints


@pytest.fixture
def safepoints() -> Iterator[SafePoints]:
    made = SafePoints()
    made.open()
    yield made
    made.close()


def optimizer() -> torch.optim.Optimizer:
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.grad = torch.ones(2)
    return torch.optim.SGD([parameter], lr=0.1)


def in_background(function: object) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_a_request_runs_on_the_training_thread_after_a_step(safepoints: SafePoints) -> None:
    ran: list[tuple[int | None, int]] = []
    asker = in_background(lambda: safepoints.run(lambda: ran.append((threading.get_ident(), safepoints.steps)), 10))
    stepping = optimizer()
    deadline = time.monotonic() + 10
    while not ran and time.monotonic() < deadline:
        stepping.step()
    asker.join(10)
    assert ran[0][0] == threading.get_ident()
    assert ran[0][1] >= 1


def test_without_a_step_the_wait_ends(safepoints: SafePoints) -> None:
    ran: list[int] = []
    assert safepoints.run(lambda: ran.append(1), 0.2) is None
    optimizer().step()
    assert ran == [], "a request that was given up is run later"


def test_an_error_of_a_request_goes_to_whoever_asked(safepoints: SafePoints) -> None:
    seen: list[BaseException] = []

    def ask() -> None:
        try:
            safepoints.run(lambda: 1 / 0, 10)
        except ZeroDivisionError as e:
            seen.append(e)

    asker = in_background(ask)
    stepping = optimizer()
    deadline = time.monotonic() + 10
    while not seen and time.monotonic() < deadline:
        stepping.step()
    asker.join(10)
    assert len(seen) == 1


def test_a_failing_hook_is_dropped_and_told_and_the_step_goes_on(safepoints: SafePoints) -> None:
    calls: list[int] = []

    def bad(_: object) -> None:
        raise RuntimeError("ours")

    safepoints.after += [bad, lambda _: calls.append(1)]
    stepping = optimizer()
    stepping.step()
    stepping.step()
    assert calls == [1, 1]
    assert len(safepoints.failures) == 1
    assert "RuntimeError: ours" in safepoints.failures[0]


def test_closing_waits_for_a_hook_that_is_running_and_never_hurts_it(safepoints: SafePoints) -> None:
    entered, errors = threading.Event(), []
    left = threading.Event()

    def slow(_: object) -> None:
        entered.set()
        time.sleep(0.3)
        left.set()
        raise OSError("what it uses is gone")

    safepoints.after.append(slow)

    def train() -> None:
        try:
            optimizer().step()
        except BaseException as e:
            errors.append(e)
            raise

    thread = in_background(train)
    assert entered.wait(5)
    safepoints.close()
    assert left.is_set()
    thread.join(5)
    assert errors == []


def test_the_hooks_are_gone_after_closing(safepoints: SafePoints) -> None:
    module = sys.modules["torch.optim.optimizer"]
    before = (len(module._global_optimizer_pre_hooks), len(module._global_optimizer_post_hooks))
    safepoints.close()
    after = (len(module._global_optimizer_pre_hooks), len(module._global_optimizer_post_hooks))
    assert after == (before[0] - 1, before[1] - 1)


def test_what_is_for_gpus_begins_with_the_first_step_that_has_one(
    safepoints: SafePoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def begin(optimizer: object) -> None:
        seen.append("begins")
        safepoints.before.append(lambda _: seen.append("step"))

    safepoints.gpu_begins.append(begin)
    optimizer().step()
    assert seen == []
    monkeypatch.setattr(cuda, "in_use", lambda: True)
    optimizer().step()
    optimizer().step()
    assert seen == ["begins", "step", "step"]


def test_patience_follows_the_usual_step(safepoints: SafePoints) -> None:
    assert safepoints.patience_s(10) == 5.0
    assert safepoints.patience_s(2) == 1.0
    stepping = optimizer()
    for _ in range(5):
        stepping.step()
    assert safepoints.patience_s(10) == 1.0, "a fast job that does not step for a second does not step"


def test_what_is_not_due_yet_waits_for_its_step_and_holds_up_nobody_else(safepoints: SafePoints) -> None:
    ran: list[tuple[str, int]] = []
    stepping = optimizer()
    begun = safepoints.steps
    due_at = begun + 5
    later = in_background(
        lambda: safepoints.run(lambda: ran.append(("later", safepoints.steps)), 10, lambda: safepoints.steps >= due_at)
    )
    at_once = in_background(lambda: safepoints.run(lambda: ran.append(("at once", safepoints.steps)), 10))
    deadline = time.monotonic() + 10
    while len(safepoints.requests) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    for _ in range(8):
        stepping.step()
    later.join(10)
    at_once.join(10)
    assert ran == [("at once", begun + 1), ("later", due_at)]


def test_a_process_whose_steps_are_not_due_yet_does_not_stand_still(safepoints: SafePoints) -> None:
    """Nothing but its steps uses any CPU here, and no step is due: gradients must not be touched from another thread."""
    where: list[str | None] = []
    stepping = optimizer()
    for _ in range(3):
        stepping.step()
    asker = in_background(lambda: where.append(safepoints.run_safely(lambda: None, 2.5, lambda: False)))
    while asker.is_alive():
        stepping.step()
        asker.join(0.1)
    assert where == [None]
