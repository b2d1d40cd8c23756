"""The agent started in this very process; tests step their own little trainings, on this thread and on others."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_traindbg import agent as agent_package
from jupyter_traindbg.agent.core import Agent

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    gc.collect()  # optimizers of earlier tests are cycles
    gc.freeze()  # what earlier tests and imports left is out of the finder's sight, and no later collection goes through it
    with come(tmp_path) as agent:
        yield agent


@contextmanager
def come(tmp_path: Path) -> Iterator[Agent]:
    """For tests that say themselves when it comes."""
    directory = tmp_path / "agent"
    directory.mkdir(mode=0o700)
    running = agent_package.start(str(directory), keep=True)
    try:
        yield running
        assert running.safepoints.failures == []
    finally:
        running.stop()
        if "torch._dynamo" in sys.modules:
            sys.modules["torch"]._dynamo.reset()  # a step compiled by this test is not one of the next test's


@pytest.fixture
def ask_while(agent: Agent) -> Ask:
    """``ask_while(step, "grads", detail=True)``: the probe's answer, asked on another thread while this one calls ``step()``."""

    def ask(step: Callable[[], object], probe: str, **params: Any) -> dict[str, Any]:
        answers: list[Any] = []

        def client() -> None:
            try:
                answers.append(agent.call(probe, params))
            except BaseException as e:
                answers.append(e)

        thread = threading.Thread(target=client)
        thread.start()
        while thread.is_alive():
            step()
            thread.join(0.002)
        assert isinstance(answers[0], dict), answers[0]
        return answers[0]

    return ask
