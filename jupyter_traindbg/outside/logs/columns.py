"""Metrics in columns, whose names stand in a row of their own above them: ``epoch  train_loss  valid_loss  time``, ``vf_loss | kl | ent``.

Pure functions on text, and the state from a row of names to the rows of numbers below it.
"""

from __future__ import annotations

import re

__all__ = ["Columns", "is_row"]

_ROW = re.compile(
    rb"(?:\[[A-Za-z]{0,20}\d{1,5}\]: ?)?[\s|]{0,40}(?:[-+]?\.?\d[\d.eE+/%:-]{0,24}[GMKkiB]{0,3}[\s|,]{1,60}){2}"
)
_NAME = re.compile(r"[A-Za-z][\w@/.()%-]{0,40}(?: [\w()%-]{1,20}){0,2}")
_TELLING = re.compile(r"(?i)loss|(?:^|[/_])kl$|rew(?:ard)?|return|acc|err|ppl|entrop|^ent$|auc|score|map")
_NUMBER = re.compile(r"[-+]?(?:\d{1,30}\.?\d{0,30}(?:[eE][-+]?\d{1,4})?|\.\d{1,30}|nan|inf)")
_OTHER = re.compile(r"\d+/\d+|[\d.]+[GMKkiB]{1,3}|[\d.]+%|\d+:\d\d(?::\d\d)?|-")
"""What stands in a column and is no metric: 3/100, 2.25G, 00:12."""
_PROSE = {"a", "and", "as", "at", "for", "in", "is", "of", "the", "this", "to", "was", "we", "with"}
_BAR = re.compile(r":?\s{1,4}\d{1,3}%\|.*$")
_WIDE = re.compile(r"\t+|\s{2,}")
FEWEST, MOST = 3, 40


def is_row(line: bytes) -> bool:
    """Whether a line may be a row of numbers, seen as quickly as that can be."""
    return _ROW.match(line) is not None


class Columns:
    """The last names that were read. A row of as many cells gives them their values; anything else gives none."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def read(self, text: str) -> list[tuple[str, float]]:
        """The values of a row of numbers, by the names above it, in lower case."""
        cells = _cells(text)
        if not FEWEST <= len(cells) <= MOST:
            return []
        if names := _names(cells):
            self._names = names
            return []
        if len(cells) != len(self._names) or not all(_NUMBER.fullmatch(c) or _OTHER.fullmatch(c) for c in cells):
            return []
        return [(name, float(cell)) for name, cell in zip(self._names, cells, strict=True) if _NUMBER.fullmatch(cell)]


def _cells(text: str) -> list[str]:
    line = _BAR.sub("", text).strip()
    if "|" in line:
        return [cell.strip() for cell in line.strip("|").split("|")]
    wide = _WIDE.split(line)
    return wide if len(wide) >= FEWEST else line.split()


def _names(cells: list[str]) -> list[str]:
    low = [cell.lower() for cell in cells]
    named = all(map(_NAME.fullmatch, cells)) and any(map(_TELLING.search, cells)) and _PROSE.isdisjoint(low)
    return low if named and len(set(low)) == len(low) else []
