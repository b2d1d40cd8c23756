"""Checkpoints on disk, without a job and without torch: what is in one, is it what was written, why does it not fit. Nothing is executed.

Data goes one way: `reading` (formats: `torchfile`, `safetensors`, `dcp`, `directories`; pickles go through `pickles`) -> `contents` ->
`inspecting` and `comparing` (whose verdicts are in `reasons`). `manifest` and `verifying` are about our own format.
"""

from __future__ import annotations

from .comparing import compare, keys_from
from .inspecting import inspect
from .manifest import Manifest
from .manifest import read as read_manifest
from .verifying import verify

__all__ = ["Manifest", "compare", "inspect", "keys_from", "read_manifest", "verify"]
