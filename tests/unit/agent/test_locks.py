"""Who waits for which lock and who holds it, in threads of this very process; other Pythons: tests/integration/test_agent_pythons.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from jupyter_traindbg.agent.core import Agent

LIMIT_S = 20.0
Thread = Callable[[str, Callable[[], object]], AbstractContextManager[threading.Thread]]


class Shop:
    """Locks in many places, and a property that nobody may call."""

    made = threading.Lock()

    def __init__(self) -> None:
        self.a, self.b = threading.Lock(), threading.RLock()
        self.shelf = {"one": threading.Lock()}
        self.rows = [threading.Lock(), threading.Lock()]
        self.condition = threading.Condition()
        self.places = threading.Semaphore(1)
        self.bell = threading.Event()

    @property
    def trap(self) -> threading.Lock:
        raise AssertionError("a property of the user's is called")

    def one(self) -> threading.Lock:
        return self.a


@pytest.fixture
def thread(agent: Agent) -> Thread:
    """``thread("first", function)``: a thread of that name, from the moment that it waits for something on."""

    @contextmanager
    def start(name: str, function: Callable[[], object]) -> Iterator[threading.Thread]:
        started = threading.Thread(target=function, name=name, daemon=True)
        started.start()
        until(lambda: asked(agent, name).get("waits_for"))
        yield started

    return start


def until(seen: Callable[[], Any]) -> Any:
    """The first true answer of `seen`."""
    ends = time.monotonic() + LIMIT_S
    while not (answer := seen()):
        assert time.monotonic() < ends
        time.sleep(0.01)
    return answer


def asked(agent: Agent, name: str) -> dict[str, Any]:
    rows = {row["thread"]: row for row in agent.call("locks", {})["threads"]}
    found: dict[str, Any] = rows.get(name, {})
    return found


def names(locks: list[dict[str, Any]]) -> list[str]:
    return [lock["name"] for lock in locks]


def test_a_circle_of_two_is_a_cycle_and_each_holder_is_named(agent: Agent, thread: Thread) -> None:
    shop, bound, both = Shop(), LIMIT_S, threading.Barrier(2)

    def first() -> None:
        with shop.a:
            both.wait(bound)
            if shop.b.acquire(timeout=bound):
                shop.b.release()

    def second() -> None:
        with shop.b:
            both.wait(bound)
            shop.a.acquire(timeout=bound)

    with thread("first", first), thread("second", second):
        answer = until(lambda: (seen := agent.call("locks", {}))["cycles"] and seen)
        shop.a.release()  # so that both go on: `second` has it now, and `first` lets it go
    rows = {row["thread"]: row for row in answer["threads"]}
    assert (rows["first"]["waits_for"]["name"], rows["first"]["waits_for"]["kind"]) == ("shop.b", "RLock")
    assert [(h["thread"], h["how"]) for h in rows["first"]["waits_for"]["held_by"]] == [("second", "owner")]
    assert [(h["thread"], h["how"]) for h in rows["second"]["waits_for"]["held_by"]] == [("first", "with")]
    assert names(rows["first"]["holds"]) == ["shop.a"]
    assert rows["first"]["waits_for"]["id"] == id(shop.b)
    assert "test_locks.py" in rows["first"]["where"]
    assert sorted(map(sorted, answer["cycles"])) == [sorted([rows["first"]["tid"], rows["second"]["tid"]])]


def test_a_thread_that_waits_for_its_own_lock_is_a_cycle(agent: Agent, thread: Thread) -> None:
    lock = threading.Lock()

    def alone() -> None:
        with lock:
            lock.acquire(timeout=LIMIT_S)

    with thread("alone", alone):
        answer = agent.call("locks", {})
        lock.release()
    (row,) = [row for row in answer["threads"] if row["thread"] == "alone"]
    assert [row["tid"]] in answer["cycles"]


def waiting_for(shop: Shop) -> dict[str, tuple[Callable[[], object], str, str]]:
    """What a thread does, how the lock is written there, and of which kind it is."""
    i, one = 1, "one"
    return {
        "attribute": (lambda: shop.a.acquire(timeout=20) and shop.a.release(), "shop.a", "Lock"),
        "class attribute": (lambda: shop.made.acquire(timeout=20) and shop.made.release(), "shop.made", "Lock"),
        "key": (lambda: shop.shelf[one].acquire(True, 20) and shop.shelf[one].release(), "shop.shelf[one]", "Lock"),
        "index": (lambda: shop.rows[i].acquire(timeout=20) and shop.rows[i].release(), "shop.rows[i]", "Lock"),
        "semaphore": (lambda: shop.places.acquire(timeout=20) and shop.places.release(), "shop.places", "Semaphore"),
        "condition's lock": (
            lambda: shop.condition.acquire(timeout=20) and shop.condition.release(),
            "shop.condition",
            "RLock",
        ),
    }


@pytest.mark.parametrize("what", waiting_for(Shop()))
def test_a_lock_is_named_as_it_is_written_and_its_holder_is_found(agent: Agent, thread: Thread, what: str) -> None:
    shop = Shop()
    wait, name, kind = waiting_for(shop)[what]

    def hold() -> None:
        with shop.a, shop.made, shop.shelf["one"], shop.rows[1], shop.places, shop.condition:
            shop.bell.wait(30)

    with thread("holder", hold), thread("waiting", wait):
        row = asked(agent, "waiting")
    shop.bell.set()
    assert (row["waits_for"]["name"], row["waits_for"]["kind"]) == (name, kind)
    assert [h["thread"] for h in row["waits_for"]["held_by"]] == ["holder"]


def test_a_lock_that_a_call_returns_has_no_name_but_is_a_wait(agent: Agent, thread: Thread) -> None:
    shop = Shop()

    def wait() -> None:
        with shop.one():
            pass

    shop.a.acquire()
    with thread("waiting", wait):
        row = asked(agent, "waiting")
    shop.a.release()
    assert (row["waits_for"]["name"], row["waits_for"]["id"], row["waits_for"]["held_by"]) == (None, None, [])


def test_what_is_notified_is_held_by_nobody_and_lets_its_lock_go(agent: Agent, thread: Thread) -> None:
    shop = Shop()

    def wait() -> None:
        with shop.condition:
            shop.condition.wait(20)

    with thread("waiting", wait):
        row = asked(agent, "waiting")
        with shop.condition:
            shop.condition.notify()
    assert (row["waits_for"]["name"], row["waits_for"]["kind"]) == ("shop.condition", "Condition")
    assert (row["waits_for"]["held_by"], row["holds"]) == ([], [])


def test_a_joined_thread_is_what_is_waited_for(agent: Agent, thread: Thread) -> None:
    bell = threading.Event()
    with thread("worker", lambda: bell.wait(30)) as worker, thread("waiting", lambda: worker.join(20)):
        row = asked(agent, "waiting")
    bell.set()
    assert (row["waits_for"]["name"], row["waits_for"]["kind"]) == ("worker", "Thread")
    assert [(h["thread"], h["how"]) for h in row["waits_for"]["held_by"]] == [("worker", "itself")]


def test_a_released_lock_is_not_held_and_a_taken_one_is(agent: Agent, thread: Thread) -> None:
    shop = Shop()

    def hold() -> None:
        shop.rows[0].acquire()
        shop.a.acquire()
        shop.rows[0].release()
        shop.bell.wait(30)
        shop.a.release()

    with thread("keeper", hold), thread("waiting", lambda: shop.a.acquire(timeout=20)):
        rows = {row["thread"]: row for row in agent.call("locks", {})["threads"]}
    shop.bell.set()
    assert [(h["thread"], h["how"]) for h in rows["waiting"]["waits_for"]["held_by"]] == [("keeper", "acquire")]
    assert names(rows["keeper"]["holds"]) == ["shop.a"]


def test_a_busy_thread_that_takes_free_locks_does_not_wait(agent: Agent) -> None:
    shop, stop = Shop(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            with shop.a:
                pass

    busy = threading.Thread(target=work, name="busy")
    busy.start()
    seen = [row for _ in range(20) for row in agent.call("locks", {})["threads"] if row["thread"] == "busy"]
    stop.set()
    busy.join()
    assert [row for row in seen if row["waits_for"] is not None and row["waits_for"]["held_by"]] == []
