"""Answers to queries in SQL, and the tables that there are, as results: for the tests of rendering."""

from __future__ import annotations

import math

from jupyter_traindbg.model import Silent, SqlColumn, SqlRows, SqlTable, SqlTables

__all__ = ["one_value", "query_rows", "sql_tables"]

QUERY = "select rank, step, loss, data_wait_s, rss_bytes, time_s, lr_by_group, text from steps"


def query_rows(rows: int, *, more: bool = False) -> SqlRows:
    """Numbers in several units, NaN, lists, words, and what is NULL."""
    columns = (
        SqlColumn("rank", "BIGINT"),
        SqlColumn("step", "BIGINT"),
        SqlColumn("loss", "DOUBLE"),
        SqlColumn("data_wait_s", "DOUBLE"),
        SqlColumn("max(rss_bytes)", "BIGINT"),
        SqlColumn("time_s", "DOUBLE"),
        SqlColumn("lr_by_group", "DOUBLE[]"),
        SqlColumn("forward_seen", "BOOLEAN"),
        SqlColumn("about", "STRUCT(a BIGINT)"),
        SqlColumn("not_available", "VARCHAR"),
    )
    told = tuple(
        (
            n % 2,
            n // 2,
            math.nan if n == 3 else 2.5 / (1 + n),
            None if n == 0 else 0.0015 * (1 + n % 7),
            2**30 + 4096 * n,
            1.7e9 + n,
            [1e-3, None],
            n % 2 == 0,
            {"a": n},
            "data_wait_s: nobody saw its beginning" if n == 0 else None,
        )
        for n in range(rows)
    )
    silent = (Silent(2, 4713, "process 4713 has ended"),)
    return SqlRows(QUERY, columns, told, ("steps",), more, silent, ("gpus is empty: asked in vain",), 0.11, 0.14)


def one_value() -> SqlRows:
    return SqlRows("select count(*) from steps", (SqlColumn("count_star()", "BIGINT"),), ((2048,),), ("steps",), False)


def sql_tables(tables: int) -> SqlTables:
    columns = tuple(SqlColumn(name, "DOUBLE", f"what {name} is: `whole`") for name in ("loss", "data_wait_s"))
    return SqlTables(tuple(SqlTable(f"table{n}", "a row of it", "a few ms", columns) for n in range(tables)))
