"""What IPython tells of itself, where this process is one of its kernels. Imports nothing of it."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple


def shell() -> Optional[Any]:
    """Its one shell; None where this process is not IPython's."""
    cls = getattr(sys.modules.get("IPython.core.interactiveshell"), "InteractiveShell", None)
    return getattr(cls, "_instance", None)


def cell() -> Optional[int]:
    """The number of the cell that runs, or will run next."""
    return getattr(shell(), "execution_count", None)


def cells() -> Dict[str, int]:
    """The numbers of the cells that have run, by the names that their frames have as files; empty where IPython (before 8) keeps none."""
    known = getattr(getattr(shell(), "compile", None), "_filename_map", None)
    return known if isinstance(known, dict) else {}


def numbered(file: str, line: int, function: str, numbers: Dict[str, int]) -> Tuple[Any, ...]:
    """A frame as agents tell it: of a cell with its number from `cells`, behind the function."""
    number = numbers.get(file)
    return (file, line, function) if number is None else (file, line, function, number)


def shelves() -> List[Any]:
    """The containers in which it keeps what cells have shown: no variables of the program's."""
    here = shell()
    kept = [getattr(here, name, None) for name in ("user_ns_hidden", "last_execution_result", "displayhook")]
    return [*kept, getattr(getattr(here, "history_manager", None), "output_hist", None)]


__all__ = ["cell", "cells", "numbered", "shell", "shelves"]
