"""The source that a rank stands in, read together with its variables: what its looks become, and which files it polls for."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from pathlib import Path

import pytest
from hang_evidence import thread
from standing import FILE, standing, thing, value, work

from jupyter_traindbg.gather.reading import NOTHING_READ, Read, Reader, polled_paths, refined
from jupyter_traindbg.model import Frame, Look, ProcessStacks, Scope, Thread, Value, Wait
from jupyter_traindbg.outside import filelocks

PID = 1000
TEXT = textwrap.dedent(
    """
    def receive(self, x):
        work = dist.irecv(x, src=self.rank - 1)
        work.wait()  # 0
    """
)
HERE = standing(TEXT, {"self": thing("Stage", rank=2), "work": work("RECV")})[0]


def look(one: Thread) -> Look:
    return Look(0.0, (ProcessStacks(2, PID, "rank", "agent", (one,)), ProcessStacks(2, 7, "child", "py-spy", (one,))))


def read(scopes: list[Scope] = HERE, text: str | None = TEXT) -> Read:
    return Reader().read(scopes, lambda file: text if file == FILE else None, 2, 4)


def test_a_wait_in_c_code_gets_its_meaning_in_every_look_at_that_line() -> None:
    native = thread([scope.frame for scope in HERE], Wait("native"))
    (first, second) = refined([look(native), look(native)], PID, read())
    for seen in (first, second):
        own, child = (p.threads[0] for p in seen.processes)
        assert (own.waiting_for, own.peer, own.tag) == (Wait("peer", "irecv"), 1, 0)
        assert child == native, "another process is left as it was"


def test_a_thread_that_computes_or_is_elsewhere_is_left_as_it_was() -> None:
    frames = [scope.frame for scope in HERE]
    for one in (
        thread(frames, None),
        thread([Frame(FILE, 1, "receive")], Wait("native")),
        thread(frames, Wait("sleep")),
        dataclasses.replace(thread(frames, Wait("native")), training=False),
    ):
        assert refined([look(one)], PID, read())[0].processes[0].threads[0] == one


ASKS = textwrap.dedent(
    """
    def share(counts):
        work = dist.all_reduce(counts, async_op=True)
        while not work.is_completed():
            time.sleep(0.005)  # 0
    """
)


def test_a_loop_that_asks_for_a_work_waits_for_it_wherever_it_is_seen() -> None:
    scopes, _ = standing(ASKS, {"work": work("ALLREDUCE")})
    asleep, asks = scopes[0].frame, Frame(FILE, scopes[0].frame.line - 1, "share")
    elsewhere = thread([Frame(FILE, 9, "draw"), asleep], Wait("native"))
    read_of = read(scopes, ASKS)
    for one in (thread([asleep], Wait("sleep")), thread([asks], None)):
        assert refined([look(one)], PID, read_of)[0].processes[0].threads[0].waiting_for == Wait(
            "collective", "all_reduce"
        )
    for other in (elsewhere, thread([asleep], Wait("lock"))):
        assert refined([look(other)], PID, read_of)[0].processes[0].threads[0] == other


def test_without_source_or_variables_nothing_is_read() -> None:
    native = look(thread([scope.frame for scope in HERE], Wait("native")))
    assert read([]) == NOTHING_READ
    assert refined([native], PID, NOTHING_READ) == (native,)
    assert read(text=None).awaited is None
    assert read(text="def f(:\n").awaited is None
    assert [v.name for v in read(text=None).variables] == ["self", "self.rank"]


def test_a_text_is_parsed_once() -> None:
    reader = Reader()
    asked: list[str] = []

    def text_of(file: str) -> str:
        asked.append(file)
        return TEXT

    assert reader.read(HERE, text_of, 2, 4) == reader.read(HERE, text_of, 2, 4)
    assert asked == [FILE, FILE]
    assert len(reader._parsed) == 1


POLLS = """
    def acquire(self, pattern):
        while not os.path.exists(self.path):
            time.sleep(self.pause)  # 0
"""


def test_a_line_that_sleeps_names_the_files_that_it_looks_at() -> None:
    lock = thing("Lock", path=Value("text", "PosixPath", "/tmp/a.lock"), pause=0.5)
    scopes, _ = standing(POLLS, {"self": lock, "pattern": "*.txt"})
    seen = read(scopes, textwrap.dedent(POLLS))
    frames = [scopes[0].frame]
    assert polled_paths(seen, [look(thread(frames, Wait("sleep")))], PID) == ["/tmp/a.lock"]
    assert polled_paths(seen, [look(thread(frames, Wait("lock", "lock_file")))], PID) == ["/tmp/a.lock"]
    assert polled_paths(seen, [look(thread(frames, Wait("network", "read")))], PID) == []
    assert polled_paths(seen, [], PID) == []


def test_a_descriptor_that_is_tried_to_be_locked_names_its_file(tmp_path: Path) -> None:
    text = "def acquire(fd):\n    while not free(fcntl.flock(fd, 6)):\n        time.sleep(1)  # 0\n"
    with (tmp_path / "a.lock").open("w") as file:
        scopes, _ = standing(text, {"fd": file.fileno()})
        seen = read(scopes, text)
        asleep = [look(dataclasses.replace(thread([scopes[0].frame], Wait("sleep"))))]
        mine = [Look(0.0, tuple(dataclasses.replace(p, pid=os.getpid()) for p in asleep[0].processes[:1]))]
        assert polled_paths(seen, mine, os.getpid()) == [str(tmp_path / "a.lock")]


def test_a_line_that_calls_no_sleep_may_sleep_for_the_lock_of_an_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SQLite does, within ``execute``."""
    monkeypatch.setattr(filelocks, "locked_by_others", lambda pid: [f"/data/{pid}.db"])
    for line, paths in (("db.execute(sql)", [f"/data/{PID}.db"]), ("time.sleep(1)", [])):
        text = f"def record(db, sql):\n    {line}  # 0\n"
        scopes, _ = standing(text, {"db": value(1)})
        asleep = [look(thread([scopes[0].frame], Wait("sleep")))]
        assert polled_paths(read(scopes, text), asleep, PID) == paths


def test_what_filelock_waits_for_is_told_by_its_own_frame() -> None:
    library = Frame("/opt/venv/lib/python3.11/site-packages/filelock/_api.py", 100, "acquire", library=True)
    scopes, _ = standing("def fill(lock):\n    lock.acquire()  # 0\n", {"lock": thing("FileLock")})
    within = Scope(library, 0, None, {"lock_filename": value("/tmp/b.lock")})
    outer = dataclasses.replace(scopes[0], depth=1)
    seen = read([within, outer], "def fill(lock):\n    lock.acquire()  # 0\n")
    assert polled_paths(seen, [look(thread([library, outer.frame], Wait("lock", "lock_file")))], PID) == ["/tmp/b.lock"]
    assert [v.name for v in seen.variables] == ["lock"]
