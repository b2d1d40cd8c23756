"""The exceptions in a log, with their frames and chains: tracebacks of Python, Ray, IPython and rich, last words of faulthandler and C++.

The lines of each writer are read by themselves, so that two ranks whose tracebacks are mixed line by line give two errors.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...model import LogError, LogFrame, LogLine
from .frames import frame_at, header_of, starts_frames

__all__ = ["errors"]

_MOST_ERRORS = 2000
_MESSAGE_LINES = 40
_MESSAGE = 8000
_BETWEEN = 6
"""Lines of standard output within a traceback."""
_GAP = 12
"""A hole of so many lines in what was kept ends a traceback."""

_TYPE = (
    r"(?:[A-Za-z_][\w<>]*\.)*"
    r"(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure|Warning|Timeout)|KeyboardInterrupt|SystemExit|StopIteration|[A-Za-z_]\w*Error)"
)
_LAST = re.compile(
    rf"^(?!(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL):)(?P<type>{_TYPE}|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Z]\w+)(?P<of>\([\w.]+\))?(?::\s?(?P<message>.*)|\s*)$"
)
"""The line after the frames: any name will do, since a program's own exceptions need not be called errors."""
_NAMED = re.compile(rf"^{_TYPE}(?::\s|$)")
_BARE = re.compile(rf"(?:^|[\s`'\"(\[|>])(?P<type>(?!nccl){_TYPE})(?P<of>\([\w.]+\))?: (?P<message>.*)$")
_ALONE = re.compile(
    r"^\W{0,4}(?P<type>KeyboardInterrupt|AssertionError|torch\.OutOfMemoryError|MemoryError)(?P<of>)(?P<message>)\W{0,3}$"
)
_LINKS = (
    ("direct cause of the following exception", "cause"),
    ("another exception occurred", "context"),
)
_REMOTE_HEAD = re.compile(
    r"^\s*(?P<task>ray::[\w.:<>\[\]-]+\(?\)?)(?: \((?:pid=(?P<pid>\d+))?(?:, ip=(?P<ip>[\w.:]+))?[^)]*\))?"
)
_WITHIN = re.compile(
    r"Original Traceback \(most recent call last\)|^\s*-- Process (?P<rank>\d+) terminated with the following error"
)
_NAMED_FIRST = re.compile(rf"^(?P<type>{_TYPE})\s{{2,}}Traceback \(most recent call last\)")
"""IPython names the exception above its frames as well."""
_FATAL = re.compile(r"Fatal Python error: (?P<message>.*)$")
_CPP = re.compile(r"terminate called after throwing an instance of '(?P<type>[^']+)'")
_WHAT = re.compile(r"^\s*what\(\):\s*(?P<message>.*)$")
_NEW_RECORD = re.compile(
    r"^\W{0,2}(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|[IWEF]\d{4} |(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b)"
    r"|it/s|s/it|^\{'|^srun:|^wandb:|^Traceback |^Process [\w-]+:$|^Exception (?:in thread|ignored)|^Fatal Python|^terminate called"
)


