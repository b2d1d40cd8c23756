"""What a feed keeps of a job, written to a file (Parquet, Chrome trace) or served to a scraper (Prometheus)."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import NoTarget, UsageError
from ..model import Exported

if TYPE_CHECKING:
    from ..live import Feed

__all__ = ["write"]

Writer = Callable[["Feed", str], Exported]


def write(feed: Feed, path: str) -> Exported:
    """Write what `feed` keeps to `path`: a table of steps (``.parquet``) or a Chrome trace (``.json``, ``.json.gz``).

    The file appears complete, or not at all; one of that name is replaced. Raises `UsageError` for another ending or a path that cannot be
    written, `NoTarget` where no step was recorded, `MissingPiece` without pyarrow.
    """
    writer = _writer(path)
    if feed.last_step == 0:
        raise NoTarget("no step was recorded yet, so there is nothing to export", "wait for a step of the training")
    where = os.path.abspath(os.path.expanduser(path))
    folder, name = os.path.split(where)
    try:
        handle, partial = tempfile.mkstemp(prefix=f".{name}.", suffix=".partial", dir=folder)
    except OSError as e:
        raise UsageError(f"{folder} cannot be written to: {e.strerror}", "name a directory that exists") from e
    os.close(handle)
    try:
        written = writer(feed, partial)
        _settle(partial, where)
    except OSError as e:
        raise UsageError(f"{where} cannot be written: {e.strerror}", "make room, or name another place") from e
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)  # it has another name where all went well
    return Exported(**{**vars(written), "path": where, "bytes": os.path.getsize(where)})


def _writer(path: str) -> Writer:
    if path.endswith(".parquet"):
        from .parquet import write_parquet

        return write_parquet
    if path.endswith((".json", ".json.gz")):
        from .trace import write_trace

        return write_trace if path.endswith(".json") else _zipped
    raise UsageError(f"{path} has no ending that says what to write", "use run.parquet, trace.json or trace.json.gz")


def _zipped(feed: Feed, path: str) -> Exported:
    from .trace import write_trace

    return write_trace(feed, path, zipped=True)


def _settle(partial: str, where: str) -> None:
    """Give the complete file its name, with the modes of any other file."""
    with open(partial, "rb+") as f:
        os.fsync(f.fileno())
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(partial, 0o666 & ~mask)
    os.replace(partial, where)
