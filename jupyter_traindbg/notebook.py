"""The notebook that this process is the kernel of, if it is. IPython is not imported: where nobody else did, there is none."""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["NOTHING", "VARIABLE", "folder", "in_colab", "in_notebook", "in_vscode", "shell"]

NOTHING = {"text/plain": "", "text/html": ""}
"""An output that takes no line, in a notebook and in what is made of it (of text alone an empty line would be left)."""


VARIABLE = "JPY_SESSION_NAME"
"""What Jupyter's server sets in the environment of a kernel: the path of the notebook that it is started for."""


def shell() -> Any:
    """The running IPython shell, a kernel's or a terminal's; None where there is none."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def in_notebook() -> bool:
    """Whether that is a kernel's."""
    return getattr(shell(), "kernel", None) is not None


def in_colab() -> bool:
    """Whether Google Colab shows it, where each output is a page of its own and there are no files to open."""
    return "google.colab" in sys.modules


def in_vscode() -> bool:
    """Whether VS Code does: its Jupyter extension puts the notebook's name among the user's variables."""
    return "__vsc_ipynb_file__" in getattr(shell(), "user_ns", {})


def folder() -> str | None:
    """The directory of the notebook, as its server tells the kernel; None where it does not, or not in full."""
    path = os.environ.get(VARIABLE, "")
    return os.path.dirname(path) if os.path.isabs(path) else None
