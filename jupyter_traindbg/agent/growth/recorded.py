"""torch's flight recorders while they fill up: memory that grows at each step, belongs to no object of Python's, and is no leak.

A recorder keeps the last calls of collectives with their stacks, ``TORCH_FR_BUFFER_SIZE`` at most (torch/csrc/distributed/c10d,
``FlightRecorder::record``): what a call takes, 0.5 to 2 KiB, is added until then, and replaces an older one from then on.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Optional

from .. import flight
from ..probes.collectives import dump

SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
USUAL = 2000


def filling(since_s: float) -> Optional[Dict[str, int]]:
    """``calls`` that are recorded, ``new`` ones issued since then (Unix time), and how many are kept at ``most``. None where all recorders
    are full, or nothing was recorded. Costs what a dump costs: 40 ms at most.
    """
    native = sys.modules.get("torch._C._distributed_c10d")
    found = [one for one in (_filling(dump(native, kind), since_s) for kind in ("nccl", "fr")) if one is not None]
    if not found:
        return None
    return {name: sum(one[name] for one in found) for name in ("calls", "new", "most")}


def _filling(content: Optional[Dict[str, Any]], since_s: float) -> Optional[Dict[str, int]]:
    entries = (content or {}).get("entries")
    if not entries or entries[0].get("record_id"):
        return None
    new = sum(1 for entry in entries if (flight.seconds(entry) or 0.0) >= since_s)
    return {"calls": len(entries), "new": new, "most": max(_most(), len(entries))} if new else None


def _most() -> int:
    words = next((os.environ[name] for name in SIZES if os.environ.get(name)), "")
    return int(words) if words.isdigit() else USUAL
