"""What the first line of a result says, and single ones of its tables, for the tests of what is shown."""

from __future__ import annotations

import re

from jupyter_traindbg import render
from jupyter_traindbg.model import Result


def answer(result: Result) -> str:
    """The first line, with its symbol and all that is said about it."""
    return render.text(result, 400).splitlines()[0]


def words(result: Result) -> str:
    return answer(result).split(" · ")[0]


def row(words: str, start: str) -> str:
    """The line of a table that begins with `start`, its columns apart by one space."""
    (line,) = [line for line in words.splitlines() if line.startswith(start)]
    return re.sub(r"\s+", " ", line)
