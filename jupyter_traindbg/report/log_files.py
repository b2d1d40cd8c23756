"""Which logs a job writes: behind stdout and stderr of its ranks and its launcher, open ``*.log`` files, the launcher's log folder."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..outside import logs, procfs
from .context import Context

__all__ = ["LogFile", "find"]

MOST = 32
"""Files that are read; a job of more ranks has its most telling lines in any of them, and the others are named."""
_NAMES = (".log", ".out", ".err")
_RAYS_OWN = re.compile(r"/session_[^/]+/logs/(?!worker-|job-driver-)")
"""In a Ray worker also Ray's own logs are open, which tell of the whole cluster's every day and nothing of this job."""
_FOLDER_NAMES = ("stderr.log", "stdout.log")


@dataclass(frozen=True)
class LogFile:
    """A log: its `name` as the process sees it, the `path` to read it by, whose it is, and its rank where it is one rank's."""

    name: str
    path: str
    whose: str
    rank: int | None = None


def find(context: Context) -> tuple[list[LogFile], list[str]]:
    """The logs, those that were named first, and why there are not more."""
    if context.logs:
        named = [file for target in context.logs for file in logs.find(target)]
        return _bounded([LogFile(f.path, f.path, f.who or "named by you", f.rank) for f in named], [])
    files: dict[str, LogFile] = {}
    elsewhere: list[str] = []
    for whose, pid, rank in _processes(context):
        seen = [*_streams(whose, pid, rank, elsewhere), *_open_logs(whose, pid, rank), *_folder(pid)]
        for file in seen:
            files.setdefault(file.name, file)
    for file in _left(context.subject.left_logs):
        files.setdefault(file.name, file)
    return _bounded(list(files.values()), elsewhere)


def _left(patterns: Iterable[str]) -> list[LogFile]:
    """Of processes that may have ended: those that say something, the last written first."""
    paths = [path for pattern in patterns for path in glob.glob(pattern)]
    ages = {path: about.st_mtime for path in paths if (about := _about(path)) is not None and about.st_size}
    return [LogFile(path, path, "of the job") for path in sorted(ages, key=lambda path: -ages[path])]


def _about(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:  # removed meanwhile
        return None


def _bounded(found: list[LogFile], elsewhere: list[str]) -> tuple[list[LogFile], list[str]]:
    left_out = [f"{len(found) - MOST} more logs were not read: {found[MOST].name} ..."] if len(found) > MOST else []
    return found[:MOST], [*(elsewhere if not found else []), *left_out]


def _processes(context: Context) -> Iterator[tuple[str, int, int | None]]:
    launcher = context.subject.launcher_pid
    if launcher:
        yield "launcher", launcher, None
    yield from ((f"rank {rank}", pid, rank) for rank, pid in sorted(context.subject.pids.items()))


def _streams(whose: str, pid: int, rank: int | None, elsewhere: list[str]) -> Iterator[LogFile]:
    for fd, stream in ((2, "stderr"), (1, "stdout")):
        name = procfs.descriptor(pid, fd)
        if name is None:
            continue
        if _RAYS_OWN.search(name):
            continue
        if name.startswith("/") and not name.startswith(("/dev/", "/proc/")):
            yield LogFile(name, f"/proc/{pid}/fd/{fd}", f"{stream} of {whose}", rank)
        else:
            elsewhere.append(
                f"{stream} of {whose} goes to {name}, which keeps nothing: name the log file, if there is one"
            )


def _open_logs(whose: str, pid: int, rank: int | None) -> Iterator[LogFile]:
    for fd in sorted(procfs.descriptors(pid), key=int):
        name = procfs.descriptor(pid, fd) or ""
        if name.startswith("/") and name.endswith(_NAMES) and not _RAYS_OWN.search(name):
            yield LogFile(name, f"/proc/{pid}/fd/{fd}", f"open in {whose}", rank)


def _folder(pid: int) -> Iterator[LogFile]:
    """torchrun keeps a folder for each local rank, also of those that are gone; the environment of one names its error file."""
    error_file = procfs.environ(pid).get("TORCHELASTIC_ERROR_FILE", "")
    if not os.path.isabs(error_file):
        return
    attempt = os.path.dirname(os.path.dirname(error_file))
    root = f"/proc/{pid}/root"
    for local_rank in _numbers(root + attempt):
        for name in _FOLDER_NAMES:
            path = f"{attempt}/{local_rank}/{name}"
            if os.path.exists(root + path) and os.path.getsize(root + path):
                yield LogFile(path, root + path, f"{name.partition('.')[0]} of local rank {local_rank}")


def _numbers(folder: str) -> Iterable[str]:
    try:
        return sorted((name for name in os.listdir(folder) if name.isdigit()), key=int)
    except OSError:
        return []
