"""A log that is still being written: what was appended is read once, and what is known of the whole can be had at any time."""

from __future__ import annotations

import codecs
import os
import time
from collections import deque
from collections.abc import Iterable

from ...model import LogEvidence
from . import Gathered, Source
from .markers import automaton
from .opening import BLOCK_BYTES, decoder_for, unreadable
from .sources import LogFile

__all__ = ["Following"]

_GAPS = 200
HALF_LINE_S = 2.0
"""The beginning of a line that is not ended for so long is read as it is: a progress bar that stands still ends in none."""


class Following:
    """Follows one file from its beginning. A file that was cut or replaced is read anew, as ``tail -F`` does."""

    def __init__(self, file: LogFile, *, anchors: Iterable[str]) -> None:
        """Nothing is read yet. Raises `BadLog` where there is no such file or it may not be read."""
        self.file = file
        self._anchors = tuple(anchors)
        self._gaps: deque[float] = deque(maxlen=_GAPS)
        self._arrived: list[tuple[int, float]] = []
        self._begin()
        self._grown_at_s = self._stat().st_mtime

    def _begin(self) -> None:
        self._caught_up = False
        self._inode = self._stat().st_ino
        self._offset = 0
        self._left = b""
        self._decode: codecs.IncrementalDecoder | None = None
        self._gathered = Gathered()
        self._arrived.clear()
        self._source = Source(
            self.file, self._gathered, automaton(self._anchors), 1, year=time.gmtime(self._stat().st_mtime).tm_year
        )

    def _stat(self) -> os.stat_result:
        try:
            return os.stat(self.file.path)
        except OSError as e:
            raise unreadable(self.file.name, e) from None

    def more(self, ends: float) -> bool:
        """Read what was appended, until `ends` on the clock of `time.monotonic` at most; True if there was something.

        Raises `BadLog` where the file is gone or no text.
        """
        about = self._stat()
        if about.st_ino != self._inode or about.st_size < self._offset:
            self._begin()
        grown = False
        with open(self.file.path, "rb") as f:
            f.seek(self._offset)
            while time.monotonic() < ends and (block := f.read(BLOCK_BYTES)):
                self._feed(block)
                grown = True
        if grown:
            self._note_growth(about.st_mtime)
        elif self._left and self.silent_s > HALF_LINE_S:
            self._scan(self._left)
            self._left, grown = b"", True
        self._caught_up = self._offset >= about.st_size
        return grown

    def _feed(self, block: bytes) -> None:
        """Whole lines, or whole states of a progress bar."""
        self._offset += len(block)
        if self._offset == len(block):
            self._decode, mark = decoder_for(block, self.file.name)
            block = block[mark:]
        text = self._left + (block if self._decode is None else self._decode.decode(block).encode("utf-8", "replace"))
        cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if not cut and len(text) > BLOCK_BYTES:
            cut = len(text)
        self._left = text[cut:]
        if cut:
            self._scan(text[:cut])

    def _scan(self, text: bytes) -> None:
        before = len(self._source.stages)
        self._source.scan.feed(text)
        if self._caught_up:
            now = time.time()
            self._arrived += [(stage.line.number, now) for stage in self._source.stages[before:]]

    def _note_growth(self, modified_s: float) -> None:
        if self._caught_up:
            self._gaps.append(max(0.0, modified_s - self._grown_at_s))
        self._grown_at_s = max(self._grown_at_s, modified_s)

    @property
    def silent_s(self) -> float:
        """Since the last byte was written."""
        return max(0.0, time.time() - self._grown_at_s)

    @property
    def arrivals(self) -> tuple[tuple[int, float], ...]:
        """(line number, seconds ago) of the lines with which a stage began since the file was read to its end for the first time."""
        now = time.time()
        return tuple((number, now - at_s) for number, at_s in self._arrived)

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Between the latest pieces that came, at most 200."""
        return tuple(self._gaps)

    def evidence(self) -> LogEvidence:
        """What is known by now. As costly as the end of reading a log: some 50 ms, 1 s for one with very much of interest."""
        gathered = Gathered(self._gathered.book)
        self._source.end(self._offset, into=gathered)
        gathered.bytes = self._offset
        return gathered.evidence()
