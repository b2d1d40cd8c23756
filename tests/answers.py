"""What the first line of a result says, for the tests of the answers."""

from __future__ import annotations

from jupyter_traindbg import render
from jupyter_traindbg.model import Result


def answer(result: Result) -> str:
    """The first line, with its symbol and all that is said about it."""
    return render.text(result, 400).splitlines()[0]


def words(result: Result) -> str:
    return answer(result).split(" · ")[0]
