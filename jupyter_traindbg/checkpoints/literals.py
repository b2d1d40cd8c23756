"""Numbers and texts as a pickle writes them, mostly in protocol 0: pure, and what is malformed raises ValueError."""

from __future__ import annotations

import codecs

__all__ = ["decimal", "floating", "int_or_bool", "quoted", "signed", "utf8"]


def utf8(data: bytes) -> str:
    """A text; lone surrogates, which Python writes, too, stay."""
    return data.decode("utf-8", "surrogatepass")


def decimal(line: bytes) -> int:
    """An integer, with or without the L of Python 2."""
    return int(line.rstrip(b"L"), 10)


def int_or_bool(line: bytes) -> int | bool:
    """``00`` and ``01`` are truth values."""
    return line == b"01" if line in (b"00", b"01") else int(line, 10)


def quoted(line: bytes) -> str:
    """A string literal of Python 2."""
    if len(line) < 2 or line[:1] not in (b"'", b'"') or line[:1] != line[-1:]:
        raise ValueError("a string is not quoted")
    return codecs.escape_decode(line[1:-1])[0].decode("latin-1")


def floating(line: bytes) -> float:
    """A decimal fraction."""
    return float(line.decode("ascii"))


def signed(data: bytes) -> int:
    """An integer of any length, least byte first."""
    return int.from_bytes(data, "little", signed=True)
