"""Which logs a job writes: behind stdout and stderr of its ranks and its launcher, open ``*.log`` files, the launcher's log folder."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping

from ...language import counted, text
from .. import procfs
from .sources import LogFile

__all__ = ["bounded", "find"]

MOST = 32
"""Files that are read; a job of more ranks has its most telling lines in any of them, and the others are named."""
_NAMES = (".log", ".out", ".err")
_RAYS_OWN = re.compile(r"/session_[^/]+/logs/(?!worker-|job-driver-)")
"""In a Ray worker also Ray's own logs are open, which tell of the whole cluster's every day and nothing of this job."""
_FOLDER_NAMES = ("stderr.log", "stdout.log")


def find(
    pids: Mapping[int, int], launcher_pid: int | None = None, left: Iterable[str] = ()
) -> tuple[list[LogFile], list[str]]:
    """The logs of the ranks with these `pids`, by rank, and of their launcher, and why there are not more.

    A log goes by the name that its process has for it. `left`: patterns of logs of processes that may have ended.
    """
    files: dict[str, LogFile] = {}
    elsewhere: list[str] = []
    for whose, pid, rank in _processes(pids, launcher_pid):
        for file in [*_streams(whose, pid, rank, elsewhere), *_open_logs(whose, pid, rank), *_folder(pid)]:
            files.setdefault(file.name, file)
    for file in _left(left):
        files.setdefault(file.name, file)
    return bounded(list(files.values()), elsewhere)


def bounded(found: list[LogFile], elsewhere: list[str]) -> tuple[list[LogFile], list[str]]:
    """As many of them as are read."""
    if not found:
        return [], elsewhere
    if (left := len(found) - MOST) <= 0:
        return found, []
    first = found[MOST].name
    left_out = counted(
        "{n} more log was not read: {first} ...", "{n} more logs were not read: {first} ...", left, first=first
    )
    return found[:MOST], [left_out]


def _left(patterns: Iterable[str]) -> list[LogFile]:
    """Those that say something, the last written first."""
    paths = [path for pattern in patterns for path in glob.glob(pattern)]
    ages = {path: about.st_mtime for path in paths if (about := _about(path)) is not None and about.st_size}
    return [LogFile(path, path, who="of the job") for path in sorted(ages, key=lambda path: -ages[path])]


def _about(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:  # removed meanwhile
        return None


def _processes(pids: Mapping[int, int], launcher_pid: int | None) -> Iterator[tuple[str, int, int | None]]:
    if launcher_pid:
        yield "launcher", launcher_pid, None
    yield from ((f"rank {rank}", pid, rank) for rank, pid in sorted(pids.items()))


def _streams(whose: str, pid: int, rank: int | None, elsewhere: list[str]) -> Iterator[LogFile]:
    for fd, stream in ((2, "stderr"), (1, "stdout")):
        name = procfs.descriptor(pid, fd)
        if name is None:
            continue
        if _RAYS_OWN.search(name):
            continue
        if name.startswith("/") and not name.startswith(("/dev/", "/proc/")):
            yield LogFile(f"/proc/{pid}/fd/{fd}", name, rank, f"{stream} of {whose}")
        else:
            elsewhere.append(
                text(
                    "{stream} of {whose} goes to {name}, which keeps nothing: name the log file, if there is one",
                    stream=stream,
                    whose=whose,
                    name=name,
                )
            )


def _open_logs(whose: str, pid: int, rank: int | None) -> Iterator[LogFile]:
    for fd in sorted(procfs.descriptors(pid), key=int):
        name = procfs.descriptor(pid, fd) or ""
        if name.startswith("/") and name.endswith(_NAMES) and not _RAYS_OWN.search(name):
            yield LogFile(f"/proc/{pid}/fd/{fd}", name, rank, f"open in {whose}")


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
                yield LogFile(root + path, path, who=f"{name.partition('.')[0]} of local rank {local_rank}")


def _numbers(folder: str) -> Iterable[str]:
    try:
        return sorted((name for name in os.listdir(folder) if name.isdigit()), key=int)
    except OSError:
        return []
