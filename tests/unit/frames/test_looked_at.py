"""What a waiting line goes by."""

from __future__ import annotations

from typing import Any

from cases import each
from standing import FILE, standing, thing

from jupyter_traindbg.frames.looked_at import locked, looked_at
from jupyter_traindbg.model import Value

LOCK = """
    def acquire(self, poll_s):
        while self.fd is None:
            try:
                self.fd = os.open(self.path, os.O_EXCL)
            except OSError as error:
                time.sleep(poll_s)  # 0
"""
PENDING = """
    def drain(pending, results):
        while pending:
            done = [uid for uid in pending if uid in results]
            pending -= set(done)
            time.sleep(0.1)  # 0
"""
QUEUE = """
    def take(self):
        with self.timer:
            item = self.queue.get(timeout=self.timeout)  # 0
        return item
"""
EMPTY = Value("queue", "Queue", size=0)


@each(
    "text, variables, expected",
    [
        (
            LOCK,
            {"self": thing("Lock", fd=None, path="/tmp/a.lock"), "poll_s": 0.05},
            {"self.fd": None, "poll_s": 0.05, "self.path": "/tmp/a.lock"},
        ),
        (
            QUEUE,
            {"self": thing("Loader", queue=EMPTY, timeout=None, timer=thing("Timer"))},
            {"self.queue": EMPTY, "self.timeout": None},
        ),
    ],
)
def test_the_loops_condition_comes_first_then_the_line_then_the_rest(
    text: str, variables: dict[str, Any], expected: dict[str, Any]
) -> None:
    scopes, sources = standing(text, variables)
    told = {v.name: v.value.plain if v.value.kind == "plain" else v.value for v in looked_at(scopes[0], sources[FILE])}
    assert told == expected
    assert list(told) == list(expected)


def test_what_tells_nothing_is_left_out() -> None:
    opaque = Value("other", "Tensor", words="Tensor")
    scopes, sources = standing(
        PENDING, {"pending": {"uid-17": 1}, "results": opaque, "time": Value("module", "module")}
    )
    assert [v.name for v in looked_at(scopes[0], sources[FILE])] == ["pending"]


def test_a_store_that_is_asked_is_told_with_its_key() -> None:
    text = """
        def meet(self, name):
            while not self.store.check([f"ready/{name}"]):
                time.sleep(0.1)  # 0
    """
    scopes, sources = standing(text, {"self": thing("Meeting", store=Value("store", "TCPStore")), "name": "vocabulary"})
    told = {v.name: v.value for v in looked_at(scopes[0], sources[FILE])}
    assert told["self.store"] == Value("store", "TCPStore", "TCPStore, 'ready/vocabulary'")


@each("call", ["fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)", "fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)"])
def test_the_descriptor_that_is_to_be_locked_is_told(call: str) -> None:
    text = f"""
        def acquire(self, fd, other):
            while True:
                try:
                    return {call}
                except OSError:
                    time.sleep(other)  # 0
    """
    scopes, sources = standing(text, {"self": thing("Lock", fd=7), "fd": 7, "other": 9})
    assert locked(scopes[0], sources[FILE]) == (7,)
