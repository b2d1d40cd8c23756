"""One frame of a traceback, in the forms of Python, IPython, faulthandler and rich. Pure functions on text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...model import LogFrame

__all__ = ["frame_at", "header_of", "starts_frames"]

_HEADER = re.compile(r"Traceback \(most recent call last\)|[Tt]hread 0x\w+ .*\(most recent call first\)")
_PYTHON = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>.{0,300}?))?\s*$')
_TORN = re.compile(r'^\s*File "[^"]*$|^\s*File "[^"]+",?\s*$')
_NO_FILE = re.compile(r'^\s*[^"\s][^"]*\.py", line (?P<line>\d+), in (?P<function>\S.*)$')
_IPYTHON = re.compile(
    r"^(?:File )?(?P<file>[\w./~<>-]+\.py|<ipython-input-[\w-]+>):?(?P<line>\d+)?,? in (?P<function>\S.*?)\s*$"
)
_CELL = re.compile(r"^(?:Cell )?In ?\[(?P<cell>\d+)\], (?:line (?P<line>\d+)|in .*)\s*$")
_ARROW = re.compile(r"^-+>\s*(?P<line>\d+)\s(?P<code>.*)$")
_LISTING = re.compile(r"^\s{0,8}\d+(?:\s.*)?$|^\s*\.\.\.\s*$")
_RICH = re.compile(r"^\s*[│|]\s(?P<file>[\w./~<>-]+):(?P<line>\d+) in (?P<function>[\w.<>]+)")
_RICH_REST = re.compile(r"^\s*[│╭╰|]")
_RICH_CODE = re.compile(r"^\s*[│|]\s*❱\s*\d+\s*[│|]?\s*(?P<code>.*?)\s*[│|]?\s*$")
_MARKS = re.compile(r"^[\s~^]*[~^][\s~^]*$")
_REPEATED = re.compile(r"^\s*\[Previous line repeated \d+ more times?\]")
_SKIPPED = re.compile(
    r"^\s*(?:\.\.\. ?)?(?:<?\d+ (?:frames? (?:hidden|omitted)|lines? omitted).*|\[\.\.\. skipping .*)$"
)


def starts_frames(text: str) -> bool:
    """Whether a traceback starts here, or goes on after its head was cut off."""
    return _HEADER.search(text) is not None or _PYTHON.match(text) is not None or _CELL.match(text) is not None


def header_of(text: str) -> str:
    """What stands before a traceback's head or frame in a line: a logger's level, time and place."""
    mark = text.find("Traceback (most recent call last)")
    if mark < 0:
        mark = text.find('  File "')
    before = text[:mark] if 0 < mark <= 160 else ""
    return (
        before
        if before.strip(" │|╭─+>-*`") and not re.search(r"Error\s*$|Exception\s*$|Original |Group ", before)
        else ""
    )


def frame_at(texts: Sequence[str], at: int) -> tuple[LogFrame | None, int] | None:
    """The frame at line `at` and where it ends; (None, end) for another line of a traceback; None where it is over."""
    text = texts[at]
    if match := _PYTHON.match(text) or _NO_FILE.match(text):
        return _python(match, texts, at)
    if _TORN.match(text) and at + 1 < len(texts):  # wrapped by a terminal
        joined = f"{text.rstrip()} {texts[at + 1].strip()}"
        match = _PYTHON.match(joined) or _PYTHON.match(f"{text.rstrip()}{texts[at + 1].strip()}")
        return None if match is None else _python(match, texts, at + 1)
    if match := _IPYTHON.match(text) or _CELL.match(text):
        return _notebook(match, texts, at)
    if match := _RICH.match(text):
        return _rich(match, texts, at)
    if _HEADER.search(text) or _RICH_REST.match(text) or _REPEATED.match(text) or _SKIPPED.match(text):
        return None, at + 1
    return None


def _python(match: re.Match[str], texts: Sequence[str], at: int) -> tuple[LogFrame, int]:
    """The frame, its line of code where it was printed, and the marks below it."""
    seen = match.groupdict()
    indent = len(texts[at]) - len(texts[at].lstrip())
    end, code = at + 1, ""
    while end < len(texts):
        text = texts[end]
        deeper = len(text) - len(text.lstrip()) > indent and bool(text.strip())
        if _PYTHON.match(text) or not (deeper or _MARKS.match(text)):
            break
        if not code and not _MARKS.match(text):
            code = text.strip()
        end += 1
    return LogFrame(seen.get("file") or "", int(seen["line"]), seen.get("function") or "", code[:300]), end


def _notebook(match: re.Match[str], texts: Sequence[str], at: int) -> tuple[LogFrame, int]:
    """IPython's: the arrow points at the line."""
    seen = match.groupdict()
    line, code, end = int(seen.get("line") or 0), "", at + 1
    while end < len(texts) and (not texts[end].strip() or _LISTING.match(texts[end]) or _ARROW.match(texts[end])):
        if arrow := _ARROW.match(texts[end]):
            line, code = line or int(arrow["line"]), arrow["code"].strip()
        elif not texts[end].strip() and end + 1 < len(texts) and not _LISTING.match(texts[end + 1]):
            end += 1
            break
        end += 1
    file = seen.get("file") or f"Cell In[{seen.get('cell')}]"
    return LogFrame(file, line, seen.get("function") or "<module>", code[:300]), end


def _rich(match: re.Match[str], texts: Sequence[str], at: int) -> tuple[LogFrame, int]:
    end, code = at + 1, ""
    while end < len(texts) and _RICH_REST.match(texts[end]) and not _RICH.match(texts[end]):
        if found := _RICH_CODE.match(texts[end]):
            code = found["code"]
        end += 1
    return LogFrame(match["file"], int(match["line"]), match["function"], code[:300]), end
