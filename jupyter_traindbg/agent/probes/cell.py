"""The source of code that is in no file: a notebook's cell, as the interpreter keeps it for tracebacks."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Dict, Optional

if TYPE_CHECKING:
    from ..core import Agent

COST = "microseconds"
LONGEST = 2**18


def run(agent: Agent, file: str = "") -> Dict[str, Optional[str]]:
    """Only what was put there by who compiled it: of a file on disk the entry may be newer than the code that runs."""
    entry = linecache.cache.get(file)
    if entry is None or len(entry) != 4 or entry[1] is not None:
        return {"text": None}
    text = "".join(entry[2])
    return {"text": text if len(text) <= LONGEST else None}
