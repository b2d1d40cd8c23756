"""The bytes of a log as UTF-8, in blocks of whole lines: any encoding, compressed or not, a file or a pipe, by a deadline.

Two blocks are in memory at most. A line that is longer than a block comes in pieces.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import logging
import lzma
import os
import re
import select
import stat
import time
import zlib
from collections.abc import Iterator
from typing import IO, Any, cast

from ...errors import BadLog
from ...language import text

__all__ = ["BLOCK_BYTES", "END_BYTES", "Opened", "decoder_for", "open_log", "read_ahead", "unreadable"]

log = logging.getLogger(__name__)

BLOCK_BYTES = 2**20
_SAMPLE_BYTES = 2**16
END_BYTES = 2**23
"""Of a file that cannot be read in time, so much of its end is read all the same: that is where it says why it ended."""
_COMPRESSED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_LINE_END = re.compile(rb"\r\n|[\r\n]")
_TEXT_CONTROLS = frozenset(b"\t\n\r\x0b\x0c\x08\x1b")


class Opened:
    """An open log. Iterate over `blocks` once; `note` and `bytes_read` are right afterwards."""

    def __init__(
        self,
        name: str,
        stream: IO[bytes],
        size_bytes: int,
        *,
        ends: float,
        end_bytes: int = 0,
        only: tuple[int, int] | None = None,
        begins: bytes = b"",
    ) -> None:
        """`end_bytes` at the end are read in any case; 0 for what has no end that can be jumped to. `only`, `begins`: see `open_log`."""
        self.name = name
        self.size_bytes = size_bytes
        self.bytes_read = 0
        self.note = ""
        self._stream = stream
        self._ends = ends
        self._end_bytes = end_bytes
        self._only = only if end_bytes else None
        self._begins = begins
        self._gap_at = 0
        self._torn = False
        self._left = b""

    def blocks(self) -> Iterator[bytes]:
        """Blocks of UTF-8 (as good as the log's own bytes are), each ending with a line where its lines are shorter than a block."""
        first = self._first()
        decoder, mark = decoder_for(first, self.name)
        yield from self._whole_lines(first[mark:], decoder)

    def _first(self) -> bytes:
        """The first bytes that say something: before them is a hole where a log was truncated while its writer went on."""
        first = self.read(_SAMPLE_BYTES)
        while first and not first.strip(b"\0") and time.monotonic() < self._ends:
            more = self.read(BLOCK_BYTES)
            if not more:
                return first
            first = more
        return (first.lstrip(b"\0") or first) if first.startswith(b"\0" * 4) else first

    def _whole_lines(self, first: bytes, decoder: codecs.IncrementalDecoder | None) -> Iterator[bytes]:
        block = first
        while block:
            if decoder is not None:
                block = decoder.decode(block).encode("utf-8", "replace")
            if self._torn:
                block = self._behind_the_torn_line(block)
            cut = block.rfind(b"\n") + 1
            if cut:
                yield self._left + block[:cut]
                self._left = block[cut:]
            elif len(self._left) + len(block) > BLOCK_BYTES:
                yield self._left + block
                self._left = b""
            else:
                self._left += block
            if time.monotonic() > self._ends:
                if not self._skip_to_end():
                    break
            elif self._only is not None and self.bytes_read >= self._only[0]:
                self._skip_to_last(self._only[1])
                self._only = None
            block = self.read(BLOCK_BYTES)
        if self._left:
            yield self._left
            self._left = b""

    def _skip_to_end(self) -> bool:
        """The time is up. True where the end is still to be read, which takes less than a second."""
        if not self._end_bytes:
            self.note = text("read in part: the first {size}, in the time given", size=_mib(self.bytes_read))
            return False
        self._skip_to_last(self._end_bytes)
        self._ends = float("inf")  # the rest is short
        return True

    def _skip_to_last(self, n: int) -> None:
        """Leaves out what lies before the last `n` bytes, and the line in which it begins and the one in which it ends."""
        here = self._stream.tell()
        if self.size_bytes - here > n:
            self._stream.seek(-n, os.SEEK_END)
            self._gap_at = self._gap_at or here
            self.note = text(
                "read in part: the first {first} and the last {last} of {size}; line numbers after the gap count from it",
                first=_mib(self._gap_at),
                last=_mib(n),
                size=_mib(self.size_bytes),
            )
            self._left, self._torn = b"\n", True

    def _behind_the_torn_line(self, block: bytes) -> bytes:
        """What of a block behind a gap is no part of the line that it ends in. A carriage return ends that, too: a bar has no other."""
        end = _LINE_END.search(block)
        if end is None:
            return b""
        self._torn = False
        return block[end.end() :]

    def read(self, most: int = BLOCK_BYTES) -> bytes:
        """Some of what comes next, as it is; empty at the end, and when the time is over."""
        got, self._begins = self._begins, b""
        try:
            got = got or (self._stream.read(most) if self._end_bytes else self._wait(most))
        except _DAMAGED as e:
            self.note = text("cut off or damaged: {why}", why=e)
            return b""
        except OSError as e:
            self.note = text("not read to its end: {why}", why=e.strerror or e)
            return b""
        self.bytes_read += len(got)
        return got

    def _wait(self, most: int) -> bytes:
        """From a pipe, or something compressed: as much as comes in time. Empty at the end."""
        if isinstance(self._stream, (gzip.GzipFile, bz2.BZ2File, lzma.LZMAFile)):
            return self._unpacked(most)
        while True:
            left_s = self._ends - time.monotonic()
            if left_s <= 0:
                self.note = text("read in part: nobody closed it in the time given")
                return b""
            ready, _, _ = select.select([self._stream], [], [], min(left_s, 1.0))
            if ready:
                return os.read(self._stream.fileno(), most)

    def _unpacked(self, most: int) -> bytes:
        """In the pieces that the decompressor gives: what comes before damage, as of a file that is cut off, is not lost with it."""
        parts: list[bytes] = []
        size = 0
        try:
            while (
                size < most and time.monotonic() < self._ends and (part := cast(Any, self._stream).read1(most - size))
            ):
                parts.append(part)
                size += len(part)
        except _DAMAGED as e:
            self.note = text("cut off or damaged: {why}", why=e)
        return b"".join(parts)

    def close(self) -> None:
        self._stream.close()


def read_ahead(most: int, *, ends: float, begins: bytes = b"") -> bytes:
    """`begins`, and what standard input has behind it: `most` bytes and less than a block more, or what comes until `ends`."""
    opened = open_log("-", "-", ends=ends, begins=begins)
    try:
        parts: list[bytes] = []
        while opened.bytes_read < most and (part := opened.read()):
            parts.append(part)
    finally:
        opened.close()
    return b"".join(parts)


def open_log(
    path: str,
    name: str,
    *,
    ends: float,
    end_bytes: int = END_BYTES,
    only: tuple[int, int] | None = None,
    begins: bytes = b"",
) -> Opened:
    """Opens `path` (``-`` is standard input) for reading until `ends`, on the clock of `time.monotonic`; the last `end_bytes` in any case.

    `only`: of a file that is longer, so many of its first bytes and so many of its last are enough. `begins`: what of standard
    input has been read before.

    Raises `BadLog` where it cannot be opened, is a directory or device, or holds a format that is not read.
    """
    try:
        if path == "-":
            return Opened(text("standard input"), os.fdopen(os.dup(0), "rb", buffering=0), 0, ends=ends, begins=begins)
        raw = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)
    except OSError as e:
        raise unreadable(name, e) from None
    about = os.fstat(raw.fileno())
    if stat.S_ISFIFO(about.st_mode):
        return Opened(name, raw, 0, ends=ends)
    if not stat.S_ISREG(about.st_mode):
        raw.close()
        raise BadLog(
            text("{name} is no file", name=name),
            text("give a log, `-` for standard input, a directory of logs, or a pattern"),
        )
    start = os.pread(raw.fileno(), 8, 0)
    opener = next((opener for magic, opener in _COMPRESSED if start.startswith(magic)), None)
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        raw.close()
        raise BadLog(
            text("{name} is compressed with zstd, which is not read", name=name),
            text("unpack it: `zstd -d {name}`", name=name),
        )
    log.debug("%s: %d bytes%s", name, about.st_size, "" if opener is None else ", compressed")
    if opener is not None:
        raw.close()
        unpacked = cast(Any, opener)(path, "rb")
        return Opened(name, unpacked, about.st_size, ends=ends)
    return Opened(name, raw, about.st_size, ends=ends, end_bytes=end_bytes, only=only)


