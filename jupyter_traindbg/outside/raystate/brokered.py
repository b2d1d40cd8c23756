"""The way to what only a process that imports ray can read.

Nothing here imports ray: whoever can reach such a process (`jupyter_traindbg.attach.ray`) installs the way to it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import TraindbgError
from ...model import RayCluster

if TYPE_CHECKING:
    from .addresses import ClusterAddress

__all__ = ["Ask", "cluster", "dashboard_of", "set_broker"]

GCS = "jupyter_traindbg.outside.raystate.gcs"


class Ask(Protocol):
    """Runs a ``"module:function"`` in a process that is connected to `address`; raises `TraindbgError`."""

    def __call__(self, address: ClusterAddress, function: str, *arguments: Any, deadline_s: float) -> Any: ...


_broker: Ask | None = None


def set_broker(ask: Ask) -> None:
    """Install the way to the broker."""
    global _broker
    _broker = ask


def cluster(address: ClusterAddress, job: str | None, until: float) -> RayCluster | None:
    """What the GCS says, through the broker; None where there is no broker. Raises what the broker raises."""
    found: RayCluster | None = _asked(address, "cluster", job, until)
    return found


def dashboard_of(gcs: str, until: float) -> str:
    """The URL of the dashboard of the cluster at `gcs`, as the GCS has it; empty where that cannot be learned."""
    from .addresses import ClusterAddress

    try:
        return str(_asked(ClusterAddress(gcs, ""), "dashboard", None, until) or "")
    except TraindbgError:
        return ""


def _asked(address: ClusterAddress, function: str, job: str | None, until: float) -> Any:
    if _broker is None:
        return None
    left_s = max(0.1, until - time.monotonic())
    return _broker(address, f"{GCS}:{function}", address, job, left_s, deadline_s=left_s)
