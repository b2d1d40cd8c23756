"""Which thread is taken for the one that trains, before any step was seen: in a worker of Ray's it may not be the main one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from support import until

from jupyter_traindbg.agent import executing
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.training_thread import training_thread

MAIN = threading.main_thread().ident
LOOP = """
def main_loop(call):
    return call()
"""
TRAIN = """
def train(go_on):
    go_on.wait(20)
"""


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Makes a call in this thread as Ray's main loop would."""
    monkeypatch.setitem(sys.modules, "ray._raylet", ModuleType("ray._raylet"))
    names: dict[str, Any] = {"__name__": "ray._private.worker"}
    exec(compile(LOOP, "/opt/site-packages/ray/_private/worker.py", "exec"), names)
    loop: Callable[[Callable[[], Any]], Any] = names["main_loop"]
    return loop


@pytest.fixture
def trains() -> Iterator[int]:
    """The thread of Ray Train, in a function of the user's."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(TRAIN, "/home/ada/train.py", "exec"), names)
    go_on = threading.Event()
    thread = threading.Thread(target=names["train"], args=(go_on,), name="TrainingThread(train)")
    thread.start()
    yield thread.ident or 0
    go_on.set()
    thread.join()


class Asking:
    """As the agent asks: from a thread of its own, which waits until the main one is in Ray's loop."""

    def __init__(self, agent: Agent) -> None:
        self.found: list[int] = []
        self._agent = agent
        self._thread = threading.Thread(target=self._ask, name="traindbg-agent")
        self._thread.start()

    def _ask(self) -> None:
        until(executing.is_worker, 20)
        self.found.append(training_thread(self._agent))

    def join(self) -> int:
        self._thread.join()
        return self.found[0]


def test_it_is_the_main_one(agent: Agent, trains: int) -> None:
    assert training_thread(agent) == MAIN


def test_it_is_the_one_that_made_a_step(agent: Agent, trains: int, worker: Any) -> None:
    agent.safepoints.thread_id = 7
    asking = Asking(agent)
    assert worker(asking.join) == 7


def test_it_is_the_main_one_of_a_worker_whose_main_thread_runs_a_call(agent: Agent, trains: int, worker: Any) -> None:
    asking = Asking(agent)
    assert worker(asking.join) == MAIN


def test_in_ray_train_it_is_the_thread_of_the_users_function(agent: Agent, trains: int, worker: Any) -> None:
    """The main one stands in Ray's loop, with nothing but threads' own code above."""
    asking = Asking(agent)
    worker(asking._thread.join)
    assert asking.found == [trains]
