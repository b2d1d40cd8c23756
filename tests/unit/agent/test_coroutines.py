"""What asyncio tasks await, told from another thread while their loop runs in its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from jupyter_traindbg.agent.core import Agent


class Loop:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.futures: list[concurrent.futures.Future[Any]] = []
        self.thread = threading.Thread(target=self.loop.run_forever, name="loop", daemon=True)
        self.thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.futures.append(asyncio.run_coroutine_threadsafe(coroutine, self.loop))
        time.sleep(0.1)

    def stop(self) -> None:
        for future in self.futures:
            future.cancel()
        time.sleep(0.1)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.stop()


def rows(agent: Agent) -> dict[str, dict[str, Any]]:
    return {row["method"].rpartition(".")[2]: row for row in agent.call("coroutines", {})["tasks"] if row["method"]}


class Player:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.queue: asyncio.Queue[int] = asyncio.Queue()
        self.bell = asyncio.Event()

    @property
    def trap(self) -> None:
        raise AssertionError("a property of the user's is called")

    async def sleeps(self) -> None:
        await self.inner()

    async def inner(self) -> None:
        await asyncio.sleep(100)

    async def locks(self) -> None:
        async with self.lock:
            await self.lock.acquire()

    async def gets(self) -> None:
        await self.queue.get()

    async def rings(self) -> None:
        await self.bell.wait()

    async def gathers(self) -> None:
        await asyncio.gather(asyncio.sleep(100), asyncio.sleep(100), self.rings())

    async def computes(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 3)

    async def bare(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def steps(self) -> None:
        async for _ in self.numbers():
            pass

    async def numbers(self) -> Any:
        while True:
            await asyncio.sleep(100)
            yield 1


@pytest.mark.parametrize(
    ("name", "words", "function"),
    [
        ("sleeps", "asyncio.sleep", "Player.inner"),
        ("locks", "Lock.acquire", "Player.locks"),
        ("gets", "Queue.get", "Player.gets"),
        ("rings", "Event.wait", "Player.rings"),
        ("gathers", "gather of 3", "Player.gathers"),
        ("computes", "a function in an executor", "Player.computes"),
        ("bare", "a future", "Player.bare"),
        ("steps", "asyncio.sleep", "Player.numbers"),
    ],
)
def test_what_a_coroutine_awaits_is_told_in_words(
    agent: Agent, loop: Loop, name: str, words: str, function: str
) -> None:
    loop.run(getattr(Player(), name)())
    row = rows(agent)[name]
    assert (row["state"], row["waits_for"], row["task_id"], row["ours"]) == ("waiting", words, None, False)
    assert (row["thread"], row["refs"]) == ("loop", [])
    assert row["where"].endswith(function) or "." not in row["method"]
    assert row["chain"][-1][2] == row["method"]


def test_how_long_it_has_been_seen_there_is_a_lower_bound(agent: Agent, loop: Loop) -> None:
    loop.run(Player().sleeps())
    began = time.monotonic()
    assert rows(agent)["sleeps"]["seen_waiting_s"] == 0.0
    time.sleep(0.02)
    assert 0.0 < rows(agent)["sleeps"]["seen_waiting_s"] <= time.monotonic() - began


def test_one_that_computes_is_running_and_told_where(agent: Agent, loop: Loop) -> None:
    stop = threading.Event()

    async def busy() -> None:
        while not stop.is_set():
            time.sleep(0.001)

    loop.run(busy())
    row = rows(agent)["busy"]
    stop.set()
    assert (row["state"], row["waits_for"]) == ("running", None)
    assert "busy" in row["where"]


def test_for_which_other_tasks_one_waits(agent: Agent, loop: Loop) -> None:
    async def waits_for(task: asyncio.Task[None]) -> None:
        await task

    async def both() -> None:
        ended = asyncio.create_task(asyncio.sleep(0))
        task = asyncio.create_task(Player().bare())
        await asyncio.gather(ended, waits_for(task), Player().rings())

    loop.run(both())
    found = rows(agent)
    assert found["waits_for"]["awaits"] == [found["bare"]["id"]]
    assert sorted(found["both"]["awaits"]) == sorted(found[name]["id"] for name in ("waits_for", "rings"))
    assert found["bare"]["awaits"] == []


def test_tasks_that_are_over_are_not_told_and_too_many_are_counted(agent: Agent, loop: Loop) -> None:
    async def over() -> None:
        pass

    loop.run(over())
    for _ in range(4):
        loop.run(Player().bare())
    assert "over" not in rows(agent)
    answer = agent.call("coroutines", {"most": 3})
    assert (len(answer["tasks"]), answer["left_out"]) == (3, 1)
