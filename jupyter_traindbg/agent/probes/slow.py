"""Where the time of some steps goes: looks at the training thread, each with its moment and step; their records, batches, collections."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any, Dict

from .. import cpus, cuda
from ..batch_watch import BatchWatch, loader_told
from ..collecting import Collections
from ..recorder import FIELDS
from ..timed_looks import TimedLooks

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.03 to 0.1 ms a look, at most a hundredth of the time; 20 us a batch on the training thread; one search for the loaders"
MOST_LOOKS, MOST_BATCHES = 2000, 256
MOST_REASONS = 8


def run(agent: Agent, steps: int = 20, least_s: float = 2.0, window_s: float = 10.0) -> Dict[str, Any]:
    """Looks until so many whole `steps` have passed, for `least_s` at least and `window_s` at most. Nothing is left behind.

    The looks are told as by `TimedLooks.told`. ``records`` are of the steps that ended meanwhile.
    """
    recorder, watch = agent.recorder, BatchWatch(agent, MOST_BATCHES)
    compiled, throttled_s = _compiled(), cpus.throttled_s()
    recorder.fetched.append(watch.saw)
    try:
        with Collections() as collections:
            window = TimedLooks(agent, MOST_LOOKS)

            def going(passed_s: float) -> bool:
                enough = recorder.step > window.first + steps and passed_s >= least_s
                return not enough and passed_s < window_s

            window.look(going)
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
