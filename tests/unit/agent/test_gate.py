"""Reading gradients from another thread, and backward passes, never at the same time."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from jupyter_traindbg.agent import gate as gates
from jupyter_traindbg.agent.gate import BackwardGate


@pytest.fixture
def parameter() -> torch.nn.Parameter:
    made = torch.nn.Parameter(torch.zeros(2))
    made.grad = torch.ones(2)
    return made


def test_without_a_backward_pass_it_reads_at_once(parameter: torch.nn.Parameter) -> None:
    began = time.monotonic()
    assert BackwardGate().read([parameter, torch.nn.Parameter(torch.zeros(1))], 5) == [parameter.grad, None]
    assert time.monotonic() - began < 1


def test_a_backward_pass_that_is_busy_is_waited_for_and_then_refused(parameter: torch.nn.Parameter) -> None:
    gate, stop = BackwardGate(), threading.Event()

    def burn() -> None:
        gate.enter()
        while not stop.is_set():
            sum(range(1000))
        gate.leave()

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        assert gate.read([parameter], 0.3) is None
    finally:
        stop.set()
        thread.join(10)
    assert gate.read([parameter], 0.3) == [parameter.grad]


def test_a_backward_pass_that_hangs_with_the_process_idle_is_read(
    parameter: torch.nn.Parameter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "IDLE_CPU_S", 0.05)  # other tests' threads may still wind up
    gate = BackwardGate()
    gate.enter()
    assert gate.read([parameter], 0.1) == [parameter.grad]


def test_a_backward_pass_that_began_before_we_came_is_seen(parameter: torch.nn.Parameter) -> None:
    stop = threading.Event()

    def _engine_run_backward() -> None:  # the name of torch's own frame
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=_engine_run_backward)
    thread.start()
    try:
        assert BackwardGate().read([parameter], 0.2) is None
    finally:
        stop.set()
        thread.join(10)


def test_a_backward_pass_is_held_up_while_a_reading_goes_on_and_never_for_long() -> None:
    gate = BackwardGate()
    gate._reading = True
    began = time.monotonic()
    gate.enter()
    held = time.monotonic() - began
    assert gates.HOLD_UP_S <= held < gates.HOLD_UP_S + 1
    threading.Timer(0.05, setattr, (gate, "_reading", False)).start()
    gate.leave()
    began = time.monotonic()
    gate.enter()
    assert time.monotonic() - began < gates.HOLD_UP_S
