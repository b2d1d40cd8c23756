"""The pages of ``docs/``, which come with the package: where one lies, and a section of it. Read when asked for, nothing is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["located", "section"]

_PACKAGED = Path(__file__).parent / "docs"
PAGES = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[1] / "docs"
"""In a wheel they lie in the package, in a checkout beside it."""
_REFERENCE = re.compile(r"docs/(?P<page>[a-z][\w.-]*\.md)(?:#(?P<section>[\w-]+))?")
_HEADING = re.compile(r"(?P<level>#{1,6}) +(?P<title>.+?)\s*")
_ELSEWHERE = re.compile(r"!?\[(?P<text>[^\]]*)\]\((?!https?://)[^)]*\)")
"""A link or a picture that only the whole of docs/ has."""


def located(reference: str) -> tuple[str, int] | None:
    """The file, and the line from 1, that ``docs/logs.md#following`` stands for; None where there is no such page. 5 ms of the longest."""
    found = _found(reference)
    return found and (str(found[0]), found[1] + 1)


def section(reference: str) -> tuple[str, str] | None:
    """The title of what `reference` stands for, and its Markdown, without links to what is not in it; None where there is no such page.

    A section goes to the next one of its rank. What is not found on a page that is there is the whole page.
    """
    found = _found(reference)
    if found is None:
        return None
    page, start, lines = found
    heading = _HEADING.fullmatch(lines[start])
    level = len(heading["level"]) if heading else 0
    ends = (n for n, at in _headings(lines) if n > start and len(at["level"]) <= level)
    text = "\n".join(lines[start : next(ends, len(lines))] if level > 1 else lines)
    return heading["title"] if heading else page.name, _ELSEWHERE.sub(r"\g<text>", text)


def _found(reference: str) -> tuple[Path, int, list[str]] | None:
    """The page, the index of its line, and all its lines."""
    match = _REFERENCE.fullmatch(reference)
    try:
        lines = (PAGES / match["page"]).read_text(encoding="utf-8").splitlines() if match else []
    except OSError:
        return None
    if match is None or not lines:
        return None
    starts = (n for n, heading in _headings(lines) if _anchor(heading["title"]) == match["section"])
    return PAGES / match["page"], next(starts, 0), lines


def _headings(lines: list[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """Those outside of code."""
    code = False
    for n, line in enumerate(lines):
        code ^= line.startswith("```")
        match = None if code else _HEADING.fullmatch(line)
        if match:
            yield n, match


def _anchor(title: str) -> str:
    """As GitHub and JupyterLab make it, but for case: ``## Root and consequence`` is ``#root-and-consequence``."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
