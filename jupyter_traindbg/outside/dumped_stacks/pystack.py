"""What ``pystack remote`` and ``pystack core`` print: the outermost frame first, with the source line below each."""

from __future__ import annotations

import re

from .told import VARIABLE, VARIABLES, Book, Line, ToldFrame, ToldProcess, ToldThread

__all__ = ["Pystack"]

_THREAD = re.compile(
    r"\s*Traceback for thread (?P<tid>\d{1,10})(?: \((?P<name>[^)]*)\))?(?: \[(?P<state>[^\]]*)\])?.*\(most recent call last\):\s*$"
)
_FRAME = re.compile(
    r'\s*\((?P<kind>Python|C)\) File "(?P<file>[^"]*)", line (?P<line>\d{1,9}), in (?P<function>.*?)\s*$'
)
_ALREADY = re.compile(r"\s*(?:The frame stack for|<.*frames? not shown)")
_PID = re.compile(r"\bpid: (?P<pid>\d{1,10})\b")
_LIBRARY = re.compile(r" \([^()]*\.(?:so[\d.]*|[^()/]*python[\d.]*)\)$| \(inlined\)")


class Pystack:
    """One heading a thread and none a process: a process ends where its main thread does, or one of its threads comes again."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._process: ToldProcess | None = None
        self._thread: ToldThread | None = None
        self._pid = 0
        self._calls: list[str] = []
        self._in_variables = False
        self._quotes = False

    def takes(self, line: Line) -> bool:
        if match := _THREAD.match(line.text):
            self._begin(match, line.number)
            return True
        if self._thread is None:
            pid = _PID.search(line.text) if "ppid" in line.text else None
            self._pid = int(pid["pid"]) if pid is not None else self._pid
            return pid is not None
        return self._within(self._thread, line)

    def blank(self) -> None:
        """Dumps have such lines between threads."""

    def end(self) -> None:
        """The last thread is whole."""
        thread = self._thread
        if thread is None:
            return
        thread.turn()
        thread.calls = list(reversed(self._calls))[:64]
        self._thread = None
        self._calls = []
        process = self._process
        if process is not None and thread.frames and thread.frames[-1].function == "<module>":
            thread.main = True
            process.pid = process.pid or thread.tid or 0
            self._process, self._pid = None, 0

    def _begin(self, match: re.Match[str], number: int) -> None:
        self.end()
        if self._process is None or any(t.ident == match["tid"] for t in self._process.threads):
            self._process = self._book.process(ToldProcess("pystack", number, self._pid))
        state = (match["state"] or "").lower()
        thread = ToldThread(match["tid"], int(match["tid"]), match["name"] or "", holds_gil="has the gil" in state)
        thread.wants_gil = "waiting for the gil" in state
        thread.main = thread.tid == self._process.pid
        self._thread = self._book.thread(self._process, thread)
        self._in_variables = self._quotes = False

    def _within(self, thread: ToldThread, line: Line) -> bool:
        if match := _FRAME.match(line.text):
            self._in_variables = False
            self._quotes = match["kind"] == "Python"
            if self._quotes:
                self._calls = []
                thread.add(ToldFrame(match["file"], int(match["line"]), match["function"]))
            elif len(self._calls) < 256:
                self._calls.append(_LIBRARY.sub("", match["function"])[:400])
            return True
        if VARIABLES.match(line.text):
            self._in_variables, self._quotes = True, False
            return True
        return self._detail(thread, line.text)

    def _detail(self, thread: ToldThread, text: str) -> bool:
        """The line of source below a frame, or one of its variables."""
        if self._in_variables and (match := VARIABLE.match(text)):
            thread.variable(match["name"], match["value"])
            return True
        if self._quotes and thread.quote(text):
            self._quotes = False
            return True
        return False
