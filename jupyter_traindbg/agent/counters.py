"""The loop counters of the program: small integers called ``step``, ``epoch`` and the like in its own functions, where it stands now."""

from __future__ import annotations

import os
import sys
import threading
from typing import Dict, Optional

from . import reachable

STEPS = {
    "step",
    "steps",
    "global_step",
    "cur_step",
    "step_count",
    "num_steps",
    "iteration",
    "iter",
    "it",
    "n_iter",
    "iter_num",
}
BATCHES = {"i", "idx", "batch", "batch_idx", "batch_index", "batch_id"}
EPOCHS = {"epoch", "ep", "cur_epoch", "current_epoch", "epoch_idx", "epoch_index"}
NAMES = sorted(STEPS | BATCHES | EPOCHS)
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


def read(thread_id: Optional[int]) -> Dict[str, int]:
    """``{"train.py:main:epoch": 3, ...}`` of the thread `thread_id` (None: the main thread), innermost function first.

    0.1 ms; leaves the frames as they are.
    """
    innermost = sys._current_frames().get(thread_id or threading.main_thread().ident or 0)
    while innermost is not None and innermost.f_globals.get("__package__") == __package__:
        innermost = innermost.f_back  # we are on that thread, at a boundary
    if innermost is None:
        return {}
    found: Dict[str, int] = {}
    for frame, local in reachable.look_at_stack(innermost):
        code = frame.f_code
        ours = (frame.f_globals.get("__package__") or "").startswith(__package__)
        if not ours and not _of_library(code.co_filename):
            place = f"{os.path.basename(code.co_filename)}:{code.co_name}"
            for name in NAMES:
                if type(local.get(name)) is int:
                    found.setdefault(f"{place}:{name}", local[name])
    return found


def _of_library(file: str) -> bool:
    return file.startswith((_STANDARD_LIBRARY, "<frozen")) or "site-packages" in file or "dist-packages" in file
