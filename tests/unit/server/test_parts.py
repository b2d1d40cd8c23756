"""The parts of the server extension that need no server: pace, threads, tasks, groups."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.errors import DeadlineExceeded, TargetGone
from jupyter_traindbg.model import NotAvailable, Target
from jupyter_traindbg.server import passive
from jupyter_traindbg.server.app import TraindbgServer
from jupyter_traindbg.server.jobs import _file_name, _groups
from jupyter_traindbg.server.passive import pace
from jupyter_traindbg.server.tasks import Tasks
from jupyter_traindbg.server.threads import Busy, Threads

TARGET = Target(name="7", pid=7, kind="process", command="python t.py", user="me", running_s=1.0, framework="torch")


@each(
    ("times", "loss", "now", "code"),
    [
        ([1.0, 2.0, 3.0], 0.5, 3.5, "training"),
        ([1.0, 2.0, 3.0], 0.5, 20.0, "stalled"),
        ([0.0, 60.0, 120.0], 0.5, 200.0, "training"),  # its steps take a minute
        ([0.0, 60.0, 120.0], 0.5, 310.0, "stalled"),
        ([1.0, 2.0], float("nan"), 2.5, "diverged"),
        ([1.0, 2.0], None, 2.5, "training"),  # a job without a loss that we see
        ([5.0], 0.5, 4.0, "training"),  # clocks that differ a little
    ],
)
def test_pace(times: list[float], loss: float | None, now: float, code: str) -> None:
    state = pace(times, loss, now)
    assert state["code"] == code
    assert state["words"].startswith(code if code != "diverged" else "the loss")


class Agent:
    """An agent whose last step is long ago; an earlier version's does not say whether a cell runs."""

    def __init__(self, **said: bool) -> None:
        records = [[n, time.time() - 100.0 + n, 0.5, None] for n in range(5)]
        fields = ["step", "time_s", "loss", "cuda_allocated_bytes"]
        self.answer = {"fields": fields, "records": records, "step": 4, "note": "", **said}

    def call(self, *_: object) -> dict[str, Any]:
        return self.answer

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("said", "code"), [({}, "stalled"), ({"between_cells": False}, "stalled"), ({"between_cells": True}, "waiting")]
)
def test_a_kernel_that_runs_no_cell_has_not_stalled(
    said: dict[str, bool], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passive, "connect", lambda *_: Agent(**said))
    seen = passive.seen({"7": [replace(TARGET, agent=True)]})["7"]
    assert (seen["step"], seen["state"]["code"]) == (4, code)


def test_a_list_has_jobs_and_not_processes() -> None:
    launcher = replace(TARGET, name="torchrun:1", pid=1, kind="launcher", part_of="ray:@x", world_size=2)
    cluster = replace(TARGET, name="ray:@x", pid=9, kind="launcher")
    ranks = [replace(TARGET, name=str(n), pid=n, kind="rank", rank=n - 2, part_of="torchrun:1") for n in (2, 3)]
    idle = replace(TARGET, name="kernel:a", pid=4, kind="kernel", framework=NotAvailable("none"))
    busy = replace(TARGET, name="kernel:b", pid=5, kind="kernel")
    groups = _groups([cluster, launcher, *ranks, idle, busy, TARGET])
    assert {name: [m.pid for m in members] for name, (_, members) in groups.items()} == {
        "ray:@x": [2, 3],
        "kernel:b": [5],
        "7": [7],
    }


@each("hostile", ["../../etc/x", "kernel:/tmp/a b\n.json", "\0", "a" * 500, "ray:@[::1]:6379"])
def test_a_file_name_stays_where_it_is(hostile: str) -> None:
    name = _file_name(hostile)
    assert name
    assert len(name) <= 60
    assert not set("/\\\n\0 :") & set(name)
    assert not name.startswith((".", "-"))


def test_threads_are_bounded_in_number_and_time() -> None:
    async def scene() -> None:
        threads, gate = Threads(2), threading.Event()
        assert await threads.run("adding", lambda: 1 + 1, 30) == 2
        with pytest.raises(TargetGone):
            await threads.run("failing", lambda: _raise(TargetGone("it ended")), 30)
        stuck = [asyncio.ensure_future(threads.run("waiting", gate.wait, 0.2)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await threads.run("one more", lambda: None, 30)
        for one in stuck:
            with pytest.raises(DeadlineExceeded):
                await one
        assert threads.under_way == 2, "a call that is left behind counts until it ends"
        gate.set()
        while threads.under_way:
            await asyncio.sleep(0.01)
        assert await threads.run("adding", lambda: 2, 30) == 2

    asyncio.run(asyncio.wait_for(scene(), 60))


def _raise(error: Exception) -> None:
    raise error


def test_tasks_tell_how_they_ended() -> None:
    tasks, gate = Tasks(), threading.Event()

    def work(progress):  # type: ignore[no-untyped-def]
        progress(5, 10)
        gate.wait(30)
        return {"ok": True}

    running = [tasks.begin("saving", work) for _ in range(4)]
    with pytest.raises(Busy):
        tasks.begin("one more", work)
    gate.set()
    for ident in running:
        _wait(tasks, ident)
        task = tasks.get(ident)
        assert task is not None
        assert (task.state, task.result, task.done_bytes) == ("done", {"ok": True}, 5)
    refused = tasks.begin("failing", lambda progress: _raise(TargetGone("it ended", "start it again")))  # type: ignore[arg-type, return-value]
    _wait(tasks, refused)
    task = tasks.get(refused)
    assert task is not None
    assert task.error == {"message": "it ended", "next_step": "start it again"}


def _wait(tasks: Tasks, ident: str) -> None:
    until = time.monotonic() + 30
    while (task := tasks.get(ident)) is not None and task.state == "running" and time.monotonic() < until:
        time.sleep(0.01)
    assert task is not None
    assert task.state != "running"


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_page_is_told_the_language_of_its_server(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside what others have put there, before or after."""
    monkeypatch.setenv("TRAINDBG_LANG", language)
    web_app = SimpleNamespace(settings={"page_config_data": {"token": "t"}} if language == "zh" else {})
    server = TraindbgServer()
    server.serverapp = SimpleNamespace(contents_manager=None, root_dir=str(tmp_path), web_app=web_app)
    server.initialize_settings()
    given = web_app.settings["page_config_data"]
    assert given == {"traindbgLanguage": language} | ({"token": "t"} if language == "zh" else {})