def decoder_for(first: bytes, name: str) -> tuple[codecs.IncrementalDecoder | None, int]:
    """What turns the bytes of a log that begins like this into text (None: they are UTF-8), and the length of its mark.

    Raises `BadLog` where it is no text.
    """
    encoding, mark = _encoding(first)
    if encoding == "utf-8" and _is_binary(first[mark:]):
        raise BadLog(text("{name} is not text", name=name), text("give the log that the job has written, as text"))
    return None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)("replace"), mark


def _encoding(first: bytes) -> tuple[str, int]:
    """The encoding of a text that begins like this, and the length of its mark."""
    for mark, encoding in _MARKS:
        if first.startswith(mark):
            return encoding, len(mark)
    if len(first) >= 4:
        even, odd = first[0:4096:2], first[1:4096:2]
        if odd.count(0) > 0.6 * len(odd) and even.count(0) < 0.1 * len(even):
            return "utf-16-le", 0
        if even.count(0) > 0.6 * len(even) and odd.count(0) < 0.1 * len(odd):
            return "utf-16-be", 0
    return "utf-8", 0


def _is_binary(first: bytes) -> bool:
    """Archives, weights and pictures; not a text that has some NULs, as one has that was truncated while it was written."""
    body = first.strip(b"\x00")
    if first[:2] == b"PK" or first[:4] in (b"\x7fELF", b"\x89PNG", b"%PDF") or (first and not body):
        return True
    odd = sum(body.count(c) for c in range(32) if c not in _TEXT_CONTROLS)
    return odd > 0.05 * len(body)


def unreadable(name: str, e: OSError) -> BadLog:
    """The error for a log that the system does not let us read."""
    return BadLog(text("cannot read {name}: {why}", name=name, why=e.strerror or e), _mend(e))


def _mend(e: OSError) -> str:
    if isinstance(e, FileNotFoundError):
        return text("check the path; `-` reads standard input")
    if isinstance(e, PermissionError):
        return text("ask its owner for read permission, or copy it")
    return text("copy the log to a file of your own and give that")


def _mib(n: int) -> str:
    return f"{n / 2**20:.0f} MiB" if n >= 2**20 else text("{n} bytes", n=n)
