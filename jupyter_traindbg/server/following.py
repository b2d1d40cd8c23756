"""The jobs that a page follows: attached to, read by a `Feed` each, and let go when no page has asked for a while."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import ActionRefused
from ..language import text

if TYPE_CHECKING:
    from ..job import Job
    from ..live import Feed

__all__ = ["Following"]

MOST = 32
RATE_HZ = 1.0
REST_AFTER_S = 30.0
"""So long after a page has last asked, nothing is read any more; with the next question it goes on."""
LEAVE_AFTER_S = 1800.0
"""So long after, the agents are let go as well."""


@dataclass
class _Followed:
    job: Job
    feed: Feed
    command: str = ""
    last: dict[str, Any] = field(default_factory=dict)


class Following:
    """Thread-safe. `tick` must be called now and then; it is what puts feeds to rest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}
        self._asked_s = time.monotonic()

    def __contains__(self, name: str) -> bool:
        return name in self._followed

    def __len__(self) -> int:
        return len(self._followed)

    def job(self, name: str) -> Job | None:
        """The attached job, where it is followed."""
        followed = self._followed.get(name)
        return followed.job if followed else None

    def add(self, name: str) -> None:
        """Attach to a job and read it from now on; nothing new where that is so already. Raises a `TraindbgError`."""
        from ..job import attach
        from ..live import Feed

        if name in self._followed:
            return
        if len(self._followed) >= MOST:
            raise ActionRefused(text("{most} jobs are followed already", most=MOST), text("let one go first"))
        job = attach(name)
        with self._lock:
            if name not in self._followed:
                feed = Feed(job, rate_hz=RATE_HZ)
                feed.start()
                self._followed[name] = _Followed(job, feed)
                return
        job.close()  # another page was quicker

    def drop(self, name: str) -> None:
        """Stop reading, and let go."""
        with self._lock:
            followed = self._followed.pop(name, None)
        if followed is not None:
            followed.feed.stop()
            followed.job.close()

    def close(self) -> None:
        """Let go of all."""
        for name in list(self._followed):
            self.drop(name)

    def snapshots(self) -> dict[str, dict[str, Any]]:
        """By job: what its feed knows, as plain JSON. Wakes feeds that rest: a page is looking."""
        self._asked_s = time.monotonic()
        with self._lock:
            followed = dict(self._followed)
        for one in followed.values():
            if not one.feed.running and one.feed.state.code not in ("finished", "detached"):
                one.feed.start()
        return {name: _plain(one.feed.snapshot()) for name, one in followed.items()}

    def tick(self) -> bool:
        """Put feeds to rest, or let go, where no page has asked for long. False where nothing is followed any more."""
        quiet_s = time.monotonic() - self._asked_s
        if quiet_s > LEAVE_AFTER_S:
            self.close()
        elif quiet_s > REST_AFTER_S:
            with self._lock:
                followed = list(self._followed.values())
            for one in followed:
                one.feed.stop()
        return bool(self._followed)


def _plain(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """A feed's snapshot with the names of the list's lines."""
    memory = snapshot.get("memory") or {}
    cuda = [m.get("cuda_allocated_bytes") for m in memory.values() if m.get("cuda_allocated_bytes") is not None]
    known: dict[str, Any] = {
        "followed": True,
        "state": snapshot["state"],
        "step": snapshot["step"],
        "own_step": snapshot["own_step"],
        "at": snapshot["at"],
        "loss": [v if v is not None and math.isfinite(v) else None for v in snapshot["loss"]],
        "silent": snapshot.get("silent", {}),
    }
    if cuda:
        known["cuda_bytes"] = sum(cuda)
    return known
