"""Where the time of some steps goes: looks at the training thread, each with its moment and step; their records, batches, collections."""

from __future__ import annotations

import platform
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from .. import cpus, cuda
from ..batch_watch import BatchWatch, loader_told
from ..collecting import Collections
from ..recorder import FIELDS
from ..sampling import Look, looks, readable

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.03 to 0.1 ms a look, at most a hundredth of the time; 20 us a batch on the training thread; one search for the loaders"
SHARE = 0.01
"""Of the time, looks may cost: of the GIL, too."""
SHORTEST_S, LONGEST_S = 0.005, 0.03
"""Between two looks."""
MOST_LOOKS, MOST_STACKS, MOST_BATCHES = 2000, 512, 256
MOST_REASONS = 8


def run(agent: Agent, steps: int = 20, least_s: float = 2.0, window_s: float = 10.0) -> Dict[str, Any]:
    """Looks until so many whole `steps` have passed, for `least_s` at least and `window_s` at most. Nothing is left behind.

    ``looks``: seconds since ``began_s`` (Unix time), the number of the stack in ``stacks``, seconds since the look before, how many of
    these it used no CPU, how long the look had to wait for the GIL, the system call, the step under way, and whether its forward pass had
    begun. ``records`` are of the steps that ended meanwhile.
    """
    recorder, watch = agent.recorder, BatchWatch(agent, MOST_BATCHES)
    compiled, throttled_s = _compiled(), cpus.throttled_s()
    recorder.fetched.append(watch.saw)
    try:
        with Collections() as collections:
            window = _Window(agent)
            window.look(steps, least_s, window_s)
    finally:
        recorder.fetched.remove(watch.saw)
    return {
        **window.told(),
        "fields": FIELDS,
        "records": recorder.since(window.first),
        "collections": collections.report(),
        "batches": [{**batch, "tensors": batch["tensors"][:8]} for batch in watch.batches],
        "loaders": loader_told(agent, watch),
        "compiled": {**_compiled(), "before": compiled["graphs"]},
        "host": _host(throttled_s),
    }


class _Window:
    """Looks at the training thread, with what they have in common told once."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.first = agent.recorder.step
        self._began, self._began_s = time.perf_counter(), time.time()
        self._stacks: Dict[Tuple[Any, ...], int] = {}
        self._readable: List[Any] = []
        self._looks: List[List[Any]] = []

    def look(self, steps: int, least_s: float, window_s: float) -> None:
        recorder = self._agent.recorder

        def going() -> bool:
            passed = time.perf_counter() - self._began
            enough = recorder.step > self.first + steps and passed >= least_s
            return self._agent.alive and not enough and passed < window_s and len(self._looks) < MOST_LOOKS

        thread = self._agent.safepoints.thread_id or threading.main_thread().ident or 0
        for look in looks(thread, lambda cost: min(LONGEST_S, max(SHORTEST_S, cost / SHARE)), going):
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
        return {
            "began_s": self._began_s,
            "window_s": time.perf_counter() - self._began,
            "first": self.first,
            "stacks": self._readable,
            "looks": self._looks,
        }


def _compiled() -> Dict[str, Any]:
    """What torch.compile has made so far, where it is in use: graphs, and why it broke off others."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    if counters is None:
        return {"graphs": 0, "breaks": []}
    breaks = sorted(dict(counters.get("graph_break", {})).items(), key=lambda one: -one[1])
    graphs = dict(counters.get("stats", {})).get("unique_graphs", 0)
    return {"graphs": int(graphs), "breaks": [[str(why)[:300], int(n)] for why, n in breaks[:MOST_REASONS]]}


def _host(throttled_s: float) -> Dict[str, Any]:
    """How many threads torch computes with, how many CPUs this process may use, and how long it was held back for using them up: since it
    was `throttled_s` in all.
    """
    torch = sys.modules.get("torch")
    threads = getattr(torch, "get_num_threads", None)
    return {
        "threads": None if threads is None else threads(),
        "name": platform.node(),
        "cpus": cpus.allowed(),
        "throttled_s": cpus.throttled_s() - throttled_s,
        "cuda": "torch" in sys.modules and cuda.in_use(),
    }
