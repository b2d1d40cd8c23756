"""Which files are meant by ``FILE``, ``-``, ``DIR`` or ``GLOB``, and whose they are: the rank in a file's name."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...errors import BadLog
from ...language import later, text

__all__ = ["LogFile", "find", "is_pattern", "ranks_of"]

_MOST_FILES = 2000
_DEEPEST = 8
_LOGS = re.compile(
    r"(?:\.(?:log|out|err|txt|stdout|stderr|ipynb)(?:\.\d+)?(?:\.(?:gz|bz2|xz))?|(?:^|/)(?:std(?:out|err)|nohup|console))$",
    re.I,
)
_NO_LOGS = re.compile(
    r"(?i)(?:^|/)(?:requirements[\w-]*|readme[\w-]*|licen[cs]e|vocab|merges|special_tokens|labels|classes|wandb-metadata)\.txt$"
)
_RAY_LOGS = re.compile(
    r"^(?:worker-.*\.(?:err|out)|job-driver-.*\.log|raylet(?:\.\d+)?\.(?:out|err)|gcs_server\.(?:out|err)|monitor\.(?:out|err|log)"
    r"|runtime_env_setup-.*\.log|python-core-driver-.*\.log)$"
)
"""Of a Ray session's files those in which failures show; the rest is Ray's own bookkeeping."""
_RAY_SESSION = ("raylet.out", "gcs_server.out", "raylet.err")
_RANKS = tuple(
    re.compile(form, re.I)
    for form in (
        r"(?:^|/)attempt_\d+/(\d+)/[^/]+$",  # torchrun --log-dir
        r"(?:^|/)(\d+)/(?:std(?:out|err)\.log|std(?:out|err)|error\.json)$",
        r"rank[._=-]?(\d+)(?!.*rank[._=-]?\d)",
        r"(?:^|[/_.-])(?:task|proc|worker|gpu)[._=-]?(\d+)\.\w+(?:\.gz)?$",
        r"(?:^|/)log_(\d+)\.\w+$",
        r"(?:^|/)[^/]*?[._-](\d+)\.\w+(?:\.gz)?$",  # slurm's %j-%t.out; only if its neighbours are numbered too
    )
)
_WORKER_PID = re.compile(r"worker-[0-9a-f]+-[0-9a-f]+-(\d+)\.(?:err|out)$")


@dataclass(frozen=True)
class LogFile:
    """A file to be read (``-``: standard input). `name` is how it is spoken of; `who`, whose it is where that is no rank; `begins`, what
    has been read of standard input already, which gives nothing twice.
    """

    path: str
    name: str
    rank: int | None = None
    who: str = ""
    begins: bytes = b""


def find(target: str) -> list[LogFile]:
    """The files that `target` means. Raises `BadLog` where there are none."""
    if target == "-":
        return [LogFile("-", text("standard input"))]
    path = os.path.expanduser(target)
    if os.path.isdir(path):
        paths = _within(path)
    elif os.path.lexists(path):
        return _named([path])
    elif is_pattern(target):
        seen = sorted(glob.glob(path, recursive=True))
        paths = [p for p in seen if os.path.isfile(p)] or [p for directory in seen for p in _within(directory)]
    else:
        raise BadLog(text("there is no file {target}", target=target), text("check the path; `-` reads standard input"))
    if not paths:
        said = (
            later("{target} matches no file that is called like one (.log, .out, .err, .txt, .ipynb) and is not empty")
            if not os.path.isdir(path)
            else later(
                "{target} is a directory without logs: no file that is called like one (.log, .out, .err, .txt, .ipynb) and is not empty"
            )
        )
        raise BadLog(
            text(said, target=target),
            text("name the files, or give a pattern such as 'logs/rank*.log'"),
        )
    return _named(paths[:_MOST_FILES])


def is_pattern(target: str) -> bool:
    return any(c in target for c in "*?[")


def _within(directory: str) -> list[str]:
    """The logs in a directory and below it; of a directory of Ray's those that tell.

    Empty ones are left out, but for one of a rank that has no other: that it wrote nothing tells.
    """
    found: list[str] = []
    empty: list[str] = []
    for place, folders, files in _walk(directory):
        names = sorted(files)
        if any(name in files for name in _RAY_SESSION):
            folders[:] = [f for f in folders if f not in ("events", "export_events", "old")]
            names = [name for name in names if _RAY_LOGS.match(name)]
        for name in names:
            path = os.path.join(place, name)
            if _LOGS.search(name) and not _NO_LOGS.search(name):
                (found if _size(path) else empty).append(path)
        if len(found) >= _MOST_FILES:
            break
    spoke = set(ranks_of(found))
    for path, rank in zip(empty, ranks_of(empty), strict=True):
        if spoke and None not in spoke and rank is not None and rank not in spoke:
            spoke.add(rank)
            found.append(path)
    return found


def _walk(directory: str) -> Iterator[tuple[str, list[str], list[str]]]:
    def refuse(e: OSError) -> None:
        if e.filename == directory:
            raise BadLog(
                text("cannot read {name}: {why}", name=directory, why=e.strerror),
                text("ask its owner for read permission"),
            ) from None

    depth = directory.rstrip("/").count("/")
    for place, folders, files in os.walk(directory, onerror=refuse):
        folders.sort(key=_by_number)
        if place.count("/") - depth >= _DEEPEST:
            folders.clear()
        yield place, folders, files


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (-1, name)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _named(paths: Sequence[str]) -> list[LogFile]:
    """With names as short as they can be (torchrun's directories have long ones in common), and the ranks that they say."""
    common = os.path.commonpath([os.path.dirname(os.path.abspath(p)) for p in paths])
    names = [os.path.relpath(p, common) for p in paths]
    ranks = ranks_of([os.path.abspath(p) for p in paths])
    workers = [_WORKER_PID.search(p) for p in paths]
    return [
        LogFile(path, name, rank, f"worker pid {worker.group(1)}" if worker else "")
        for path, name, rank, worker in zip(paths, names, ranks, workers, strict=True)
    ]


def ranks_of(paths: Iterable[str]) -> list[int | None]:
    """The ranks that the names of files say, which lie together."""
    *sure, numbered = _RANKS
    known = list(paths)
    ranks: list[int | None] = []
    for path in known:
        near = "/".join(path.split("/")[-3:])
        match = next((m for form in sure if (m := form.search(near))), None)
        ranks.append(None if match is None or _WORKER_PID.search(path) else int(match.group(1)))
    if all(rank is None for rank in ranks):
        last = [int(m.group(1)) if (m := numbered.search(path)) else None for path in known]
        seen = {n for n in last if n is not None}
        if len(seen) >= 2 and seen == set(range(len(seen))):
            return last
    return ranks
