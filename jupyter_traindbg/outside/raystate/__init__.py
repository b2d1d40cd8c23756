"""What a Ray cluster says of itself, without ray in this process: the dashboard head's HTTP, read with the standard library.

`parse` and `resolve` go from a person's words to a `ClusterAddress`, `read` from there to a `RayCluster`, `pick_job` to one of its jobs.
`gcs` alone imports ray, and runs in the broker's process.
"""

from __future__ import annotations

from .addresses import ClusterAddress, resolve
from .brokered import set_broker
from .picking import pick_job
from .reading import read

__all__ = ["ClusterAddress", "pick_job", "read", "resolve", "set_broker"]
