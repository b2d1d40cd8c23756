"""Results as tables to go on with: a pyarrow Table, or a pandas DataFrame, which has the same columns of the same types."""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin

from ..errors import MissingPiece
from ..language import text
from ..model import Result, as_records

__all__ = ["arrow", "frame"]

INSTALL = "pip install pandas pyarrow"


def arrow(result: Result) -> Any:
    """See `Result.to_arrow`."""
    try:
        import pyarrow as pa
    except ImportError as e:
        raise MissingPiece(text("a table needs pyarrow"), INSTALL) from e
    made = as_records(result)
    columns = {name: pa.array(values, _type(pa, made.kinds[name])) for name, values in made.columns.items()}
    return pa.table(columns, metadata={"traindbg": json.dumps(made.about)})


def frame(result: Result) -> Any:
    """See `Result.to_frame`. By way of Arrow, whose floats tell NaN from nothing, and whose integers stay such beside nothing."""
    try:
        import pandas as pd
    except ImportError as e:
        raise MissingPiece(text("a data frame needs pandas"), INSTALL) from e
    table = arrow(result)
    made = table.to_pandas(types_mapper=pd.ArrowDtype)
    made.attrs.update(json.loads(table.schema.metadata[b"traindbg"]))
    return made


def _type(pa: Any, kind: Any) -> Any:
    if get_origin(kind) is list:
        return pa.list_(_type(pa, get_args(kind)[0]))
    return {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}[kind]