@dataclass
class _Reader:
    """Reads one writer's lines from the top; every method takes the index of a line and gives that of the first it did not use."""

    lines: Sequence[LogLine]
    texts: list[str]

    def read(self) -> Iterator[LogError]:
        at, previous, link, end = 0, None, "", 0
        while at < len(self.lines):
            text = self.texts[at]
            told = next((kind for words, kind in _LINKS if words in text), None)
            if told is not None:
                link, end = told, at
                at += 1
                continue
            found, following = self._error(at)
            if found is None:
                at += 1
                continue
            if previous is not None:
                if link and at - end <= 4:
                    found = _attach(found, previous, link)
                else:
                    yield previous
            previous, link, at = found, "", max(following, at + 1)
        if previous is not None:
            yield previous

    def _error(self, at: int) -> tuple[LogError | None, int]:
        text = self.texts[at]
        if starts_frames(text) or (_REMOTE_HEAD.match(text) and self._frame_next(at + 1)):
            return self._traceback(at)
        if match := _FATAL.search(text):
            frames, end = self._frames(at + 1, blank=3)
            return self._made("Fatal Python error", match["message"], frames[::-1], at, end), end
        if match := _CPP.search(text):
            return self._cpp(match["type"], at)
        for form in (_BARE, _ALONE):
            if (match := form.search(text)) and not match["type"].endswith(("Warning", "Exit")):
                return self._with_message(match, (), at, at)
        return None, at + 1

    def _traceback(self, start: int) -> tuple[LogError | None, int]:
        frames, at = self._frames(start)
        if frames:
            at = self._interrupted(at, lambda n: _NAMED.match(self.texts[n]) is not None) or at
        if at < len(self.lines) and (match := _LAST.match(self.texts[at].strip(" `│|"))):
            return self._with_message(match, frames, start, at)
        if not frames:
            return None, start + 1
        named = _NAMED_FIRST.match(self.texts[start])
        by_hand = "KeyboardInterrupt" if self.lines[start].text.startswith("^C") else ""  # what the terminal echoes
        return self._made(named["type"] if named else by_hand, "", frames, start, at), at

    def _frames(self, start: int, blank: int = 0) -> tuple[list[LogFrame], int]:
        """The frames from here on, and where what is no frame begins. `blank`: lines of other words that may lie between."""
        frames: list[LogFrame] = []
        at, others = start, 0
        while at < len(self.lines):
            if (
                at > start
                and self.lines[at].number - self.lines[at - 1].number > _GAP
                and not self.texts[at].startswith("  ")
            ):
                break
            found = frame_at(self.texts, at)
            if found is not None:
                frame, at = found
                if frame is not None:
                    frames.append(frame)
                others = 0
            elif frames and (again := self._interrupted(at, lambda n: self.texts[n].startswith('  File "'))):
                at = again
            elif not frames and others <= blank and (at == start or others < blank or starts_frames(self.texts[at])):
                at, others = at + 1, others + 1
            else:
                break
        return frames, at

    def _interrupted(self, at: int, goes_on: Callable[[int], bool]) -> int:
        """Where a traceback goes on after `at`, if other words lie between; else 0. torchrun relays output and errors of a rank apart."""
        for ahead in range(at, min(at + _BETWEEN + 1, len(self.lines))):
            if self.lines[ahead].number - self.lines[max(at - 1, 0)].number > 2 * _GAP:
                return 0
            if ahead > at and goes_on(ahead):
                return ahead
            if starts_frames(self.texts[ahead]) or _LAST.match(self.texts[ahead].strip()):
                return 0
        return 0

    def _with_message(
        self, match: re.Match[str], frames: Sequence[LogFrame], start: int, at: int
    ) -> tuple[LogError, int]:
        """An exception whose type was found in line `at`: with the rest of its message, and what it quotes of another process."""
        kind, message = match["type"] + (match["of"] or ""), match["message"] or ""
        if _REMOTE_HEAD.match(message):
            inner, end = self._remote(message, at + 1, at)
            return self._made(kind, message, frames, start, end, inner), end
        words, end = [message], at + 1
        inner = None
        if match["message"] is None or not (message or self._continues(end)):
            return self._made(kind, "", frames, start, end), end
        while end < len(self.lines) and len(words) < _MESSAGE_LINES:
            text = self.texts[end]
            if found := _WITHIN.search(text):
                inner, end = self._quoted(found, end)
                break
            if not self._goes_on(end):
                break
            words.append(text)
            end += 1
        return self._made(kind, "\n".join(words).strip(), frames, start, end, inner), end

    def _quoted(self, found: re.Match[str], at: int) -> tuple[LogError | None, int]:
        """The traceback of a worker process, within the message of the error that tells of it."""
        first = at + 1 if found["rank"] is not None or not self._frame_next(at + 1) else at
        inner, end = self._error(first) if first < len(self.lines) else (None, first)
        if inner is not None and found["rank"] is not None:
            rank = int(found["rank"])
            inner = dataclasses.replace(inner, line=dataclasses.replace(inner.line, rank=rank, who=f"rank {rank}"))
        return inner, end

    def _remote(self, head: str, start: int, head_at: int) -> tuple[LogError | None, int]:
        """What Ray prints after ``RayTaskError: ray::f() (pid=.., ip=..)``: the frames and the exception of the other process."""
        if not self._frame_next(start):
            return None, start
        inner, end = self._traceback(start)
        match = _REMOTE_HEAD.match(head)
        if inner is None or match is None:
            return inner, end
        pid, ip = match["pid"], match["ip"]
        who = match["task"].removeprefix("ray::") + (f" pid {pid}" if pid else "") + (f" on {ip}" if ip else "")
        return dataclasses.replace(inner, line=dataclasses.replace(inner.line, who=who)), end

    def _cpp(self, kind: str, at: int) -> tuple[LogError, int]:
        end = at + 1
        words: list[str] = []
        if end < len(self.lines) and (what := _WHAT.match(self.texts[end])):
            words, end = [what["message"]], end + 1
            while end < len(self.lines) and len(words) < _MESSAGE_LINES and self._goes_on(end):
                words.append(self.texts[end])
                end += 1
        return self._made(kind, "\n".join(words), (), at, end), end

    def _frame_next(self, at: int) -> bool:
        return at < len(self.lines) and frame_at(self.texts, at) is not None

    def _continues(self, at: int) -> bool:
        """Whether line `at` is the message of an exception that was printed with nothing behind its colon."""
        text = self.texts[at] if at < len(self.texts) else ""
        return text.startswith((" ", "\t", "=")) or not text.strip() or _WITHIN.search(text) is not None

    def _goes_on(self, at: int) -> bool:
        """Whether line `at` belongs to the message that the line before it does."""
        text = self.texts[at]
        if self.lines[at].number - self.lines[at - 1].number > _GAP or _NEW_RECORD.search(text) or starts_frames(text):
            return False
        if any(words in text for words, _ in _LINKS) or _BARE.match(text) or text.startswith("ray::"):
            return False
        if text.strip():
            return True
        following = self.texts[at + 1] if at + 1 < len(self.texts) else ""
        return (following.startswith(("\t", "  ")) and not starts_frames(following)) or bool(_WITHIN.search(following))

    def _made(  # noqa: PLR0917 - its parts are those of a LogError
        self,
        kind: str,
        message: str,
        frames: Sequence[LogFrame],
        start: int,
        end: int,
        inner: LogError | None = None,
    ) -> LogError:
        last = self.lines[min(max(end - 1, start), len(self.lines) - 1)].number
        return LogError(
            kind, message[:_MESSAGE], tuple(frames), self.lines[start], last, inner, "remote" if inner else ""
        )


