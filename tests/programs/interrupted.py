"""A worker as Ray's, played: its main loop runs one method after the other, and each is interrupted. Prints what came of it, as JSON.

Run as ``interrupted.py FOLDER``, where FOLDER holds the agent: by any Python from 3.9 on. ``ignored`` has SIGINT ignored.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from typing import Any

sys.path.insert(0, sys.argv[1])
from agent.actions import interrupt  # type: ignore[import-not-found]

if "ignored" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # as in a worker of Ray's

LOOP = """
def main_loop(methods, ended):
    for method in methods:
        try:
            method()
            ended[method.__name__] = "returned"
        except KeyboardInterrupt:
            ended[method.__name__] = "KeyboardInterrupt"
"""
NAMES: dict[str, Any] = {"__name__": "ray._private.worker"}
exec(compile(LOOP, "/opt/site-packages/ray/_private/worker.py", "exec"), NAMES)
LOCK = threading.RLock()
HELD = threading.Event()


class Actor:
    def __init__(self) -> None:
        self.count = 0

    def busy(self) -> None:
        ends = time.monotonic() + 20
        while time.monotonic() < ends:
            try:
                self.count += 1
            except Exception:  # as much code has it: an interrupt must pass it
                time.sleep(0)

    def sleeps(self) -> None:
        time.sleep(20)

    def locks(self) -> None:
        with LOCK:
            pass

    def waits(self) -> None:
        threading.Event().wait(20)


def hold() -> None:
    with LOCK:
        HELD.set()
        time.sleep(25)


def throw(methods: list[Any], answers: dict[str, Any]) -> None:
    for method in methods:
        until(lambda method=method: any(c["method"].endswith(method.__name__) for c in look()))
        time.sleep(0.05)
        answers[method.__name__] = interrupt.run(None, do="interrupt", method=method.__name__, wait_s=3.0)["running"][0]
        if not answers[method.__name__]["ended"]:
            return


def look() -> list[Any]:
    found: list[Any] = interrupt.run(None)["running"]
    return found


def until(condition: Any) -> None:
    ends = time.monotonic() + 10
    while not condition() and time.monotonic() < ends:
        time.sleep(0.01)


actor = Actor()
threading.Thread(target=hold, daemon=True).start()
HELD.wait(10)
chosen = [actor.busy, actor.locks, actor.waits] + ([] if "ignored" in sys.argv else [actor.sleeps])
ended: dict[str, str] = {}
answers: dict[str, Any] = {}
thrower = threading.Thread(target=throw, args=(chosen, answers), daemon=True)
thrower.start()
NAMES["main_loop"](chosen, ended)
thrower.join(10)
print(json.dumps({"ended": ended, "answers": {name: answer["ended"] for name, answer in answers.items()}}))
