"""Who sees what: pages come, go, fall silent; views work only while they are seen; nothing that a page sends can do harm."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.errors import ActionRefused
from jupyter_traindbg.widgets import hub as hub_module
from jupyter_traindbg.widgets.hub import Hub
from jupyter_traindbg.widgets.view import Content, View

LIMIT_S = 30.0


class Recording(View):
    """Writes down what happens to it."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.calls: list[Any] = []

    def opened(self) -> None:
        self.calls.append("opened")

    def closed(self) -> None:
        self.calls.append("closed")

    def refreshed(self) -> None:
        self.calls.append("refreshed")

    def left(self, front: str) -> None:
        self.calls.append(f"left {front}")

    def received(self, content: Content, buffers: Sequence[memoryview]) -> None:
        self.calls.append(dict(content))


class One(Recording):
    name = "one"


class Two(Recording):
    name = "two"


class Scene:
    def __init__(self, busy: Callable[[], bool] = lambda: False) -> None:
        self.sent: list[dict[str, Any]] = []
        self.hub = Hub(None, None, [One, Two], lambda m, buffers: self.sent.append(m), busy)  # type: ignore[arg-type]
        self.one: Recording = self.hub.views["one"]  # type: ignore[assignment]
        self.two: Recording = self.hub.views["two"]  # type: ignore[assignment]

    def page(self, name: str, /, **body: Any) -> dict[str, Any] | None:
        return self.hub.received({"view": "", "from": name, "body": body}, [])

    def round(self) -> None:
        self.hub._last_round = 0.0
        self.hub.round()


def test_a_view_works_only_while_some_page_shows_it() -> None:
    scene = Scene()
    scene.round()
    scene.page("a", kind="shown", name="one")
    scene.round()
    scene.page("a", kind="shown", name="two")
    scene.round()
    scene.page("a", kind="shown", name=None)
    scene.round()
    assert scene.one.calls == ["opened", "refreshed", "closed"]
    assert scene.two.calls == ["opened", "refreshed", "closed"]


def test_a_second_page_is_told_of_by_opened_and_the_view_closes_with_the_last() -> None:
    scene = Scene()
    scene.page("a", kind="shown", name="one")
    scene.page("b", kind="shown", name="one")
    scene.page("a", kind="left")
    assert scene.one.calls == ["opened", "opened", "left a"]
    scene.page("b", kind="left")
    assert scene.one.calls[3:] == ["left b", "closed"]
    assert scene.hub.pages() == 0


def test_nothing_is_sent_where_nobody_is() -> None:
    scene = Scene()
    scene.one.host.send({"kind": "news"})
    assert scene.sent == []
    scene.page("a", kind="shown", name="one")
    scene.one.host.send({"kind": "news"}, to="a")
    assert scene.sent == [{"view": "one", "to": "a", "body": {"kind": "news"}}]


def test_a_page_that_falls_silent_is_gone_but_for_a_kernel_that_cannot_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    running = True
    scene = Scene(lambda: running)
    scene.page("heard on the main thread", kind="shown", name="one")
    on_subshell = threading.Thread(
        target=scene.page, args=("heard on a subshell",), kwargs={"kind": "shown", "name": "two"}
    )
    on_subshell.start()
    on_subshell.join(LIMIT_S)
    monkeypatch.setattr(hub_module, "GONE_S", -1.0)
    scene.round()
    assert scene.two.calls == ["opened", "left heard on a subshell", "closed"]
    assert "closed" not in scene.one.calls
    running = False
    scene.round()
    assert scene.one.calls[-1] == "closed"


def test_where_nobody_was_heard_yet_and_a_cell_runs_the_first_view_is_sent_unasked() -> None:
    running = True
    scene = Scene(lambda: running)
    scene.round()
    assert scene.one.host.pages_unheard
    scene.one.host.send({"kind": "news"}, to=None)
    assert scene.sent[-1]["to"] is None
    scene.page("a", kind="shown", name="one")
    assert not scene.one.host.pages_unheard
    running = False
    scene.round()
    assert scene.hub.pages() == 1


