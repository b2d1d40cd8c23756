"""What ``py-spy dump`` prints, also with ``--native``, ``--locals`` and ``--subprocesses``, and ``ray stack``, which runs it on one worker
after the other.
"""

from __future__ import annotations

import re

from .told import VARIABLE, VARIABLES, Book, Line, ToldFrame, ToldProcess, ToldThread

__all__ = ["PySpy"]

_PROCESS = re.compile(r"\s*Process (?P<pid>\d{1,10}): ?(?P<command>.*)")
_PYTHON = re.compile(r"\s*Python v(?P<version>\d+\.\d+(?:\.\w+)?) ?(?:\((?P<program>[^)]*)\))?\s*$")
_PARENT = re.compile(r"\s*Parent Process (?P<pid>\d{1,10})\b")
_THREAD = re.compile(
    r"\s*Thread (?P<id>\d{1,10}|0x[0-9A-Fa-f]{1,16}) \((?P<state>(?:active|idle)(?:\+gil)?)\)(?:: \"(?P<name>.*)\")?\s*$"
)
_FRAME = re.compile(r"\s*(?P<function>\S.*?) \((?P<file>[^()]+(?:\([^()]*\)[^()]*)*):(?P<line>\d{1,9})\)\s*$")
_CALL = re.compile(r"\s*(?P<function>\S.*?) \((?P<file>[^()]+)\)\s*$")
_NATIVE = re.compile(r"\.(?:so(?:\.[\d.]+)?|c|cc|cpp|cxx|cu|h|hpp|S|rs|pyx)$|^\?\?")
_ERROR = re.compile(r"\s*Error: (?P<why>.*\S)")
_OF_AN_ERROR = re.compile(r"\s*(?:Caused by:|Stack backtrace:|\d+: |at \S)")
_HEADING = re.compile(r"\s*Stack dump for (?P<ps>.*)")
_PS = re.compile(
    r"\S+\s+(?P<pid>\d{1,10})\s+[\d.]+\s+[\d.]+\s+\d+\s+\d+\s+\S+\s+(?P<state>[A-Za-z]\S*)\s+\S+\s+\S+\s+(?P<command>.*)"
)
"""A line of ``ps aux``."""


class PySpy:
    """Its own headings say which process, which Python and which thread a frame belongs to."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._process: ToldProcess | None = None
        self._thread: ToldThread | None = None
        self._stopped = 0
        self._variables_indent: int | None = None

    def takes(self, line: Line) -> bool:
        if match := _HEADING.match(line.text):
            row = _PS.match(match["ps"])
            self._stopped = int(row["pid"]) if row is not None and row["state"].startswith("T") else 0
            self._thread = None
            return True
        if match := _PROCESS.match(line.text):
            pid = int(match["pid"])
            self._begin(
                ToldProcess("py-spy", line.number, pid, match["command"].strip()[:4000], stopped=pid == self._stopped)
            )
            return True
        process = self._process
        return process is not None and (
            self._about(process, line) or self._failed(process, line.text) or self._stack(process, line)
        )

    def blank(self) -> None:
        """There is none within a stack: what follows may be a log."""
        self._thread = None

    def end(self) -> None:
        """Nothing is kept back."""

    def _begin(self, process: ToldProcess) -> None:
        self._process, self._thread = self._book.process(process), None

    def _about(self, process: ToldProcess, line: Line) -> bool:
        if match := _PYTHON.match(line.text):
            process.python, process.prefix = match["version"], match["program"] or ""
            return True
        if match := _PARENT.match(line.text):
            process.parent = int(match["pid"])
            return True
        match = _THREAD.match(line.text)
        if match is None:
            return False
        ident, state = match["id"], match["state"]
        tid = int(ident) if ident.isdigit() else None
        self._variables_indent = None
        self._thread = self._book.thread(
            process,
            ToldThread(ident, tid, match["name"] or "", state.startswith("active"), state.endswith("gil")),
        )
        self._thread.main = self._thread.name == "MainThread" or tid == process.pid
        return True

    @staticmethod
    def _failed(process: ToldProcess, text: str) -> bool:
        """Its error, in place of stacks, and what it tells of itself then."""
        if process.threads:
            return False
        if not process.problem and (match := _ERROR.match(text)):
            process.problem = match["why"][:200]
            return True
        return bool(process.problem) and _OF_AN_ERROR.match(text) is not None

    def _stack(self, process: ToldProcess, line: Line) -> bool:
        thread = self._thread
        if thread is None or not line.text.strip():
            return False
        if VARIABLES.match(line.text):
            self._variables_indent = line.indent
            return True
        variable = VARIABLE.match(line.text) if self._variables_indent is not None else None
        if variable is not None and (line.indent > (self._variables_indent or 0) or line.indent == 0):
            thread.variable(variable["name"], variable["value"])
            return True
        return self._frame(thread, line.text)

    def _frame(self, thread: ToldThread, text: str) -> bool:
        if match := _FRAME.match(text):
            self._variables_indent = None
            if _NATIVE.search(match["file"]):
                thread.call(match["function"])
            else:
                thread.add(ToldFrame(match["file"], int(match["line"]), match["function"]))
            return True
        if (match := _CALL.match(text)) and _NATIVE.search(match["file"]):
            thread.call(match["function"])
            return True
        return False
