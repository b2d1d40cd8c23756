"""The helper on a node of a Ray cluster: an actor. Standard library and ray only, beside what travels by value with it."""

from __future__ import annotations

import tempfile

from ...hosts.helper import Helper

__all__ = ["TraindbgHelper"]


class TraindbgHelper(Helper):
    """Lives as long as the broker that made it, takes no CPU of the cluster's, and leaves nothing on the node."""

    def __init__(self, package: str, archive: bytes) -> None:
        super().__init__(package, archive, _session_directory())


def _session_directory() -> str:
    """The temporary directory of the Ray session on this node: what lies there goes with it at the latest."""
    import ray

    node = ray._private.worker._global_node
    return str(node.get_session_dir_path()) if node is not None else tempfile.gettempdir()
