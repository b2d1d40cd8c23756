"""Whose code a printed exception was raised in, and whether Python itself let it pass."""

from __future__ import annotations

import re
from collections.abc import Set

from ...model import LogError, LogEvidence, LogFrame

__all__ = ["Place", "in_program", "inner_user_frame", "is_installed", "unraisable"]

_INSTALLED = re.compile(
    r"site-packages|dist-packages|<frozen|<string>|<unknown>|[/\\]python3[\d.]*[/\\]|python/ray/|_raylet\.pyx"
    r"|[/\\]torch[/\\](?:nn|distributed|autograd|_)|(?i:[/\\]lib[/\\](?:multiprocessing|importlib|concurrent|asyncio|\w+\.py))"
)
"""Files of packages and of Python itself, also on Windows."""
_UNRAISABLE = ("Exception ignored in", "Error in atexit", "Error in sys.excepthook", "Exception ignored on")
_RAY_ENDS_IT = "SystemExit was raised from the worker"
_MAIN = ("<module>", "_run_module_as_main")

Place = tuple[int, int]
"""The source and the number of a line."""


def is_installed(file: str) -> bool:
    """Whether `file` is of a package or of Python, not of the person's own code."""
    return bool(_INSTALLED.search(file))


def inner_user_frame(error: LogError) -> LogFrame | None:
    """The innermost frame that is not of an installed package; the innermost at all where there is no other."""
    own = [f for f in error.frames if not is_installed(f.file)]
    return own[-1] if own else error.frames[-1] if error.frames else None


def in_program(error: LogError) -> bool:
    """Whether it went through the person's own code or a program's main module: a library's own processes and threads have neither."""
    return any(not is_installed(f.file) or _is_main(f) for link in error.chain() for f in link.frames)


def _is_main(frame: LogFrame) -> bool:
    return frame.function in _MAIN and frame.file != "<string>"  # by which multiprocessing starts its children


def unraisable(evidence: LogEvidence) -> Set[Place]:
    """The lines of exceptions that Python printed because it could not raise them: at exit, from a destructor. They end nothing."""
    said = {
        (x.source, x.number)
        for x in evidence.lines
        if x.text.lstrip().startswith(_UNRAISABLE) or _RAY_ENDS_IT in x.text
    }
    return {
        (e.line.source, number)
        for e in evidence.errors
        if any((e.line.source, e.line.number - n) in said for n in range(3))
        for number in range(e.line.number, e.last_number + 1)
    }
