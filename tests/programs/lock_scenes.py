"""Functions that stand in a wait with locks around them. Prints for each, as JSON, what its bytecode says and what is so.

Run as ``lock_scenes.py FOLDER``, where FOLDER holds the agent: by any Python from 3.9 on.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, sys.argv[1])
from agent.bytecode import Reading, may_hold, written  # type: ignore[import-not-found]


class Scene:
    def __init__(self) -> None:
        self.a, self.b, self.c = threading.Lock(), threading.Lock(), threading.Lock()
        self.rows = [threading.Lock()]
        self.named = {"k": threading.Lock()}
        self.queue: Any = queue.Queue()
        self.patience = 2.0
        for lock in (self.b, self.rows[0], self.named["k"]):
            lock.acquire()

    def nested(self) -> None:
        with self.a:
            try:
                with self.b:
                    pass
            except ValueError:
                pass

    def in_one_line(self, i: int = 0) -> None:
        with self.a, self.rows[i]:
            pass

    def by_keyword(self) -> None:
        with self.a, self.c:
            if self.b.acquire(timeout=self.patience):
                pass

    def without_with(self) -> None:
        self.a.acquire()
        self.c.acquire()
        self.c.release()
        for _ in range(3):
            self.named["k"].acquire()

    def after_another(self) -> None:
        with self.a:
            pass
        with self.c:
            for _ in range(2):
                while True:
                    with self.b:
                        break

    def in_a_queue(self) -> None:
        with self.a, open("/dev/null"):
            try:
                self.queue.get(True, timeout=self.patience)
            except queue.Empty:
                return

    def after_a_call(self) -> None:
        if self.a.acquire(timeout=self.patience):
            self.c.acquire()
            self.c.release()
            self.queue.get()

    def in_an_except(self) -> None:
        with self.a:
            try:
                raise ValueError
            except ValueError:
                with self.b:
                    pass

    def in_a_finally(self) -> None:
        try:
            with self.c:
                pass
        finally:
            with self.a:
                self.b.acquire()


WANTED: list[tuple[str, str, list[str]]] = [
    ("nested", "self.b", ["with self.a"]),
    ("in_one_line", "self.rows[i]", ["with self.a"]),
    ("by_keyword", "self.b", ["with self.c", "with self.a"]),
    ("without_with", "self.named['k']", ["acquire self.a"]),
    ("after_another", "self.b", ["with self.c"]),
    ("in_a_queue", "self.queue", ["with None", "with self.a"]),
    ("in_an_except", "self.b", ["with self.a"]),
    ("after_a_call", "self.queue", ["acquire self.a"]),
    ("in_a_finally", "self.b", ["with self.a"]),
]


def look(function: Callable[[], None]) -> tuple[Any, list[str]]:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    time.sleep(0.1)
    frame: Any = sys._current_frames()[thread.ident or 0]
    called = "acquire"
    while frame.f_code.co_filename != __file__:
        called, frame = frame.f_code.co_name, frame.f_back
    reading = Reading(frame.f_code)
    call = reading.call(frame.f_lasti, (called,))
    assert may_hold(frame.f_code)
    return None if call is None else written(call.path), [
        f"{how} {written(path)}" for how, path in reading.holds(frame.f_lasti)
    ]


for name, waits, holds in WANTED:
    print(json.dumps({"scene": name, "wanted": [waits, holds], "seen": look(getattr(Scene(), name))}))
