"""What IPython tells of itself, where this process is one of its kernels. Imports nothing of it."""

from __future__ import annotations

import sys
from typing import Any, List, Optional


def shell() -> Optional[Any]:
    """Its one shell; None where this process is not IPython's."""
    cls = getattr(sys.modules.get("IPython.core.interactiveshell"), "InteractiveShell", None)
    return getattr(cls, "_instance", None)


def cell() -> Optional[int]:
    """The number of the cell that runs, or will run next."""
    return getattr(shell(), "execution_count", None)


def shelves() -> List[Any]:
    """The containers in which it keeps what cells have shown: no variables of the program's."""
    here = shell()
    kept = [getattr(here, name, None) for name in ("user_ns_hidden", "last_execution_result", "displayhook")]
    return [*kept, getattr(getattr(here, "history_manager", None), "output_hist", None)]


__all__ = ["cell", "shell", "shelves"]
