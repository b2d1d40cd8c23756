"""The logs: their last 500 lines, all errors with what stands around them, and what NCCL said of itself. Cleaned of colours and bars.

Reads 50 MB of the beginning and 150 MB of the end of each at about 100 MB/s; where its time is over, only the last 8 MB more.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ...errors import BadLog
from ...outside.logs.opening import open_log
from ...terminal_codes import plain
from ..context import Context, Part, Unavailable
from ..log_files import LogFile, find

TITLE = "Logs"
ORDER = 15
FROM_JOB = False
AFTER = ""
LAST_LINES = 500
SHOWN_LINES = 60
HEAD_BYTES, TAIL_BYTES = 50_000_000, 150_000_000
LONGEST_LINE = 16_384
LAST_BYTES = 1_000_000
ALL_BYTES = 4_000_000
"""Of the ends of all logs together, and as much again of errors: a report is read by people, and looked through for secrets."""
AROUND_BEFORE, AROUND_AFTER = 2, 12
MOST_ERROR_LINES, MOST_NCCL_LINES = 3000, 400

_ERROR = re.compile(
    rb"Traceback \(most|(?:Error|Exception)\b|\bERROR\b|\bFATAL\b|\bCRITICAL\b|Fatal |NCCL WARN|\bXid\b|[Kk]illed\b"
    rb"|Segmentation fault|core dumped|[Oo]ut of memory|[Aa]borted|[Tt]imed out|[Tt]imeout|\b(?:nan|NaN)\b|\berror:"
    rb"|SIG(?:SEGV|KILL|ABRT|BUS|TERM)|[Aa]ssertion|terminate called|Bus error|Disk quota|No space left"
)
_NCCL = re.compile(rb"NCCL (?:INFO|WARN|version)")
_LITERALS = (
    *(
        b"Traceback (most",
        b"Error",
        b"Exception",
        b"ERROR",
        b"FATAL",
        b"CRITICAL",
        b"Fatal ",
        b"NCCL ",
        b"Xid",
        b"illed",
    ),
    *(
        b"Segmentation fault",
        b"core dumped",
        b"ut of memory",
        b"borted",
        b"imed out",
        b"imeout",
        b"nan",
        b"NaN",
        b"error:",
    ),
    *(b"SIG", b"ssertion", b"terminate called", b"Bus error", b"Disk quota", b"No space left"),
)
"""One of these is in every line that the two expressions match; searched for in all of them at once."""


@dataclass
class _Read:
    """What one log gave."""

    last: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    errors: list[str] = field(default_factory=list)
    error_count: int = 0
    last_error: int = 0
    nccl: list[str] = field(default_factory=list)
    nccl_count: int = 0
    lines: int = 0
    size_bytes: int = 0
    note: str = ""


def collect(context: Context) -> Part:
    files, missing = find(context)
    if not files:
        raise Unavailable("; ".join(missing) or "no log was named, and there is no job that writes one")
    texts: dict[str, str] = {}
    excerpts: dict[str, list[str]] = {}
    rows: list[dict[str, object]] = []
    for i, file in enumerate(files):
        share_s = max(0.2, context.left_s() / (len(files) - i))
        try:
            read = _read(
                file, time.monotonic() + share_s, min(LAST_BYTES, ALL_BYTES // (len(files) * context.machines))
            )
        except BadLog as e:
            missing.append(f"{file.name}: {e.cause}")
            continue
        except (Unavailable, OSError) as e:
            missing.append(f"{file.name}: {e.strerror if isinstance(e, OSError) and e.strerror else e}")
            continue
        name = _inside(file, texts)
        texts |= _texts(name, file, read)
        row = {"file": file.name, "whose": file.who, "bytes": read.size_bytes, "lines_read": read.lines}
        rows.append({**row, "errors": read.error_count, "nccl": read.nccl_count})
        if i < 8:
            if read.errors and read.lines - read.last_error > SHOWN_LINES:
                excerpts[f"{file.name} ({file.who}): errors"] = read.errors[-SHOWN_LINES:]
            excerpts[f"{file.name} ({file.who}): last lines"] = list(read.last)[-SHOWN_LINES:]
        if read.note:
            missing.append(f"{file.name}: {read.note}")
    if not rows:
        raise Unavailable("; ".join(missing))
    errors = sum(int(str(row["errors"])) for row in rows)
    words = f"{len(rows)} file{'s' * (len(rows) != 1)}, {errors:,} line{'s' * (errors != 1)} that speak of errors"
    return Part(words, texts=texts, excerpts=excerpts, data={"logs": rows}, missing=missing)


def _texts(name: str, file: LogFile, read: _Read) -> dict[str, str]:
    head = f"# {file.name} ({file.who}), {read.size_bytes:,} bytes\n"
    texts = {f"logs/{name}.last{LAST_LINES}.txt": head + "".join(f"{line}\n" for line in read.last)}
    if read.errors:
        shown = f"# {read.error_count:,} lines that speak of errors, with those around them; line numbers first\n"
        texts[f"logs/{name}.errors.txt"] = head + shown + "".join(f"{line}\n" for line in read.errors)
    if read.nccl:
        shown = f"# {read.nccl_count:,} lines of NCCL\n"
        texts[f"logs/{name}.nccl.txt"] = head + shown + "".join(f"{line}\n" for line in read.nccl)
    return texts


def _read(file: LogFile, ends: float, most_bytes: int) -> _Read:
    if not stat.S_ISREG(os.stat(file.path).st_mode):
        raise Unavailable(f"{file.path} is no regular file")
    read, end = _Read(), bytearray()
    with contextlib.closing(open_log(file.path, "it", ends=ends, only=(HEAD_BYTES, TAIL_BYTES))) as opened:
        _search(read, _remembered(_whole_lines(opened.blocks()), end, most_bytes))
    if opened.note and not read.lines:
        raise Unavailable(opened.note)
    read.size_bytes, read.note = opened.size_bytes, opened.note
    read.last.extend(_last_lines(bytes(end), torn=len(end) == most_bytes))
    read.errors = _bounded(read.errors, most_bytes)
    read.nccl = _bounded(read.nccl, most_bytes)
    return read


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Of a line that comes in several blocks only the first."""
    torn = False
    for block in blocks:
        rest = block.partition(b"\n")[2] if torn else block
        torn = not block.endswith(b"\n")
        if rest:
            yield rest + b"\n" if torn else rest


