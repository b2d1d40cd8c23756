"""What Python's `faulthandler` prints: on a signal, after a time, or from the program itself. What it prints in a crash belongs to
the log of that.

It names neither process nor main thread. The main one comes last, as it was made first; from Python 3.14 on threads have their names.
"""

from __future__ import annotations

import re

from .told import Book, Line, ToldFrame, ToldProcess, ToldThread

__all__ = ["Faulthandler"]

_THREAD = re.compile(
    r"\s*(?P<which>Current thread|Thread) (?P<id>0x[0-9a-fA-F]{1,16})(?: \[(?P<name>.*)\])? \(most recent call first\):\s*$"
)
_TIMEOUT = re.compile(r"\s*Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!")
_CRASH = re.compile(r"\s*Fatal Python error: ")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]*)", line (?P<line>\d{1,9}|\?\?\?) in (?P<function>.*?)\s*$')
_OTHER = re.compile(r"\s*(?:<no Python frame>|<invalid frame>|<freed .*>|\.\.\.|Garbage-collecting)\s*$")
_C_STACK = re.compile(r"\s*(?:Current thread's C stack trace|Stack \(most recent call first\))")
_BINARY = re.compile(r'\s*Binary file "[^"]*"')
_MAINS = ("<module>", "_run_module_as_main", "_shutdown")


class Faulthandler:
    """A dump ends behind the main thread, or where one of its threads comes again."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._process: ToldProcess | None = None
        self._thread: ToldThread | None = None
        self._crashed = False

    def takes(self, line: Line) -> bool:
        if _TIMEOUT.match(line.text) or _CRASH.match(line.text):
            self._close()
            self._crashed = _CRASH.match(line.text) is not None
            return not self._crashed
        if self._crashed:
            return False
        if match := _THREAD.match(line.text):
            self._begin(match, line.number)
            return True
        if self._thread is None:
            return False
        if match := _FRAME.match(line.text):
            number = int(match["line"]) if match["line"].isdigit() else 0
            self._thread.add(ToldFrame(match["file"], number, match["function"]))
            return True
        return bool(_OTHER.match(line.text) or _C_STACK.match(line.text) or _BINARY.match(line.text))

    def blank(self) -> None:
        """Dumps have such lines between threads."""

    def end(self) -> None:
        self._close()

    def _begin(self, match: re.Match[str], number: int) -> None:
        ident = match["id"].lower()
        process = self._process
        if process is not None and (_is_main(self._thread) or any(t.ident == ident for t in process.threads)):
            self._close()
        if self._process is None:
            self._process = self._book.process(ToldProcess("faulthandler", number))
        self._thread = self._book.thread(self._process, ToldThread(ident, name=match["name"] or ""))

    def _close(self) -> None:
        """The last thread is the main one, where none shows it by its beginning."""
        process, self._process, self._thread = self._process, None, None
        if process is None or not process.threads:
            return
        main = next((t for t in process.threads if _is_main(t)), process.threads[-1])
        main.main = True
        if not main.name or not process.python:
            main.name = main.name or "MainThread"


def _is_main(thread: ToldThread | None) -> bool:
    return thread is not None and bool(thread.frames) and thread.frames[-1].function in _MAINS
