"""Whether the training is sound, as far as a short look at it tells: where its time goes, garbage collections, gradient scalers, memory."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from .. import cuda
from ..collecting import Collections
from ..sampling import sample
from ..training_thread import training_thread

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.03 to 0.1 ms a look, 50 looks a second, for as long as was asked for; one search for the objects (0.1 ms to 100 ms)"
GPU_S = 0.2
LOSSES = 16


def run(agent: Agent, window_s: float = 1.0) -> Dict[str, Any]:
    """Looks for `window_s` and then answers. Nothing runs on the training thread, and nothing is left behind.

    ``left_bytes``: what a step leaves behind, by the allocators' books; 0 where nothing grows, or too few steps came.
    ``backwards``, ``scaler_steps`` and ``scaler_skipped`` are counted over the window; ``skipped_in_a_row`` up to its end.
    """
    began, first, before = time.perf_counter(), _scales(agent), _counts(agent)
    books = agent.keep_books()
    settled = books.settled() if books is not None else 0
    with Collections() as collections:
        sampled = sample(training_thread(agent), window_s, lambda: agent.alive)
    left = books.report(settled) if books is not None else {"host": 0.0, "cuda": 0.0}
    steps, backwards, asked, skipped = (now - then for now, then in zip(_counts(agent), before))
    return {
        "window_s": time.perf_counter() - began,
        "steps": steps,
        "backwards": backwards,
        "scaler_steps": asked,
        "scaler_skipped": skipped,
        "skipped_in_a_row": agent.recorder.scaling.skipped_in_a_row,
        "scales": [[first.get(key), scale] for key, scale in _scales(agent).items()],
        "losses_of_no_step": agent.recorder.losses.last(LOSSES),
        "sampled": sampled,
        "collections": collections.report(),
        "left_bytes": left["host"] + left["cuda"],
        "mapped_growth_bytes": agent.recorder.resident.mapped_growth_bytes(),
    }


def _counts(agent: Agent) -> Tuple[int, int, int, int]:
    recorder = agent.recorder
    return recorder.step, recorder.backwards, recorder.scaling.asked, recorder.scaling.skipped


def _scales(agent: Agent) -> Dict[int, Any]:
    """The factor of each gradient scaler that is in use; None where a GPU does not tell in time."""
    if "torch" not in sys.modules:
        return {}
    used: List[Any] = [s for s in agent.objects.find().scalers() if getattr(s, "_enabled", False)]
    tensors = {id(s): getattr(s, "_scale", None) for s in used}
    return {key: None if t is None else cuda.soon(t.detach(), GPU_S) for key, t in tensors.items()}
