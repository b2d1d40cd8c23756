"""An exception that was raised while the state of an optimizer or scheduler was loaded (``optimizer_loading_failed``).

The words of such exceptions are of every kind (``KeyError: 'state'``, a bare ``ValueError``); the frames say what was being done.
"""

from __future__ import annotations

import re

from ....model import LogEvidence, LogFrame
from . import Fact

__all__ = ["facts"]

_LOADS = re.compile(
    r"(?i)^(?:_?load_optim\w*|_?set_optimizer_state_dict|_load_optimizer_and_scheduler|_flatten_(?:sharded_)?optim_state\w*"
    r"|(?:sharded_|full_)?optim_state_dict_to_load|restore_optimizers?\w*|_?load_(?:lr_)?schedulers?\w*|load_parameter_state\w*)$"
)
_OF_OPTIMIZER = re.compile(r"(?i)optim|lr_sched")
_CALL = re.compile(
    r"(?i)\b(?:\w*optim\w*|opt|\w*sched\w*|grad_scaler|scaler)(?:\[[^\]\n]{1,20}\])?\.load_(?:state_dict|parameter_state)\("
)
_OTHER = re.compile(r"(?i)out of memory|no such file|no space left|permission denied|CUDA error|NCCL|file not found")
"""What can happen anywhere, and has its own family."""


def facts(evidence: LogEvidence) -> list[Fact]:
    """At most one a log: the first."""
    for outermost in evidence.errors:
        for error in outermost.chain():
            frame = next((f for f in error.frames if _loads(f)), None)
            if frame is not None and not _OTHER.search(f"{error.type}: {error.message[:500]}"):
                kind = error.type.rpartition(".")[2] or "exception"
                said = error.message.strip().partition("\n")[0][:200]
                values: dict[str, float | str] = {"raised": f"{kind}: {said}" if said else kind}
                return [Fact("optimizer_loading_failed", error.line, values, error.line.rank)]
    return []


def _loads(frame: LogFrame) -> bool:
    if _LOADS.match(frame.function) or _CALL.search(frame.code):
        return True
    return frame.function == "load_state_dict" and bool(_OF_OPTIMIZER.search(frame.file))
