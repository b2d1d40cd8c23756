"""Loops that ask again and again: for what, and whether what they go by is changed by somebody else."""

from __future__ import annotations

import dataclasses
from typing import Any

from cases import each
from standing import standing, thing, value

from jupyter_traindbg.frames.asking import asked_for, changes
from jupyter_traindbg.model import Value, Wait

EMPTY = Value("queue", "Queue", size=0, most=4)
FULL = Value("queue", "Queue", size=4, most=4)
UNSET = Value("event", "Event", plain=False)
PENDING = Value("other", "Future", "Future, pending")


def loop(body: str, test: str = "True") -> str:
    return f"def wait(self, x, n):\n    while {test}:\n" + "".join(f"        {line}\n" for line in body.splitlines())


TRIES = """try:
    return self.ready.get_nowait()
except queue.Empty:
    polled += 1
    time.sleep(0.002)  # 0"""
SLEEPS = "time.sleep(0.01)  # 0"


@each(
    "text, variables, wait",
    [
        (loop(TRIES), {"self": thing("Loader", ready=EMPTY)}, Wait("queue")),
        (loop(TRIES), {"self": thing("Loader", ready=FULL)}, None),
        (loop(f"bar.update(x.qsize())\n{SLEEPS}", "x.empty()"), {"x": EMPTY}, Wait("queue")),
        (loop(SLEEPS, "x.full()"), {"x": FULL}, Wait("queue", "put")),
        (loop(SLEEPS, "x.full()"), {"x": Value("queue", "Queue", size=0)}, None),
        (loop(SLEEPS, "not x.is_set()"), {"x": UNSET}, Wait("thread")),
        (loop(SLEEPS, "not x.is_set()"), {"x": Value("event", "Event", plain=True)}, None),
        (loop(SLEEPS, "not x.done() and time.time() < n"), {"x": PENDING, "n": 9}, Wait("future")),
        (loop(f"step(n)\n{SLEEPS}", "not x.is_set()"), {"x": UNSET}, None),
        (loop("x.is_set()  # 0"), {"x": UNSET}, None),
        (loop(SLEEPS, "not x.is_set()"), {}, None),
        ("def wait(x):\n    time.sleep(1)  # 0\n", {"x": UNSET}, None),
    ],
)
def test_what_a_loop_asks_for_that_does_nothing_else(text: str, variables: dict[str, Any], wait: Wait | None) -> None:
    scopes, sources = standing(text, variables)
    assert asked_for(scopes[0], sources[scopes[0].frame.file]) == wait


READS = f"x = int(path.read_text())\n{SLEEPS}"
LEAVES = f"done = ask()\nif done >= n:\n    return done\n{SLEEPS}"


@each(
    "text, before, now, changed",
    [
        (loop(READS, "x < n"), {"x": 3, "n": 9}, {"x": 5, "n": 9}, ["x"]),
        (loop(READS, "x < n"), {"x": 3, "n": 9}, {"x": 3, "n": 9}, []),
        (loop(LEAVES), {"done": 3, "n": 9}, {"done": 4, "n": 9}, ["done"]),
        (loop(SLEEPS, "self.left"), {"self": thing("A", left=[1, 2])}, {"self": thing("A", left=[2])}, ["self.left"]),
        (loop(f"n += 1\n{SLEEPS}", "n < 100"), {"n": 3}, {"n": 9}, []),
        (loop(f"n = n - 1\n{SLEEPS}", "n"), {"n": 9}, {"n": 3}, []),
        (loop(f"n = int(time.time() - x)\n{SLEEPS}", "n < 60"), {"n": 3}, {"n": 9}, []),
        (loop(f"n += x.arrived()\n{SLEEPS}", "n < 60"), {"n": 3}, {"n": 9}, ["n"]),
        (loop(SLEEPS, "'done' not in x"), {"x": "at 10:01"}, {"x": "at 10:02"}, []),
        (loop(f"for one in x:\n    {SLEEPS}"), {"x": 1}, {"x": 2}, []),
    ],
)
def test_what_somebody_else_has_changed(
    text: str, before: dict[str, Any], now: dict[str, Any], changed: list[str]
) -> None:
    (then,), _ = standing(text, before)
    (here,), sources = standing(text, now)
    found = changes(then, here, sources[here.frame.file])
    assert [change.variable.name for change in found] == changed


def test_a_change_has_both_values_and_is_of_one_loop() -> None:
    text = loop(READS, "x < n")
    (then,), _ = standing(text, {"x": 3, "n": 9})
    (here,), sources = standing(text, {"x": 5, "n": 9})
    source = sources[here.frame.file]
    (change,) = changes(then, here, source)
    assert (change.before, change.variable.value) == (value(3), value(5))
    elsewhere = dataclasses.replace(then, frame=dataclasses.replace(then.frame, line=1))
    assert changes(elsewhere, here, source) == ()
    other = dataclasses.replace(then, frame=dataclasses.replace(then.frame, function="other"))
    assert changes(other, here, source) == ()
