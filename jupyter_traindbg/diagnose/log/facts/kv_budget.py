"""The inference engine's memory arithmetic: weights + profiling + KV cache = its share of the GPU.

vLLM prints "Model loading took 61.03 GiB" and "Available KV cache memory: -24.42 GiB"; what it may use is about their sum, to which only
the profiling run's activations are to be added. Older versions print one line with all the parts ("model weights take 61.0GiB; ... the rest
of the memory reserved for KV Cache is -24.4GiB").
"""

from __future__ import annotations

import re

from ....model import LogEvidence, LogLine
from . import Fact

__all__ = ["facts"]

_SIZE = r"(-?\d{1,9}(?:\.\d{1,6})?)\s*(GiB|GB|MiB|MB)"
_WEIGHTS = re.compile(
    rf"(?i)(?:Model loading took|model weights take|Loading model weights took|Load weight end\.?.{{0,80}}mem usage=)\s*{_SIZE}"
)
_LEFT = re.compile(rf"(?i)(?:Available KV cache memory:|reserved for KV Cache is)\s*{_SIZE}")
_UNIT = re.compile(r"\d\s*[GgMm]i?[Bb]")
_PER_UNIT = {"gib": 1024.0**3, "gb": 1024.0**3, "mib": 1024.0**2, "mb": 1024.0**2}


def facts(evidence: LogEvidence) -> list[Fact]:
    """`kv_budget` with `weights_bytes`, `left_bytes` and `budget_bytes` where the log has both figures."""
    weights = left = None
    decisive: LogLine | None = None
    for line in evidence.lines:
        if not _UNIT.search(line.text):
            continue  # far cheaper than the patterns of the words before it
        if found := _WEIGHTS.search(line.text):
            weights = _bytes(found[1], found[2])
        if found := _LEFT.search(line.text):
            left, decisive = _bytes(found[1], found[2]), line
    if weights is None or left is None:
        return []
    values: dict[str, float | str] = {"weights_bytes": weights, "left_bytes": left, "budget_bytes": weights + left}
    return [Fact("kv_budget", decisive, values)]


def _bytes(number: str, unit: str) -> float:
    return float(number) * _PER_UNIT[unit.lower()]