def errors(lines: Sequence[LogLine]) -> list[LogError]:
    """The exceptions in the lines of one source, in order, 2,000 at most; each is the outermost of its chain.

    `type` is empty where a traceback is cut off before it names one.
    """
    streams: dict[tuple[int | None, str], list[LogLine]] = {}
    nobodys = streams.setdefault((None, ""), [])
    for line in lines:
        ends_it = line.who and nobodys and _ends_frames(nobodys[-1], line)
        (nobodys if ends_it else streams.setdefault((line.rank, line.who), [])).append(line)
    found: list[LogError] = []
    for stream in streams.values():
        found.extend(_Reader(stream, _bodies(stream)).read())
    found.sort(key=lambda e: e.line.number)
    if len(found) > _MOST_ERRORS:
        found = [*found[: _MOST_ERRORS // 2], *found[-_MOST_ERRORS // 2 :]]
    return found


def _ends_frames(last: LogLine, line: LogLine) -> bool:
    """Whether `line` is the exception of the frames above it: one that names a rank in its message was written by who wrote them."""
    return line.number == last.number + 1 and last.text.startswith("    ") and _LAST.match(line.text) is not None


def _bodies(lines: Sequence[LogLine]) -> list[str]:
    """The lines without what a logger puts before each line of a traceback (vLLM does: level, time, file), which has a constant shape."""
    bodies = []
    shape = ""
    for line in lines:
        text = line.text
        header = header_of(text)
        if header:
            shape = _shape(header)
            text = text[len(header) :]
        elif shape:
            if _shape(text[: len(shape)]) == shape:
                text = text[len(shape) :]
            else:
                shape = ""
        bodies.append(text)
    return bodies


def _shape(header: str) -> str:
    return re.sub(r"\d", "0", header)


def _attach(outer: LogError, inner: LogError, link: str) -> LogError:
    """`outer` with `inner` at the end of its chain."""
    if outer.inner is not None:
        return dataclasses.replace(outer, inner=_attach(outer.inner, inner, link))
    return dataclasses.replace(outer, inner=inner, link="cause" if link == "cause" else "context")
