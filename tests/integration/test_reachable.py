"""Looking at frames leaves them as they were, on every Python from 3.9 on (each reads locals in a way of its own)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import interpreters

AGENT = Path(__file__).parents[2] / "jupyter_traindbg" / "agent"

SCRIPT = """
import gc, sys, threading, weakref
from looking.reachable import from_frames, from_gc


class Big:
    pass


def search():
    found = list(from_frames())
    return any(type(f) is Big for f in found)


gc.disable()


def freed():
    big = Big()
    ref = weakref.ref(big)
    assert search()
    del big
    return ref() is None


def freed_in_another_thread():
    there, go, refs = threading.Event(), threading.Event(), []

    def main():
        big = Big()
        refs.append(weakref.ref(big))
        there.set()
        go.wait(10)
        del big
        refs.append(refs[0]() is None)

    thread = threading.Thread(target=main)
    thread.start()
    there.wait(10)
    assert search()
    go.set()
    thread.join(10)
    return refs[1]


def freed_from_a_generator():
    def produce():
        big = Big()
        yield weakref.ref(big)
        del big
        yield None

    generator = produce()
    ref = next(generator)
    assert search()
    next(generator)
    return ref() is None


def variables_survive_a_tracer(install):
    def tracer(frame, event, arg):
        if frame.f_code.co_name in ("outer", "inner", "numbers"):
            search()
            return tracer

    def numbers(n):
        for i in range(n):
            yield i

    def inner(argument):
        return argument + sum(numbers(3))

    def outer(argument):
        local = argument * 2
        return inner(local) + local + argument

    install(tracer)
    try:
        return outer(5) == 28
    finally:
        install(None)


def from_the_collector():
    class Bigger(Big):
        pass

    mine = [Big(), Bigger()]
    return {type(f) for f in from_gc([Big])} == {Big, Bigger} and len(mine) == 2


print(freed(), freed_in_another_thread(), freed_from_a_generator(), variables_survive_a_tracer(sys.settrace),
      variables_survive_a_tracer(sys.setprofile), from_the_collector())
"""


@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters().keys())
def test_frames_are_left_as_they_were(python: str, tmp_path: Path) -> None:
    (tmp_path / "looking").mkdir()
    for name in ("attributes.py", "notebook.py", "reachable.py"):
        (tmp_path / "looking" / name).write_text((AGENT / name).read_text())
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([python, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == ["True"] * 6
