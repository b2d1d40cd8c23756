"""The notebook that this process is the kernel of, if it is. IPython is not imported: where nobody else did, there is none."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["NOTHING", "in_notebook", "shell"]

NOTHING = {"text/plain": "", "text/html": ""}
"""An output that takes no line, in a notebook and in what is made of it (of text alone an empty line would be left)."""


def shell() -> Any:
    """The running IPython shell, a kernel's or a terminal's; None where there is none."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def in_notebook() -> bool:
    """Whether that is a kernel's."""
    return getattr(shell(), "kernel", None) is not None
