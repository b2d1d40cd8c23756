"""What is shown of a query in SQL: its one value, its rows in their units, a plan, and what is left out."""

from __future__ import annotations

import math
from typing import Any

from answers import answer
from cases import each
from render_scenes_sql import one_value, query_rows, sql_tables

from jupyter_traindbg import render
from jupyter_traindbg.language import speaking
from jupyter_traindbg.model import SqlColumn, SqlRows
from jupyter_traindbg.render.column_units import unit_of
from jupyter_traindbg.render.views.sql_rows import EXPLAINED, MOST


def rows(columns: dict[str, str], *told: tuple[Any, ...], **more: Any) -> SqlRows:
    return SqlRows("select", tuple(SqlColumn(name, kind) for name, kind in columns.items()), told, ("steps",), **more)


def shown(result: SqlRows, **options: Any) -> str:
    return render.text(result, 200, **options)


@each(
    ("column", "unit"),
    [
        (SqlColumn("data_wait_s", "DOUBLE"), "s"),
        (SqlColumn("avg(data_wait_s)", "DOUBLE"), "s"),
        (SqlColumn("max(rss_bytes)", "BIGINT"), "bytes"),
        (SqlColumn("time_s", "DOUBLE"), "moment"),
        (SqlColumn("min(s.time_s)", "DOUBLE"), "moment"),
        (SqlColumn("count(data_wait_s)", "BIGINT"), ""),
        (SqlColumn("(forward_s / compute_s)", "DOUBLE"), ""),
        (SqlColumn("data_wait_s", "VARCHAR"), ""),
        (SqlColumn("lr_by_group", "DOUBLE[]"), ""),
        (SqlColumn("loss", "DOUBLE"), ""),
    ],
)
def test_the_unit_of_a_column_is_the_one_in_its_name(column: SqlColumn, unit: str) -> None:
    assert unit_of(column) == unit


@each(
    ("result", "said"),
    [
        (one_value(), "count_star() = 2048 · steps"),
        (rows({"max(rss_bytes)": "BIGINT"}, (2**30,)), "max(rss_bytes) = 1 GiB · steps"),
        (rows({"avg(loss)": "DOUBLE"}, (math.nan,)), "avg(loss) = NaN · steps"),
        (rows({"avg(loss)": "DOUBLE"}, (None,)), "avg(loss) = – · steps"),
        (rows({"rank": "BIGINT"}), "no rows · steps"),
        (rows({"rank": "BIGINT"}, (0,), (1,)), "2 rows · steps"),
        (rows({"rank": "BIGINT", "step": "BIGINT"}, (0, 7)), "1 row · steps"),
    ],
)
def test_the_answer_is_the_one_value_or_how_many_rows_there_are(result: SqlRows, said: str) -> None:
    assert said in answer(result)


def test_one_value_needs_no_table() -> None:
    assert len(shown(one_value()).splitlines()) == 1


def test_a_plan_is_drawn_as_duckdb_draws_it() -> None:
    plan = "┌─────┐\n│ SEQ │\n└─────┘"
    said = shown(rows(dict.fromkeys(EXPLAINED, "VARCHAR"), ("physical_plan", plan))).replace("\xa0", " ")
    assert plan.splitlines() == [line.strip() for line in said.splitlines()[1:]]


def test_a_query_with_more_rows_than_it_may_give_says_that_these_are_the_first() -> None:
    assert "the query has more rows; these are the first 3" in shown(query_rows(3, more=True))
    assert "these are the first" not in shown(query_rows(3))


def test_of_many_rows_the_first_are_shown_and_the_others_counted() -> None:
    many = rows({"step": "BIGINT"}, *((n,) for n in range(MOST + 5)))
    said = shown(many, full=True)
    assert f"{MOST - 1}" in said.split()
    assert f"{MOST}" not in said.split()
    assert "5 rows more: `to_frame()` and `--csv` give all" in said


def test_what_is_to_be_said_of_a_table_is_said_also_where_there_are_no_rows() -> None:
    assert "gpus is empty: asked in vain" in shown(query_rows(0))


def test_a_rounded_value_shows_its_whole_self_under_the_pointer() -> None:
    page = render.html(rows({"rank": "BIGINT", "data_wait_s": "DOUBLE"}, (0, 0.0123456789)), styled=False)
    assert "0.0123456789" in page


def test_both_are_said_in_the_readers_language() -> None:
    with speaking("zh"):
        rows_said, tables_said = shown(query_rows(3, more=True)), render.text(sql_tables(2), 200, full=True)
    assert rows_said.startswith("3 行 · steps")
    assert "查询还有更多行，这里是前 3 行" in rows_said
    assert tables_said.startswith("可以用 SQL 查询 2 个表 · 例如 ")
    assert "table0：2 列" in tables_said
    for english in ("a row is", "costs", "column", "meaning", "type"):
        assert english not in tables_said


def test_the_tables_are_listed_with_what_their_columns_mean() -> None:
    said = render.text(sql_tables(2), 200, full=True)
    assert "2 tables can be asked in SQL" in said.splitlines()[0]
    assert said.count("what data_wait_s is: `whole`") == 2
