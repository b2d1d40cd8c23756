"""Dump files of torch's flight recorder: found, and loaded without running anything.

A dump is a pickle (``TORCH_FR_DUMP_TEMP_FILE``, in older torch ``TORCH_NCCL_DEBUG_INFO_TEMP_FILE``, with the rank appended) or JSON
(what torch's debug server and its control plane hand out). Either holds numbers, texts, lists and dicts, and nothing else is let through.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import BadDump
from ...language import later, text
from . import plain_pickle
from .naming import rank_in_name

__all__ = ["Dump", "candidates", "load", "may_be_dump", "no_dump"]

MOST_BYTES = 256 * 1024**2
"""A full recorder of 2000 calls with stacks takes 3 MB."""
MOST_FILES = 100_000
_PICKLE, _JSON = b"\x80", b"{["
_BEGINS = re.compile(rb'\s*(?:\{\s*"|\[\s*\{)')
_NAMES = (
    b"pg_config",
    b"pg_status",
    b"entries",
    b"profiling_name",
    b"collective_seq_id",
    b"comm_lib_version",
    b"pg_name",
)


@dataclass(frozen=True)
class Dump:
    """One file: whose it is by its name (None: the name does not tell), and when it was written (Unix time)."""

    path: str
    rank: int | None
    written_s: float


def may_be_dump(head: bytes) -> bool:
    """Whether a file that begins so may be a dump: its form, and what a recorder calls things."""
    form = head[:1] == _PICKLE or _BEGINS.match(head) is not None
    return form and sum(name in head for name in _NAMES) > 1


def candidates(path: str) -> list[Dump]:
    """The files at `path`, a file or a directory, that look like dumps by their first byte. Raises `BadDump` where there are none."""
    paths = [path] if os.path.isfile(path) else list(_below(path))
    found = [dump for one in paths if (dump := _candidate(one)) is not None]
    if not found:
        if not os.path.exists(path):
            raise BadDump(text("{path} does not exist", path=path))
        message = (
            later("{path} is no flight-recorder dump")
            if os.path.isfile(path)
            else later("{path} has no flight-recorder dumps")
        )
        raise BadDump(text(message, path=path))
    return found


def _below(directory: str) -> Iterator[str]:
    count = 0
    for root, directories, names in os.walk(directory):
        directories[:] = sorted(d for d in directories if not d.startswith("."))
        for name in sorted(names):
            count += 1
            if count > MOST_FILES:
                return
            yield os.path.join(root, name)


def _candidate(path: str) -> Dump | None:
    if not os.path.isfile(path):  # a pipe would block
        return None
    try:
        with open(path, "rb") as f:
            first = f.read(1)
        written = os.stat(path).st_mtime
    except OSError:
        return None
    if not first or first not in _PICKLE + _JSON:
        return None
    return Dump(path, rank_in_name(path), written)


def load(path: str) -> dict[str, Any] | None:
    """The content of one dump; None of a file that holds something else. Raises `BadDump` where it is damaged, or more than numbers and
    texts. 0.15 s a megabyte.
    """
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise _bad(path, text("it has more than {most} MiB", most=MOST_BYTES // 1024**2))
        with open(path, "rb") as f:
            data = f.read(MOST_BYTES + 1)
    except OSError as e:
        raise _bad(path, e.strerror or type(e).__name__) from e
    try:
        content = plain_pickle.loads(data) if data[:1] == _PICKLE else json.loads(data)
    except (ValueError, RecursionError) as e:
        why = str(e) if data[:1] == _PICKLE else text("it is damaged ({kind})", kind=type(e).__name__)
        raise _bad(path, why) from e
    # torch 2.2 wrote the bare list of entries.
    content = {"entries": content} if isinstance(content, list) else content
    if not isinstance(content, dict) or not {"entries", "pg_config", "pg_status"} & content.keys():
        return None
    return content


def no_dump(path: str) -> BadDump:
    """What to raise of a file that holds something else."""
    return _bad(path, text("it holds something else"))


def _bad(path: str, why: str) -> BadDump:
    return BadDump(text("{path} cannot be read as a flight-recorder dump: {why}", path=path, why=why))
