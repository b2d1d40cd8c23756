"""What ``py-spy dump --json`` prints: a list of threads. Several in one text are several looks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .told import Book, ToldFrame, ToldProcess, ToldThread

__all__ = ["read"]

_BEGINS = re.compile(r'\[\s*\{\s*"(?:pid|thread_id|thread_name|os_thread_id|active|owns_gil|frames)"\s*:')
_MOST_TRIES = 4096
_MOST_FAILURES = 16
"""Each try may read the whole text; what is damaged so often is no dump."""


def read(text: str, book: Book) -> list[tuple[int, int]]:
    """The spans of `text` that were such lists; what they tell goes into `book`."""
    spans = []
    for start, end, threads in _lists(text):
        spans.append((start, end))
        _take(threads, text.count("\n", 0, start) + 1, book)
        book.lines += text.count("\n", start, end) + 1
    return spans


def _lists(text: str) -> Iterator[tuple[int, int, list[Any]]]:
    decoder, at, failures = json.JSONDecoder(), 0, 0
    for _ in range(_MOST_TRIES):
        match = _BEGINS.search(text, at)
        if match is None or failures > _MOST_FAILURES:
            return
        try:
            found, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            failures += 1
            at = match.end()
            continue
        at = end
        if isinstance(found, list):
            yield match.start(), end, found


def _take(threads: list[Any], number: int, book: Book) -> None:
    processes: dict[int, ToldProcess] = {}
    for raw in threads:
        if not isinstance(raw, dict) or not isinstance(raw.get("frames"), list):
            continue
        pid = _int(raw.get("pid")) or 0
        if pid not in processes:
            processes[pid] = book.process(ToldProcess("py-spy --json", number, pid))
            _about(processes[pid], raw.get("process_info"))
        _thread(book, processes[pid], raw)


def _about(process: ToldProcess, info: Any) -> None:
    if isinstance(info, dict):
        process.command = str(info.get("command_line") or "")[:4000]
        parent = info.get("parent")
        process.parent = _int(parent.get("pid")) if isinstance(parent, dict) else None


def _thread(book: Book, process: ToldProcess, raw: Mapping[str, Any]) -> None:
    tid = _int(raw.get("os_thread_id"))
    name, active, gil = raw.get("thread_name"), raw.get("active"), raw.get("owns_gil")
    thread = book.thread(
        process, ToldThread(str(tid or raw.get("thread_id")), tid, name[:400] if isinstance(name, str) else "")
    )
    thread.active = active if isinstance(active, bool) else None
    thread.holds_gil = gil if isinstance(gil, bool) else None
    thread.main = thread.name == "MainThread" or (tid is not None and tid == process.pid)
    for frame in raw["frames"][:2048]:
        if isinstance(frame, dict):
            _frame(thread, frame)


def _frame(thread: ToldThread, raw: Mapping[str, Any]) -> None:
    file, line, name = raw.get("filename"), _int(raw.get("line")), raw.get("name")
    if not isinstance(file, str) or not isinstance(name, str):
        return
    if raw.get("module"):
        thread.call(name)
        return
    thread.add(ToldFrame(file, line or 0, name))
    variables = raw.get("locals")
    for one in variables if isinstance(variables, list) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            thread.variable(one["name"], str(one.get("repr") or ""))


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
