"""The line to an agent: where the process at its other end does nothing, and where it is left while others use it."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import until

from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.attach.base import Entered, Link, ask_each
from jupyter_traindbg.attach.client import AgentClient
from jupyter_traindbg.errors import DeadlineExceeded, TargetGone
from jupyter_traindbg.tasks import Task

PATIENT_S = 20.0


class Agent:
    """Answers `hello` and `leave`, and never `wait`."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        (directory / "agent.json").write_text(
            json.dumps({"protocol": rendezvous.PROTOCOL, "token": "t", "version": "0"})
        )
        self.asked: list[str] = []
        self.lines: list[socket.socket] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(directory, rendezvous.SOCKET))
        self.listener.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self.listener.accept()
            except OSError:
                return
            self.lines.append(line)
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with line, line.makefile("rb") as requests:
            for text in requests:
                request = json.loads(text)
                self.asked.append(request["method"])
                if request["method"] != "wait":
                    answer = {"jsonrpc": "2.0", "id": request["id"], "result": {"stopped": False}}
                    line.sendall(json.dumps(answer).encode() + b"\n")

    def connect(self) -> AgentClient:
        return AgentClient(self.directory, os.getpid(), deadline_s=5)

    def is_alone(self) -> bool:
        """Whether every line that was ever made to it has been closed at the other end."""
        return all(line.fileno() == -1 for line in self.lines)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path)
    yield made
    made.listener.shutdown(socket.SHUT_RDWR)
    made.listener.close()


def test_hanging_up_ends_a_call_that_waits_and_no_later_one_dials_again(agent: Agent) -> None:
    client = agent.connect()
    waiting: Task[Any] = Task(lambda: client.call("wait", deadline_s=60), "call")
    until(lambda: "wait" in agent.asked, "the call is under way")
    client.close()
    for ask in (lambda: waiting.result(time.monotonic() + 10), lambda: client.call("hello")):
        with pytest.raises(TargetGone, match="has been closed"):
            ask()
    until(agent.is_alone, "the line is closed")
    assert len(agent.lines) == 1


def test_threads_that_enter_at_once_share_one_line(agent: Agent) -> None:
    came, go_on = threading.Barrier(3), threading.Event()

    def enter(deadline_s: float) -> Entered:
        go_on.wait(10)
        return Entered(agent.connect(), "injected")

    link = Link(os.getpid(), enter)

    def one() -> AgentClient:
        came.wait(10)
        return link.enter(10)

    tasks = [Task(one, "enter") for _ in range(2)]
    came.wait(10)
    assert link.answering() is None, "a look that enters nothing does not wait for it"
    go_on.set()
    first, second = (task.result(time.monotonic() + 10) for task in tasks)
    assert first is second
    assert len(agent.lines) == 1
    link.leave()
    until(agent.is_alone, "the line is closed")


def test_one_thread_that_does_not_get_in_holds_another_no_longer_than_its_deadline() -> None:
    go_on = threading.Event()

    def enter(deadline_s: float) -> Entered:
        go_on.wait(60)
        raise TargetGone("it has ended")

    link = Link(os.getpid(), enter)
    slow = Task(lambda: link.enter(60), "enter")
    until(link._entering.locked, "the first is under way")
    with pytest.raises(DeadlineExceeded, match="still being entered"):
        link.enter(0.1)
    go_on.set()
    with pytest.raises(TargetGone):
        slow.result(time.monotonic() + 10)


def test_who_enters_while_the_line_is_left_says_goodbye_and_does_not_stay(agent: Agent) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def enter(deadline_s: float) -> Entered:
        inside.set()
        go_on.wait(10)
        return Entered(agent.connect(), "injected")

    link = Link(os.getpid(), enter)
    late = Task(lambda: link.enter(10), "enter")
    assert inside.wait(10)
    assert not link.leave(), "nothing was there yet"
    go_on.set()
    with pytest.raises(TargetGone, match="has been closed"):
        late.result(time.monotonic() + 10)
    assert agent.asked == ["hello", "leave"]
    until(agent.is_alone, "the line is closed")
    assert link.client is None


def test_a_line_that_has_been_left_enters_nothing() -> None:
    link = Link(os.getpid(), lambda deadline_s: pytest.fail("it was entered"))
    link.leave()
    with pytest.raises(TargetGone, match="has been closed"):
        link.call("steps", {}, 5.0)
    assert link.answering() is None


def test_a_queue_full_of_earlier_clients_is_silence_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "agent.json").write_text(json.dumps({"protocol": rendezvous.PROTOCOL, "token": "t", "version": "0"}))
    with socket.socket(socket.AF_UNIX) as agent, socket.socket(socket.AF_UNIX) as earlier:
        agent.bind(os.path.join(tmp_path, rendezvous.SOCKET))
        with pytest.raises(TargetGone, match="does not listen"):
            AgentClient(str(tmp_path), os.getpid(), deadline_s=5)
        agent.listen(0)
        earlier.connect(os.path.join(tmp_path, rendezvous.SOCKET))
        with pytest.raises(DeadlineExceeded, match="earlier clients"):
            AgentClient(str(tmp_path), os.getpid(), deadline_s=5)


def test_a_call_that_is_interrupted_keeps_no_later_one_waiting(agent: Agent) -> None:
    """Ctrl-C, while a question of sixty seconds is under way on a thread of its own."""
    link = Link(os.getpid(), lambda deadline_s: Entered(agent.connect(), "found running"))
    link.enter(5)

    def interrupt() -> None:
        until(lambda: "wait" in agent.asked, "it is asked")
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = Task(interrupt, "interrupt")
    with pytest.raises(KeyboardInterrupt):
        ask_each([link], lambda one: one.call("wait", {}, 60), 60)
    interrupting.result(time.monotonic() + PATIENT_S)
    assert link.call("hello", {}, PATIENT_S) == {"stopped": False}
    assert agent.asked.count("hello") == 3, "at the first line, at the second, and then"
    link.hang_up()


def test_an_interruption_cuts_no_line_off_on_which_nothing_is_asked(agent: Agent) -> None:
    link = Link(os.getpid(), lambda deadline_s: Entered(agent.connect(), "found running"))
    client = link.enter(5)

    def interrupted(one: Link) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask_each([link], interrupted, 5)
    assert link.client is client
    link.hang_up()
