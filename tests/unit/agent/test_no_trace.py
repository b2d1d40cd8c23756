"""A look at running functions keeps nothing of theirs alive: what they held is freed when they end, without the garbage collector."""

from __future__ import annotations

import gc
import pkgutil
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from jupyter_traindbg.agent import executing, probes  # noqa: E402
from jupyter_traindbg.agent.core import Agent  # noqa: E402

PARAMS: dict[str, dict[str, Any]] = {
    "batch_shapes": {"deadline_s": 0.4},
    "counters": {"names": ["kept", "self.step"]},
    "grads": {"deadline_s": 0.4},
    "holders": {"deadline_s": 0.4},
    "live_objects": {"deadline_s": 0.4},
    "memory": {"deadline_s": 0.4},
    "profile": {"least_s": 0.1, "window_s": 0.4},
    "slow": {"least_s": 0.1, "window_s": 0.4},
    "soundness": {"window_s": 0.1},
    "steps": {"deadline_s": 0.4},
}
"""No step comes here: a probe that waits for one need not wait long."""
DEADLINE_S = 20


class Activations:
    """Stands for what a function of the training holds while it runs."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def freed_after(look: Callable[[], object]) -> bool:
    """Whether the locals of a function that runs while `look` is called, on another thread, are freed by its end."""
    looked, held = threading.Event(), []

    def forward() -> None:
        activations = Activations()
        held.append(weakref.ref(activations))
        assert looked.wait(DEADLINE_S)
        del activations

    def step() -> None:
        kept = Activations()
        held.append(weakref.ref(kept))
        forward()

    def look_and_tell() -> None:
        try:
            look()
        finally:
            looked.set()

    training = threading.Thread(target=step)
    training.start()
    looker = threading.Thread(target=look_and_tell)
    looker.start()
    looker.join(DEADLINE_S)
    training.join(DEADLINE_S)
    return [of() for of in held] == [None, None]


@pytest.mark.parametrize("probe", [module.name for module in pkgutil.iter_modules(probes.__path__)])
def test_what_a_function_held_is_freed_when_it_ends(agent: Agent, no_collector: None, probe: str) -> None:
    answers = []
    assert freed_after(lambda: answers.append(agent.call(probe, PARAMS.get(probe, {}))))
    assert answers


def test_the_calls_of_a_worker_keep_nothing(no_collector: None) -> None:
    assert freed_after(executing.calls)
