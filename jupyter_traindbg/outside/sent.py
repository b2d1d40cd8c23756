"""What each of the files is that somebody has sent of a job: a dump of stacks, a flight recorder's, or a log. By content, not by name."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import BadLog
from ..model import SentFile
from . import dumped_stacks, logs
from .flightrec.files import may_be_dump
from .logs.opening import read_ahead

__all__ = ["Sorted", "sort"]

MOST_FILES, DEEPEST = 2000, 8


@dataclass
class Sorted:
    """``stacks``: the dumps by path. ``recorders``: paths. ``logs`` as `logs.find` names them. ``unread``: what could not be read."""

    stacks: dict[str, dumped_stacks.Dump] = field(default_factory=dict)
    recorders: list[str] = field(default_factory=list)
    logs: list[logs.LogFile] = field(default_factory=list)
    unread: list[SentFile] = field(default_factory=list)

    @property
    def only_logs(self) -> bool:
        return not self.stacks and not self.recorders


def sort(targets: Sequence[str], *, ends: float) -> Sorted:
    """The files that `targets` mean, which are files, directories, patterns or ``-``, standard input; read until `ends`. What is no dump is
    a log, if `logs.find` takes it for one. Raises `BadLog` where a target means nothing.
    """
    found = Sorted()
    for target in targets:
        if target == "-":
            _standard_input(found, ends)
            continue
        try:
            taken = {os.path.realpath(path) for path in _dumps(target, found, ends)}
            rest = [file for file in logs.find(target) if os.path.realpath(file.path) not in taken]
        except BadLog:
            if found.only_logs:
                raise
            continue
        found.logs += rest
    return found


def _standard_input(found: Sorted, ends: float) -> None:
    """All of a dump is read at once, of a log only its beginning, to see that it is one."""
    (file,) = logs.find("-")
    begins = read_ahead(dumped_stacks.SAMPLE_BYTES, ends=ends)
    if dumped_stacks.holds_stacks(begins):
        begins = read_ahead(dumped_stacks.MOST_BYTES, ends=ends, begins=begins)
        dump = dumped_stacks.read("-", file.name, ends=ends, begins=begins)
        if dump.counts:
            found.stacks[file.name] = dump
            return
    found.logs.append(dataclasses.replace(file, begins=begins))


def _dumps(target: str, found: Sorted, ends: float) -> Iterator[str]:
    """The paths below `target` that are no logs."""
    for path in _paths(target):
        head = _head(path)
        if may_be_dump(head):
            found.recorders.append(path)
            yield path
        elif dumped_stacks.holds_stacks(head):
            try:
                dump = dumped_stacks.read(path, os.path.basename(path), ends=ends)
            except BadLog as e:
                found.unread.append(SentFile(path, "unread", e.cause))
                continue
            if dump.counts:
                found.stacks[path] = dump
                yield path


def _paths(target: str) -> list[str]:
    path = os.path.expanduser(target)
    if os.path.isdir(path):
        return [one for _, one in zip(range(MOST_FILES), _below(path), strict=False)]
    if os.path.lexists(path):
        return [path]
    return [file.path for file in logs.find(target)] if logs.is_pattern(target) else []


def _below(directory: str) -> Iterator[str]:
    depth = directory.rstrip("/").count("/")
    for place, folders, files in os.walk(directory):
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if place.count("/") - depth < DEEPEST else []
        yield from (os.path.join(place, name) for name in sorted(files))


def _head(path: str) -> bytes:
    """The first bytes of a regular file; nothing of anything else: a pipe would be used up, and a device may not answer."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return b""
        with open(path, "rb") as file:
            return file.read(dumped_stacks.SAMPLE_BYTES)
    except OSError:
        return b""
