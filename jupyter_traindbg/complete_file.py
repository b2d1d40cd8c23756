"""A file that appears complete, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

from .errors import UsageError
from .language import text

__all__ = ["completed", "need_folder"]


@contextlib.contextmanager
def completed(path: str) -> Iterator[tuple[str, str]]:
    """Yields the name of an empty file to be written, and the absolute `path` that it is to have: it gets that name, with the modes of
    any other file, where all went well. One of that name is replaced. Raises `UsageError` for a path that cannot be written.
    """
    where = os.path.abspath(os.path.expanduser(path))
    folder, name = os.path.split(where)
    try:
        handle, partial = tempfile.mkstemp(prefix=f".{name}.", suffix=".partial", dir=folder)
    except OSError as e:
        raise UsageError(
            text("{folder} cannot be written to: {why}", folder=folder, why=e.strerror),
            text("name a directory that exists"),
        ) from e
    os.close(handle)
    try:
        yield partial, where
        _settle(partial, where)
    except OSError as e:
        raise UsageError(
            text("{where} cannot be written: {why}", where=where, why=e.strerror),
            text("make room, or name another place"),
        ) from e
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)  # it has another name where all went well


def need_folder(path: str) -> None:
    """Raises `UsageError` where `path` lies in a directory that is not there: before anything is asked or recorded for it."""
    folder = os.path.dirname(os.path.abspath(os.path.expanduser(path)))
    if not os.path.isdir(folder):
        raise UsageError(text("there is no directory {folder}", folder=folder), text("name one that exists"))


def _settle(partial: str, where: str) -> None:
    with open(partial, "rb+") as f:
        os.fsync(f.fileno())
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(partial, 0o666 & ~mask)
    os.replace(partial, where)
