"""What is known about the environment variables of training: a row each, with the place where it was checked. Finding a row.

Adding one is a table in a file of variables/ (`reading` says how); `Variable.source` says where to look. The names of NCCL's were gathered
from the sources of its releases 2.3 to 2.30, those of PyTorch's are compared with the installed PyTorch by the tests. Families
(``"SLURM_*"``) only say whose they are.
"""

from __future__ import annotations

import difflib

from .reading import variables
from .variable import Variable

__all__ = ["Variable", "find", "meant", "variables"]

CLOSE = 0.86
"""Names that are more alike than this (as `difflib` has it) are taken for misspellings of each other."""
OURS = (
    "NCCL_",
    "TORCH_NCCL_",
    "TORCH_FR_",
    "TORCH_GLOO_",
    "TORCH_DIST",
    "GLOO_",
    "MASTER_",
    "TORCHELASTIC_",
    "PYTORCH_",
)
"""Prefixes whose names belong to the readers in our table: an unknown one that resembles a known one is a misspelling."""


def find(name: str) -> Variable | None:
    """The row of `name`, else that of the family it belongs to (``"ACCELERATE_*"``), else None."""
    known = variables()
    if name in known:
        return known[name]
    families = [row for row in known.values() if row.name.endswith("*") and name.startswith(row.name[:-1])]
    return max(families, key=lambda row: len(row.name), default=None)


def meant(name: str) -> str | None:
    """The variable that `name`, which nobody reads, is probably a misspelling of."""
    if not name.startswith(OURS):
        return None
    known = [row.name for row in variables().values() if row.status == "real" and not row.name.endswith("*")]
    close = difflib.get_close_matches(name, known, n=1, cutoff=CLOSE)
    return close[0] if close else None
