"""The Jupyter Server extension behind the side panel: the training jobs of the server's host, over its own port and authentication.

Nothing is imported here that a server does not have anyway; what looks at jobs comes with the first request.
"""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Called by Jupyter Server, which finds the name of this package in its configuration."""
    from .app import TraindbgServer

    return [{"module": "jupyter_traindbg.server.app", "app": TraindbgServer}]
