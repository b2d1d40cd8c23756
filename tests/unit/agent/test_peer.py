"""The peer of a send or a receive, read from the frame of torch's function."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.probes import stacks

TORCH = """
def recv(tensor, src=None, group=None):
    wait(10)

def wrapped(*args, **more):
    return recv(*args, **more)

def all_reduce(tensor, src=7):
    wait(10)
"""


@pytest.fixture
def peer_of(tmp_path: Path) -> Iterator[object]:
    """What the probe says of a thread that sits in a function of a file of that name."""
    release = threading.Event()
    started: list[threading.Thread] = []

    def ask(call: str, file: str = "/site-packages/torch/distributed/distributed_c10d.py") -> object:
        names: dict[str, object] = {"wait": release.wait}
        exec(compile(TORCH, file, "exec"), names)
        waiter = threading.Thread(target=lambda: eval(call, names), name=f"waits in {call}", daemon=True)
        waiter.start()
        started.append(waiter)
        for _ in range(100):
            answer = stacks.run(Agent(str(tmp_path), "test"))
            seen = next((t for t in answer["threads"] if t["name"] == waiter.name), None)
            if seen is not None and any(frame[2] == "Event.wait" or frame[2] == "wait" for frame in seen["frames"]):
                return seen["peer"]
        raise AssertionError("the thread never came to wait")

    yield ask
    release.set()
    for thread in started:
        thread.join(10)


def test_the_peer_is_the_rank_that_the_function_was_called_with(peer_of) -> None:  # type: ignore[no-untyped-def]
    assert peer_of("recv(None, src=3)") == 3
    assert peer_of("wrapped(None, 1)") == 1


def test_where_there_is_none_none_is_told(peer_of) -> None:  # type: ignore[no-untyped-def]
    assert peer_of("recv(None)") is None
    assert peer_of("all_reduce(None)") is None
    assert peer_of("recv(None, src=3)", "/home/ada/mine.py") is None