def test_a_pause_stops_the_views_and_not_the_messages() -> None:
    scene = Scene()
    scene.page("a", kind="shown", name="one")
    scene.hub.paused = True
    scene.round()
    scene.hub.received({"view": "one", "from": "a", "body": {"kind": "ask"}}, [])
    assert scene.one.calls == ["opened", {"kind": "ask", "from": "a"}]


def test_rounds_are_held_to_four_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of our own: a feed has news a hundred times a second. A round may come a fifth early."""
    now = time.monotonic() + 100.0
    monkeypatch.setattr(hub_module, "time", SimpleNamespace(monotonic=lambda: now))
    scene = Scene()
    scene.page("a", kind="shown", name="one")
    for _ in range(1000):
        now += 0.01
        scene.hub.round()
    assert 39 <= scene.one.calls.count("refreshed") <= 50


@each(
    "message",
    [
        {},
        {"view": "one"},
        {"view": "one", "from": 3, "body": {}},
        {"view": "one", "from": "", "body": {}},
        {"view": "one", "from": "*", "body": {}},
        {"view": "one", "from": "x" * 41, "body": {}},
        {"view": "one", "from": "a", "body": "words"},
        {"view": ["one"], "from": "a", "body": {"kind": "shown", "name": ["one"]}},
        {"view": "three", "from": "a", "body": {"kind": "shown", "name": "three"}},
    ],
)
def test_a_message_that_makes_no_sense_does_nothing(message: dict[str, Any]) -> None:
    scene = Scene()
    assert scene.hub.received(message, []) is None
    assert scene.one.calls == []


def test_a_page_cannot_speak_for_another() -> None:
    scene = Scene()
    scene.hub.received({"view": "one", "from": "a", "body": {"kind": "ask", "from": "b"}}, [])
    assert scene.one.calls == [{"kind": "ask", "from": "a"}]


def test_so_many_pages_that_the_oldest_is_forgotten() -> None:
    scene = Scene()
    for number in range(hub_module.MOST_PAGES + 5):
        scene.page(f"page {number}", kind="shown", name="one")
    assert scene.hub.pages() == hub_module.MOST_PAGES


def test_work_is_done_in_order_and_its_failures_are_told() -> None:
    scene = Scene()
    scene.page("a", kind="shown", name="one")
    done: list[int] = []

    def refuse() -> None:
        raise ActionRefused("rank 1 does not answer", "ask again")

    def break_down() -> None:
        raise ZeroDivisionError("ours")

    for number in (1, 2):
        scene.one.host.work("count", lambda number=number: done.append(number))  # type: ignore[misc]
    scene.one.host.work("change the learning rate", refuse)
    scene.one.host.work("divide", break_down)
    wait(lambda: len(scene.sent) == 2)
    assert done == [1, 2]
    refused, broken = (message["body"] for message in scene.sent)
    assert refused["kind"] == "failed"
    assert refused["what"] == "change the learning rate"
    assert (refused["text"], refused["next_step"]) == ("rank 1 does not answer", "ask again")
    assert "ZeroDivisionError: ours" in broken["text"]


def test_work_past_its_deadline_is_told_of_and_holds_nothing_up() -> None:
    scene = Scene()
    scene.page("a", kind="shown", name="one")
    release, done = threading.Event(), threading.Event()
    scene.one.host.work("wait", lambda: release.wait(LIMIT_S) and None, deadline_s=0.1)
    scene.one.host.work("go on", done.set)
    assert done.wait(LIMIT_S)
    assert not release.is_set()
    assert scene.sent[0]["body"]["what"] == "wait"
    assert "no answer" in scene.sent[0]["body"]["text"]
    release.set()
    scene.hub.close()


def wait(until: Callable[[], bool]) -> None:
    ends = time.monotonic() + LIMIT_S
    while not until():
        assert time.monotonic() < ends
        time.sleep(0.01)
