"""A row per rank and step as Parquet: for pandas, polars, DuckDB."""

from __future__ import annotations

import json
from typing import Any

from .._version import __version__
from ..errors import MissingPiece
from ..language import text
from ..live import SERIES, Feed
from ..model import Exported
from . import table

__all__ = ["write_parquet"]

UNITS = {"": "1", "s": "s", "B": "byte", "%": "percent"}


def write_parquet(feed: Feed, path: str) -> Exported:
    """Columns ``rank``, ``who``, ``step``, ``steps`` (how many a row stands for), ``time`` (UTC) and one for each series.

    A value that was not measured is null; one that was NaN is NaN. One row group
    per rank, so that only one rank's copy is in memory. Units stand in the fields' metadata, target and events in the file's.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as e:
        raise MissingPiece(text("Parquet needs pyarrow"), "pip install 'jupyter-traindbg[sql]'") from e
    names, who = table.names(feed), feed.rank_names
    schema = _schema(pa, feed, names)
    rows = thinned = ranks = 0
    first, last = feed.last_step, 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in table.by_rank(feed):
            n = len(part.step)
            columns: list[Any] = [
                pa.array([part.rank] * n, pa.int32()),
                pa.array([who[part.rank]] * n, pa.string()).dictionary_encode(),
                pa.array(part.step, pa.int64()),
                pa.array(part.count, pa.int32()),
                pa.array((part.time_s * 1e6).astype("int64"), pa.timestamp("us", "UTC")),
                *(pa.array(part.values[name], pa.float64(), mask=part.missing[name]) for name in names),
            ]
            writer.write_table(pa.table(columns, schema=schema))
            rows, thinned, ranks = rows + n, thinned + int((part.count > 1).sum()), ranks + 1
            first, last = min(first, int(part.step[0])), max(last, int(part.step[-1]))
    note = "rows with steps > 1 are means: the single steps were too many to keep" if thinned else ""
    return Exported(path, "parquet", 0, ranks, first, last, rows, thinned, note)


def _schema(pa: Any, feed: Feed, names: list[str]) -> Any:
    known = {s.name: s for s in SERIES}
    events = [
        {"kind": e.kind, "step": e.step, "time_s": e.time_s, "ranks": e.ranks, "text": e.text} for e in feed.events
    ]
    about = {"target": feed.job.name, "version": __version__, "events": events, "state": feed.state.words}
    fields = [
        pa.field("rank", pa.int32()),
        pa.field("who", pa.dictionary(pa.int32(), pa.string())),
        pa.field("step", pa.int64()),
        pa.field("steps", pa.int32()),
        pa.field("time", pa.timestamp("us", "UTC")),
    ]
    for name in names:
        described = {"unit": UNITS[known[name].unit], "label": known[name].label}
        fields.append(pa.field(name, pa.float64(), metadata=described))
    return pa.schema(fields, metadata={"traindbg": json.dumps(about, ensure_ascii=False)})
