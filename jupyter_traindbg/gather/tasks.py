"""Work that goes on beside the rest; see `jupyter_traindbg.attach.tasks`."""

from __future__ import annotations

from ..attach.tasks import Task

__all__ = ["Task"]
