"""What gdb prints for ``py-bt``, alone or by ``thread apply all``, and for the Python frames within a ``bt`` of an older Python."""

from __future__ import annotations

import re

from .told import Book, Line, ToldFrame, ToldProcess, ToldThread

__all__ = ["Gdb"]

_THREAD = re.compile(
    r"\s*Thread (?P<number>\d{1,6}) \((?:Thread (?P<id>0x[0-9a-f]{1,16}) )?\(?LWP (?P<tid>\d{1,10})\)?"
    r"(?: \"(?P<name>[^\"]*)\")?\)(?:.*):?\s*$"
)
_TRACEBACK = re.compile(r"\s*Traceback \(most recent call first\):\s*$")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]*)", line (?P<line>\d{1,9}), in (?P<function>.*?)\s*$')
_C_FRAME = re.compile(r"\s*#\d{1,5}\s+(?:0x[0-9a-f]+ in )?(?P<function>[\w:~<>., ]+?) \(")
_WITHIN = re.compile(r"Frame 0x[0-9a-f]+, for file (?P<file>.+?), line (?P<line>\d{1,9}), in (?P<function>[\w<>.]+) \(")
_BUILT_IN = re.compile(r"\s*<built-in (?:method|function) (?P<name>\w+)(?: of (?:module|(?P<type>[\w.]+)))?")
_PID = re.compile(
    r"\[Inferior \d+ \(process (?P<pid>\d{1,10})\)|Attaching to (?:process|program: .*, process) (?P<other>\d{1,10})"
)
_WAITING = re.compile(r"\s*(?:Waiting for the GIL|Garbage-collecting)\s*$")


class Gdb:
    """gdb counts threads from the main one on, and shows the last one first; which process it is may stand at the end only."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._process: ToldProcess | None = None
        self._thread: ToldThread | None = None
        self._headed = False
        self._quotes = False

    def takes(self, line: Line) -> bool:
        if match := _PID.search(line.text):
            return self._named(int(match["pid"] or match["other"]), at_the_end=match["pid"] is not None)
        if match := _THREAD.match(line.text):
            self._begin(match, line.number)
            return True
        if _TRACEBACK.match(line.text):
            if not self._headed:
                self._alone(line.number)
            self._headed = False
            return True
        return self._thread is not None and self._within(self._thread, line.text)

    def blank(self) -> None:
        """Dumps have such lines between threads."""

    def end(self) -> None:
        self._close()

    def _named(self, pid: int, *, at_the_end: bool) -> bool:
        if self._process is None:
            return False
        if at_the_end:
            self._process.pid = pid
            self._close()
        return True

    def _begin(self, match: re.Match[str], number: int) -> None:
        process = self._process
        if (
            process is None
            or any(t.ident == match["tid"] for t in process.threads)
            or any(t.main for t in process.threads)
        ):
            self._close()
            process = self._process = self._book.process(ToldProcess("gdb", number))
        name = match["name"] or ""
        self._thread = self._book.thread(process, ToldThread(match["tid"], int(match["tid"]), name))
        self._thread.main = match["number"] == "1"
        if self._thread.main:
            process.pid = int(match["tid"])
        self._headed, self._quotes = True, False

    def _alone(self, number: int) -> None:
        """``py-bt`` without a thread's heading: the thread that gdb stands in, which is the main one as a rule."""
        self._close()
        self._process = self._book.process(ToldProcess("gdb", number))
        self._thread = self._book.thread(self._process, ToldThread("1", name="MainThread", main=True))

    def _within(self, thread: ToldThread, text: str) -> bool:
        if match := _FRAME.match(text) or _WITHIN.search(text):
            thread.add(ToldFrame(match["file"], int(match["line"]), match["function"]))
            self._quotes = True
            return True
        if (match := _BUILT_IN.match(text)) or (match := _C_FRAME.match(text)):
            kind = match["type"] if "type" in match.groupdict() else None
            name = match["name"] if "name" in match.groupdict() else match["function"]
            thread.call(f"{kind}.{name}" if kind else name)
            return True
        if _WAITING.match(text):
            thread.wants_gil = thread.wants_gil or "GIL" in text
            return True
        if self._quotes and thread.quote(text):
            self._quotes = False
            return True
        return False

    def _close(self) -> None:
        process, self._process, self._thread = self._process, None, None
        if process is None or not process.threads or any(t.main for t in process.threads):
            return
        main = next(
            (t for t in process.threads if t.frames and t.frames[-1].function == "<module>"), process.threads[-1]
        )
        main.main = True
