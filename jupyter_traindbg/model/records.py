"""A result as a flat table, in plain Python: for each column its kind and its values.

A class of results says in one line where its rows are (`Result._rows`): ``"ranks.optimizers.groups"`` is a row for each param group of each
optimizer of each rank. A path may end in plain values, ``"rows.values.ranks:rank"``: they are the column ``rank``. Of records,
``"processes.threads.frames:depth"``, the column ``depth`` says which one it is, from 0. An empty path: the result itself is the only row.

What is in a row:

- all fields of the innermost record. A record in it is spread out (``source_file``, ``source_line``), a sequence of records is counted,
  a sequence of plain values stays a list, a mapping is JSON;
- of the records round it only plain values, such as the rank's number;
- of the result itself nothing: what holds for all rows is in ``about``.

The rows of a query in SQL are as the query has them.

A record round others that has none in it (a rank without a step) is a row, too, with nothing in the columns of the inner ones.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .base import NotAvailable, Result, Silent, Worded, _plain
from .sql import SqlRows

__all__ = ["Records", "as_records"]

Kind = Any
"""Of a column: bool, int, float, str, or ``list`` of one. Of a field besides: dict, or a dataclass where there is a record in it."""
Row = dict[str, Any]

_MISSING, _SILENT = "_missing", "silent"
_LARGEST = 2**63 - 1
_SQL_INT, _SQL_FLOAT = re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?"), re.compile(r"FLOAT|DOUBLE|DECIMAL")


@dataclass(frozen=True)
class Records:
    """``kinds`` and ``columns`` have the same keys, in order. What was not measured is None, with its reason in ``NAME_missing``, a column
    that is only there where it has something to say. ``about`` is JSON-ready.
    """

    kinds: Mapping[str, Kind]
    columns: Mapping[str, Sequence[Any]]
    about: Mapping[str, Any]

    @property
    def rows(self) -> list[Row]:
        return [dict(zip(self.columns, values, strict=True)) for values in zip(*self.columns.values(), strict=True)]


def as_records(result: Result) -> Records:
    """`result` as a table. The columns of a class are the same whatever is in it, but for ``NAME_missing`` and ``silent``.

    ``silent`` has the reason of a rank that gave no answer, in a row of its own where the rank has none. Where rows have no rank, such
    ranks are in ``about``.
    """
    if isinstance(result, SqlRows):
        return _of_query(result)
    levels = [level.split(":") for level in result._rows.split(".") if level]
    kinds = dict(_columns(type(result), levels))
    rows = list(_flat(result, levels, {}))
    about = _about(result) if levels else {}
    silent = getattr(result, "silent", ())
    if silent and "rank" in kinds:
        _tell_silences(rows, silent, [name for name in ("rank", "pid") if name in kinds])
        kinds[_SILENT] = str
    elif silent:
        about[_SILENT] = _plain(silent)
    seen = {name for row in rows for name in row}
    there = {name: kind for name, kind in kinds.items() if name in seen or not name.endswith(_MISSING)}
    settled = {name: _settled([row.get(name) for row in rows], kind) for name, kind in there.items()}
    return Records(
        {name: kind for name, (kind, _) in settled.items()},
        {name: values for name, (_, values) in settled.items()},
        about,
    )


def _of_query(result: SqlRows) -> Records:
    """The rows of a query, which has its own columns."""
    settled = {
        _text(column.name): _settled([_cell(row[n]) for row in result.rows], _sql_kind(column.type))
        for n, column in enumerate(result.columns)
    }
    about = {name: value for name, value in _about(result).items() if name != "rows"}
    return Records(
        {name: kind for name, (kind, _) in settled.items()},
        {name: values for name, (_, values) in settled.items()},
        {**about, _SILENT: _plain(result.silent)} if result.silent else about,
    )


def _sql_kind(name: str) -> Kind:
    """What values of SQL's type `name` are here; text, where they are of no other kind."""
    if name.endswith("[]"):
        return list[_sql_kind(name.removesuffix("[]"))]  # type: ignore[misc]
    if _SQL_FLOAT.match(name):
        return float
    return bool if name == "BOOLEAN" else int if _SQL_INT.fullmatch(name) else str


# --- which columns there are ---------------------------------------------------------------------------------------


def _columns(cls: type, levels: Sequence[Sequence[str]]) -> Iterator[tuple[str, Kind]]:
    """Of the rows at `levels` below a record of `cls`, by type hints alone."""
    if not levels:
        yield from _spread(cls)
        return
    (field, *label), *deeper = levels
    item = _item(_fields(cls)[field])
    if label:
        yield label[0], int if _is_record(item) else item
    if deeper:
        yield from ((name, kind) for name, kind in _spread(item) if name.removesuffix(_MISSING) in _plain_fields(item))
    if deeper or _is_record(item):
        yield from _columns(item, deeper)


def _spread(cls: type) -> Iterator[tuple[str, Kind]]:
    for name, kind in _fields(cls).items():
        if _is_record(kind):
            yield from ((f"{name}_{inner}", its) for inner, its in _spread(kind))
        else:
            yield name, int if name in _counted_fields(cls) else str if kind is dict else kind
        yield name + _MISSING, str


