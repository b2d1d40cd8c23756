"""What a feed keeps of a job, written to a file (Parquet, Chrome trace) or served to a scraper (Prometheus)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..complete_file import completed
from ..errors import NoTarget, UsageError
from ..language import text
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
        raise NoTarget(
            text("no step was recorded yet, so there is nothing to export"), text("wait for a step of the training")
        )
    with completed(path) as (partial, where):
        written = writer(feed, partial)
    return Exported(**{**vars(written), "path": where, "bytes": os.path.getsize(where)})


def _writer(path: str) -> Writer:
    if path.endswith(".parquet"):
        from .parquet import write_parquet

        return write_parquet
    if path.endswith((".json", ".json.gz")):
        from .trace import write_trace

        return write_trace if path.endswith(".json") else _zipped
    raise UsageError(
        text("{path} has no ending that says what to write", path=path),
        text("use run.parquet, trace.json or trace.json.gz"),
    )


def _zipped(feed: Feed, path: str) -> Exported:
    from .trace import write_trace

    return write_trace(feed, path, zipped=True)
