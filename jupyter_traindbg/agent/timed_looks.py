"""Looks at the training thread over some steps, each with its moment and the step under way; stacks are told once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

from .sampling import Look, looks, readable
from .training_thread import training_thread

if TYPE_CHECKING:
    from .core import Agent

SHARE = 0.01
"""Of the time, looks may cost: of the GIL, too."""
SHORTEST_S, LONGEST_S = 0.005, 0.03
"""Between two looks."""
MOST_STACKS = 512


class TimedLooks:
    """Looks at the training thread, on the calling thread."""

    def __init__(self, agent: Agent, most: int) -> None:
        self._agent, self._most = agent, most
        self.first = agent.recorder.step
        self._began, self._began_s = time.perf_counter(), time.time()
        self._stacks: Dict[Tuple[Any, ...], int] = {}
        self._readable: List[Any] = []
        self._looks: List[List[Any]] = []

    def look(self, going: Callable[[float], bool]) -> None:
        """While `going` after so many seconds."""
        thread = training_thread(self._agent)

        def on() -> bool:
            return self._agent.alive and len(self._looks) < self._most and going(time.perf_counter() - self._began)

        for look in looks(thread, lambda cost: min(LONGEST_S, max(SHORTEST_S, cost / SHARE)), on):
            self._note(look)

    def _note(self, look: Look) -> None:
        number = self._stacks.get(look.place)
        if number is None:
            number = self._stacks[look.place] = len(self._readable)
            self._readable.append(readable(look.stack) if number < MOST_STACKS else [])
        recorder = self._agent.recorder
        row = [look.at - self._began, number, look.wall_s, look.idle_s, look.late_s, look.call]
        self._looks.append([*row, recorder.step, recorder.forward_begun])

    def told(self) -> Dict[str, Any]:
        """``looks``: seconds since ``began_s`` (Unix time), the number of the stack in ``stacks``, seconds since the look before, how many
        of these it used no CPU, how long the look had to wait for the GIL, the system call, the step under way, and whether its forward
        pass had begun. ``first``: the step that had ended when it began.
        """
        return {
            "began_s": self._began_s,
            "window_s": time.perf_counter() - self._began,
            "first": self.first,
            "stacks": self._readable,
            "looks": self._looks,
        }
