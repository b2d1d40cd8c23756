"""What a waiting line goes by."""

from __future__ import annotations

from typing import Any

from cases import each
from standing import FILE, standing, thing

from jupyter_traindbg.frames.looked_at import looked_at
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