@functools.cache
def _fields(cls: type) -> Mapping[str, Kind]:
    hints = get_type_hints(cls)
    return {f.name: _kind(hints[f.name]) for f in dataclasses.fields(cls) if not f.name.startswith("_")}


@functools.cache
def _plain_fields(cls: type) -> frozenset[str]:
    return frozenset(name for name, kind in _fields(cls).items() if kind in (bool, int, float, str))


@functools.cache
def _counted_fields(cls: type) -> frozenset[str]:
    return frozenset(name for name, kind in _fields(cls).items() if _is_record(_item(kind)))


def _is_record(thing: Any) -> bool:
    worded = thing if isinstance(thing, type) else type(thing)
    return dataclasses.is_dataclass(thing) and not issubclass(worded, Worded)


def _item(kind: Kind) -> Kind:
    """What a list is of; None of what is no list."""
    return kind.__args__[0] if isinstance(kind, types.GenericAlias) else None


def _kind(hint: Any) -> Kind:
    """What a field holds if it holds anything: None and `NotAvailable` are no kind. Text, where that may be several things."""
    origin = get_origin(hint)
    if origin is Literal:
        return type(get_args(hint)[0])
    inner = {_kind(one) for one in get_args(hint) if one not in (type(None), NotAvailable, Ellipsis)}
    only = inner.pop() if len(inner) == 1 else str
    if origin in (Union, types.UnionType):
        return only
    if origin and issubclass(origin, Sequence):
        return list[only]  # type: ignore[valid-type]
    if origin and issubclass(origin, Mapping):
        return dict
    return hint if hint in (bool, int, float, str) or _is_record(hint) else str


# --- what is in them -----------------------------------------------------------------------------------------------


def _flat(record: Any, levels: Sequence[Sequence[str]], outer: Row) -> Iterator[Row]:
    if not levels:
        yield outer | _values(record) if _is_record(record) else outer
        return
    (field, *label), *deeper = levels
    items = getattr(record, field) or ()
    for place, item in enumerate(items):
        cls: Any = type(item)
        own = _values(item, _plain_fields(cls)) if deeper and _is_record(item) else {}
        if label:
            own[label[0]] = place if _is_record(item) else _cell(item)
        yield from _flat(item, deeper, outer | own)
    if outer and not items:
        yield outer


def _values(record: Any, wanted: frozenset[str] | None = None, before: str = "") -> Row:
    """The fields of `record`, or of those the `wanted` ones."""
    cls: Any = type(record)
    counted = _counted_fields(cls)
    row: Row = {}
    for name in _fields(cls):
        value = getattr(record, name)
        if value is None or (wanted is not None and name not in wanted):
            continue
        if isinstance(value, NotAvailable):
            row[f"{before}{name}{_MISSING}"] = _text(value.reason)
        elif _is_record(value):
            row |= _values(value, None, f"{before}{name}_")
        else:
            row[before + name] = len(value) if name in counted else _cell(value)
    return row


def _about(result: Result) -> dict[str, Any]:
    """What is about all rows of `result`: its own fields, but for records."""
    cls: Any = type(result)
    return {
        name: _plain(getattr(result, name))
        for name, kind in _fields(cls).items()
        if not _is_record(_item(kind) or kind)
    }


def _tell_silences(rows: list[Row], silent: Sequence[Silent], names: Sequence[str]) -> None:
    """In the rows of each silent rank, or in one of its own; `names` are the columns that say which rank it is."""
    of_rank: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        of_rank[tuple(row.get(name) for name in names)].append(row)
    for one in silent:
        rank = {name: getattr(one, name) for name in names}
        if tuple(rank.values()) not in of_rank:
            rows.append(rank)
            of_rank[tuple(rank.values())] = [rank]
        for row in of_rank[tuple(rank.values())]:
            row[_SILENT] = _text(one.reason)


def _cell(value: Any) -> Any:
    """Plain values as they are, of objects nothing."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (str, Mapping, Worded)):
        return _text(value)
    return [_cell(one) for one in value] if isinstance(value, Sequence) else None


def _text(value: Any) -> str:
    """`value` in a text column. A file's name need not be UTF-8: what is not is written as an escape."""
    if not isinstance(value, str):
        plain = _plain(value)
        value = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, default=lambda _: None)
    return str(value.encode("utf-8", "backslashreplace").decode())


def _settled(values: Sequence[Any], kind: Kind) -> tuple[Kind, list[Any]]:
    """A column of one kind: of `kind` where all `values` are, of float where all are numbers, else of text."""
    there = [value for value in values if value is not None]
    kinds = set(map(type, there))
    if _item(kind) and kinds <= {list}:
        item, _ = _settled([one for value in there for one in value], _item(kind))
        return list[item], [None if value is None else _settled(value, item)[1] for value in values]  # type: ignore[valid-type]
    too_large = int in kinds and max(abs(value) for value in there if type(value) is int) > _LARGEST
    if kinds <= {kind} and not too_large:
        return kind, list(values)
    if kinds <= {int, float} and kind in (int, float) and not too_large:
        return float, [None if value is None else float(value) for value in values]
    return str, [None if value is None else _text(value) for value in values]
