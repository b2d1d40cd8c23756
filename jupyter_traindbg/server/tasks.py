"""What takes longer than a request should: begun by one request, asked after by others."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import TraindbgError
from ..language import text
from .threads import Busy

__all__ = ["Task", "Tasks"]

MOST = 4
KEPT = 64

Progress = Callable[[int, int], None]


@dataclass
class Task:
    """``state`` is ``"running"``, ``"done"`` with a ``result``, or ``"failed"`` with an ``error`` in words."""

    what: str
    state: str = "running"
    done_bytes: int = 0
    total_bytes: int = 0
    result: dict[str, Any] | None = None
    error: dict[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


class Tasks:
    """Each on a thread of its own. The latest `KEPT` can be asked after."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._lock = threading.Lock()

    def begin(self, what: str, work: Callable[[Progress], dict[str, Any]]) -> str:
        """Start `work`, which is given a function to tell its progress (bytes done, bytes in all); its id. Raises `Busy`."""
        task = Task(what)
        with self._lock:
            if sum(t.state == "running" for t in self._tasks.values()) >= MOST:
                raise Busy(
                    text("{most} checkpoints are being written already", most=MOST), text("wait for one of them to end")
                )
            for old in [i for i, t in self._tasks.items() if t.state != "running"][: max(0, len(self._tasks) - KEPT)]:
                del self._tasks[old]
            ident = secrets.token_urlsafe(12)
            self._tasks[ident] = task
        threading.Thread(target=self._run, args=(task, work), name=f"traindbg-{what}", daemon=True).start()
        return ident

    def get(self, ident: str) -> Task | None:
        return self._tasks.get(ident)

    @staticmethod
    def _run(task: Task, work: Callable[[Progress], dict[str, Any]]) -> None:
        def progress(done: int, total: int) -> None:
            task.done_bytes, task.total_bytes = done, total

        try:
            task.result = work(progress)
            task.state = "done"
        except TraindbgError as e:
            cause, step = e.parts()
            task.error, task.state = {"message": cause, "next_step": step}, "failed"
        except BaseException as e:
            task.error = {
                "message": f"{type(e).__name__}: {e}",
                "next_step": text("the server's log has more; please report it"),
            }
            task.state = "failed"
            raise
