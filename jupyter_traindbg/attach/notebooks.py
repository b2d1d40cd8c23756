"""Which notebook a kernel of this host belongs to: what its server told it at its start, or, where that cannot be right any more, what the
servers tell now.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from ..command_lines import kernel_name
from ..notebook import VARIABLE
from ..outside import procfs
from ..outside.procfs import Process

if TYPE_CHECKING:
    from http.client import HTTPConnection

__all__ = ["Kernel", "is_called", "notebooks"]

LIMIT_S = 0.5
"""For file systems and servers together."""
_DRIVE = "RTC:"
"""Stands before a notebook's name while it is edited together."""
_MOST_BYTES = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True)
class Kernel:
    """A running kernel: its process, its connection file, and what `VARIABLE` is in its environment ("" where it is not there)."""

    pid: int
    file: str
    told: str


def notebooks(kernels: Sequence[Kernel], table: Mapping[int, Process]) -> dict[int, str]:
    """The paths of the notebooks that the `kernels` belong to, by their pids; those of which it is not known are left out.

    A notebook that is not there under its name any more, or seems to have two kernels, was renamed: the running servers are asked then,
    and where none knows, it keeps the name that it had. 0.3 ms; a few where servers are asked; `LIMIT_S` at most. Raises nothing.
    """
    found = {k.pid: _path(k.told) for k in kernels if _is_document(k.told) and not _is_inherited(k, kernels, table)}
    if not found:
        return {}
    ends = time.monotonic() + LIMIT_S
    claims = Counter(found.values())
    missing = set[str]().union(*_answers([partial(_missing, claims)], ends))  # their file system may not answer
    doubtful = [k for k in kernels if k.pid in found and (claims[found[k.pid]] > 1 or found[k.pid] in missing)]
    known: dict[str, str] = {}
    for sessions in _answers([partial(_sessions, server, ends) for server in _servers(doubtful)], ends):
        known |= sessions
    return found | {k.pid: known[kernel_name(k.file)] for k in doubtful if kernel_name(k.file) in known}


def is_called(path: str, name: str) -> bool:
    """Whether a notebook's `path` is, or ends with, the `name` that somebody typed: ``train.ipynb``, ``project/train.ipynb``."""
    typed = PurePath(os.path.expanduser(name)).parts
    return bool(typed) and PurePath(path).parts[-len(typed) :] == typed


def _path(told: str) -> str:
    return told.replace(_DRIVE, "")


def _is_document(path: str) -> bool:
    """A console's name is made up, and no file's."""
    return bool(os.path.splitext(path)[1])


def _is_inherited(kernel: Kernel, kernels: Sequence[Kernel], table: Mapping[int, Process]) -> bool:
    """Whether the variable is that of another kernel, in which this one was started (by papermill, say)."""
    same = {other.pid for other in kernels if other.told == kernel.told}
    if os.environ.get(VARIABLE) == kernel.told:
        same.add(os.getpid())  # which is not among them
    above = table.get(kernel.pid)
    while above is not None and above.parent > 1:
        if above.parent in same:
            return True
        above = table.get(above.parent)
    return False


def _missing(paths: Iterable[str]) -> set[str]:
    """A relative path is relative to the directory of a server, which only the server knows."""
    return {path for path in paths if not (os.path.isabs(path) and os.path.exists(path))}


# --- servers --------------------------------------------------------------------------------------------------------


def _servers(kernels: Sequence[Kernel]) -> Iterator[Mapping[str, Any]]:
    """What running servers have written about themselves beside the connection files of the `kernels`, in Jupyter's runtime directory."""
    for directory in {os.path.dirname(k.file) for k in kernels}:
        for file in glob.glob(os.path.join(glob.escape(directory), "jpserver-*.json")):
            yield from _running(file)


def _running(file: str) -> Iterator[Mapping[str, Any]]:
    """The server that has written `file`, unless its port may be somebody else's now."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(file, encoding="utf-8") as f:
            server = json.load(f)
        if procfs.uid(int(server["pid"])) == os.stat(file).st_uid:
            yield server


def _sessions(server: Mapping[str, Any], ends: float) -> dict[str, str]:
    """The paths of a server's notebooks by the ids of their kernels; empty where it does not answer as it should."""
    try:
        with contextlib.closing(_connection(server, max(0.01, ends - time.monotonic()))) as connection:
            where = f"{server['base_url']}api/sessions?no_track_activity=1"  # a server that is idle stays so
            connection.request("GET", where, headers={"Authorization": f"token {server['token']}"})
            sessions = json.loads(connection.getresponse().read(_MOST_BYTES))
        root = server["root_dir"]
        return {s["kernel"]["id"]: os.path.join(root, _path(s["path"])) for s in sessions if _is_document(s["path"])}
    except Exception:  # noqa: BLE001 - whatever it is that came: the notebook keeps the name that it had
        return {}


def _connection(server: Mapping[str, Any], timeout_s: float) -> HTTPConnection:
    """A server's certificate is mostly its own: that the process which has written its address is there says as much."""
    from http import client

    if not server["secure"]:
        return client.HTTPConnection("127.0.0.1", server["port"], timeout=timeout_s)
    import ssl

    return client.HTTPSConnection(
        "127.0.0.1", server["port"], timeout=timeout_s, context=ssl._create_unverified_context()
    )


def _answers(asks: Iterable[Callable[[], T]], ends: float) -> list[T]:
    """What each of them returns, all asked at once; those that take longer than until `ends` are left out. They must not raise."""
    answers: SimpleQueue[T] = SimpleQueue()
    threads = [threading.Thread(target=lambda ask=ask: answers.put(ask()), daemon=True) for ask in asks]
    for thread in threads:
        thread.start()
    found: list[T] = []
    with contextlib.suppress(Empty):
        for _ in threads:
            found.append(answers.get(timeout=max(0.0, ends - time.monotonic())))
    return found