def _remembered(blocks: Iterable[bytes], end: bytearray, most: int) -> Iterator[bytes]:
    """All of them; `end` has the last bytes of what has passed."""
    for block in blocks:
        end += block
        del end[:-most]
        yield block


def _search(read: _Read, blocks: Iterable[bytes]) -> None:
    """Find what speaks of errors, and what NCCL says. Lines of a block in which no literal stands are only counted."""
    finder = _finder()
    before: deque[tuple[int, bytes]] = deque(maxlen=AROUND_BEFORE)
    after = 0
    for block in blocks:
        lines = block.removesuffix(b"\n").split(b"\n")
        marked = _marked(finder, block, lines)
        first = read.lines + 1
        read.lines += len(lines)
        if not marked and not after:
            before.extend((read.lines - i, lines[-1 - i]) for i in range(min(AROUND_BEFORE, len(lines)) - 1, -1, -1))
            continue
        for i, raw in enumerate(lines):
            number = first + i
            if i in marked and b"NCCL" in raw and _NCCL.search(raw):
                read.nccl_count += 1
                if len(read.nccl) < MOST_NCCL_LINES:
                    read.nccl.append(_clean(raw))
            if i in marked and _ERROR.search(raw):
                read.error_count += 1
                read.last_error = number
                after = AROUND_AFTER
                _keep(read, [*before, (number, raw)])
                before.clear()
            elif after:
                after -= 1
                _keep(read, [(number, raw)])
            else:
                before.append((number, raw))


def _marked(finder: Callable[[bytes], list[int]], block: bytes, lines: list[bytes]) -> set[int]:
    """The indexes of the lines in which a literal stands."""
    starts = finder(block)
    if not starts:
        return set()
    ends = list(itertools.accumulate(len(line) + 1 for line in lines))
    return {bisect_right(ends, start) for start in starts}


@lru_cache(maxsize=1)
def _finder() -> Callable[[bytes], list[int]]:
    """Where the literals begin in a block; on a host that lacks the automaton, which travels with nobody, by an expression, more slowly."""
    try:
        import ahocorasick_rs
    except ModuleNotFoundError:
        found = re.compile(b"|".join(map(re.escape, _LITERALS))).finditer
        return lambda block: [match.start() for match in found(block)]
    automaton = ahocorasick_rs.BytesAhoCorasick(list(_LITERALS))
    return lambda block: [start for _, start, _ in automaton.find_matches_as_indexes(block)]


def _keep(read: _Read, lines: list[tuple[int, bytes]]) -> None:
    """The first two thirds and the last third of what there is room for."""
    read.errors += [f"{number:>8}  {_clean(raw)}" for number, raw in lines]
    if len(read.errors) > MOST_ERROR_LINES:
        first = MOST_ERROR_LINES * 2 // 3
        del read.errors[first : first + len(read.errors) - MOST_ERROR_LINES]


def _bounded(lines: list[str], most: int) -> list[str]:
    """As many of `lines` as fit: the first two thirds and the last third."""
    while sum(map(len, lines)) > most and len(lines) > 3:
        first = len(lines) // 3 + 1
        lines = [*lines[:first], *lines[-first // 2 :]]
    return lines


def _last_lines(end: bytes, *, torn: bool) -> list[str]:
    """The last lines of a text that ends like this; of the first of them there is only a part where it is `torn`."""
    lines = end.split(b"\n")[torn:]
    kept = [_clean(line) for line in lines[-4 * LAST_LINES :]]
    return [line for line in kept if line.strip()][-LAST_LINES:]


def _clean(raw: bytes) -> str:
    """Without colours, and of a progress bar the last state."""
    if len(raw) > LONGEST_LINE:
        raw = raw[:LONGEST_LINE].rsplit(None, 1)[0]  # not within a word: half a secret would not be known as one
    text = raw.decode(errors="replace").rstrip("\r\n")
    return plain(text.rsplit("\r", 1)[-1]).rstrip()


def _inside(file: LogFile, taken: dict[str, str]) -> str:
    """A name for the bundle: of the rank, and of the file."""
    base = os.path.basename(file.name)
    name = f"rank{file.rank}-{base}" if file.rank is not None else base
    number = 1
    while f"logs/{name}.last{LAST_LINES}.txt" in taken:
        number += 1
        name = f"{number}-{base}"
    return name
