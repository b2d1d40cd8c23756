"""Python's full garbage collections while somebody looks: how many, how long everything stood still for them, and who asked for them."""

from __future__ import annotations

import gc
import sys
import time
from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type

from .sampling import frames_from

FULL = 2
MOST_PLACES, MOST_PAUSES = 16, 512


class Collections:
    """A context: what is collected within it. Costs two calls of Python a collection, of any generation."""

    def __init__(self) -> None:
        self.count = 0
        self.asked = 0
        """Those that the program asked for: Python's own come when enough has been allocated."""
        self.pause_s = 0.0
        self.longest_s = 0.0
        self.pauses: List[Tuple[float, float]] = []
        """When each began, by `time.perf_counter`, and how long it took."""
        self._began: Optional[float] = None
        self._by_itself = False
        self._places: Dict[Tuple[Tuple[str, int, str], ...], int] = {}

    def __enter__(self) -> Collections:
        gc.callbacks.append(self._collects)
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        gc.callbacks.remove(self._collects)

    def report(self) -> Dict[str, Any]:
        """``places``: the stacks, innermost first, in which they began, the most frequent first, and how often.

        ``asked``: how many of all these the program asked for, by ``gc.collect()``;
        ``pauses``: when they began (Unix time), and seconds.
        """
        ahead = time.time() - time.perf_counter()
        places: List[Any] = sorted(self._places.items(), key=lambda item: -item[1])
        return {
            "count": self.count,
            "asked": self.asked,
            "pause_s": self.pause_s,
            "longest_s": self.longest_s,
            "pauses": [[began + ahead, took] for began, took in self.pauses],
            "places": [{"frames": list(frames), "count": count} for frames, count in places],
        }

    def _collects(self, phase: str, info: Dict[str, int]) -> None:
        """Called by the collector, on whichever thread set it off."""
        if info["generation"] != FULL:
            return
        if phase == "start":
            self._began = time.perf_counter()
            self._by_itself = gc.get_count()[FULL] > gc.get_threshold()[FULL]
            return
        if self._began is None:
            return  # it had begun before we came
        began, self._began = self._began, None
        took = time.perf_counter() - began
        self.count += 1
        self.asked += not self._by_itself
        self.pause_s += took
        if len(self.pauses) < MOST_PAUSES:
            self.pauses.append((began, took))
        self.longest_s = max(self.longest_s, took)
        frames = tuple(frames_from(sys._getframe(1)))
        if frames in self._places or len(self._places) < MOST_PLACES:
            self._places[frames] = self._places.get(frames, 0) + 1
