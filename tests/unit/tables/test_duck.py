"""A query over plain rows, in its process: what it gives, what is refused, and how little it may use."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cases import each
from support import needs_duckdb

from jupyter_traindbg import tables
from jupyter_traindbg.errors import BadQuery, DeadlineExceeded, MissingPiece
from jupyter_traindbg.language import speaking
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.tables import duck
from jupyter_traindbg.tables.base import Column
from jupyter_traindbg.tables.duck import Found, Query

pytestmark = needs_duckdb

PATIENT_S = 60.0
TABLES = {
    "steps": (
        Column("rank", int, "the rank"),
        Column("loss", float, "the loss"),
        Column("name", str, "a name"),
        Column("lr", list[float], "rates"),
        Column("sizes", list[list[int]], "shapes"),
        Column("seen", bool, "whether"),
    ),
    "ranks": (Column("rank", int, "the rank"), Column("pid", int, "its process")),
    "objects": (Column("rank", int, "the rank"),),
}
ROWS: Mapping[str, Sequence[Sequence[Any]]] = {
    "steps": [
        [0, 0.5, "a", [1e-3, None], [[2, 3], []], True],
        [1, math.nan, "b\0'\udc80", (), None, False],
        [1, None, None, None, None, None],
    ],
    "ranks": [[0, 70], [1, 71]],
    "objects": [[0]],
}


def asked(query: str, *, within_s: float = PATIENT_S, needed: list[str] | None = None) -> Found:
    """The rows of a query over `ROWS`; the tables that it needs are put into `needed`."""
    with Query(query, TABLES, time.monotonic() + within_s) as one:
        names = one.needs()
        if needed is not None:
            needed += names
        return one.run({name: ROWS[name] for name in names})


# --- what it gives ---------------------------------------------------------------------------------------------------


def test_rows_come_back_as_they_went_in() -> None:
    found = asked("from steps")
    assert found.columns == [
        ("rank", "BIGINT"),
        ("loss", "DOUBLE"),
        ("name", "VARCHAR"),
        ("lr", "DOUBLE[]"),
        ("sizes", "BIGINT[][]"),
        ("seen", "BOOLEAN"),
    ]
    first, second, third = found.rows
    assert first == [0, 0.5, "a", [1e-3, None], [[2, 3], []], True]
    assert math.isnan(second[1]), "which is not NULL"
    assert second[2:] == ["b\0'\\udc80", [], None, False]
    assert third == [1, None, None, None, None, None]
    assert found.more is False


@each(
    ("query", "tables_read"),
    [
        ("select 1", []),
        ("select count(*) from steps", ["steps"]),
        ("SELECT count(*) FROM Steps s JOIN Ranks r USING (rank);", ["ranks", "steps"]),
        ("with steps as (select 1 as a) select * from steps", []),
        ("select 'steps' as ranks", []),
        ("select (select max(pid) from ranks) from steps", ["ranks", "steps"]),
        ("select * from (pivot steps on rank in (0, 1) using avg(loss) group by name)", ["steps"]),
        ("summarize ranks", ["ranks"]),
        ("describe steps", []),
        ("show tables", []),
        ("explain select * from steps", []),
        ("explain analyze select count(*) from steps", ["steps"]),
        ("-- a comment\nvalues (1), (2)", []),
        ("/* steps */ from ranks", ["ranks"]),
        ('select "rank" from "steps"', ["steps"]),
        ("select count(*) from main.steps", ["steps"]),
    ],
)
def test_only_the_tables_that_a_query_reads_are_needed(query: str, tables_read: list[str]) -> None:
    needed: list[str] = []
    found = asked(query, needed=needed)
    assert needed == tables_read
    assert found.rows


def test_values_of_other_types_become_plain_ones() -> None:
    found = asked(
        "select sum(rank), 1.5::decimal(4, 2), date '2026-03-01', interval 3 day, {'a': [1]}, map {'k': 2}, '\\xAB'::blob, 2::utinyint"
        " from steps"
    )
    assert found.rows == [[2, 1.5, "2026-03-01", "3 days, 0:00:00", {"a": [1]}, {"k": 2}, "ab", 2]]


def test_integers_of_more_than_64_bits_and_other_odd_values_go_in() -> None:
    with Query("select rank, name from steps", TABLES, time.monotonic() + PATIENT_S) as one:
        assert one.needs() == ["steps"]
        found = one.run({"steps": [[2**70, 1, 42, None, None, None]]})
    assert found.rows == [[None, "42"]]


def test_there_are_no_more_rows_than_a_query_may_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck, "MOST_ROWS", 1500)
    found = asked("from range(100000)")
    assert (len(found.rows), found.more) == (1500, True)
    assert asked("from range(1500)").more is False
    monkeypatch.setattr(duck, "MOST_BYTES", 1000)
    assert len(asked("select repeat('x', 100) from range(100)").rows) == 10


@each("name", tables.names())
def test_the_columns_of_every_table_can_be_written_without_quotes(name: str) -> None:
    columns = tables.columns(name)
    query = (
        f"select {', '.join(f't.{c.name}, {c.name}' for c in columns)} from {name} t where {columns[0].name} is null"
    )
    with Query(query, {name: columns}, time.monotonic() + PATIENT_S) as one:
        assert one.needs() == [name]
        found = one.run({name: [[None for _ in columns]]})
    assert len(found.rows) == 1


# --- what is refused -------------------------------------------------------------------------------------------------


@each(
    ("query", "said"),
    [
        ("copy steps to '{file}'", "COPY is not run here"),
        ("copy (select 1) to '{file}' (format parquet)", "COPY is not run here"),
        ("explain analyze copy steps to '{file}'", "COPY is not run here"),
        ("export database '{file}'", "EXPORT is not run here"),
        ("attach '{file}' as other", "ATTACH is not run here"),
        ("install httpfs", "LOAD is not run here"),
        ("load httpfs", "LOAD is not run here"),
        ("pragma database_list", "PRAGMA is not run here"),
        ("set memory_limit = '100GB'", "SET is not run here"),
        ("reset memory_limit", "SET is not run here"),
        ("call pragma_version()", "CALL is not run here"),
        ("create table x as select 1", "CREATE is not run here"),
        ("create macro f() as 1", "CREATE is not run here"),
        ("insert into ranks values (1, 2)", "INSERT is not run here"),
        ("update ranks set rank = 1", "UPDATE is not run here"),
        ("delete from ranks", "DELETE is not run here"),
        ("drop table steps", "DROP is not run here"),
        ("begin", "TRANSACTION is not run here"),
        ("prepare p as select 1", "PREPARE is not run here"),
        ("select 1; drop table steps", "one query at a time"),
        ("select 1; select 2", "one query at a time"),
        ("", "there is no query"),
        (" ; -- nothing", "there is no query"),
        ("pivot steps on rank using avg(loss)", "PIVOT looks for its columns"),
        ("from query('from ' || 'steps')", "a query in a text"),
        ("from query_table('steps')", "a query in a text"),
        ("from read_csv('{secret}')", "a query opens no files, no network and no extensions"),
        ("from read_text('{secret}')", "a query opens no files, no network and no extensions"),
        ("from read_parquet('https://127.0.0.1:1/x')", "a query opens no files, no network and no extensions"),
        ("from glob('/etc/*')", "a query opens no files, no network and no extensions"),
        ("from '{secret}'", "there is no table "),
        ("from TABLES", "there is no table TABLES"),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select 1/'a' from steps", "could not convert string 'a'"),
    ],
)
def test_what_does_more_than_read_is_refused_in_one_line(query: str, said: str, tmp_path: Path) -> None:
    written, secret = tmp_path / "written", tmp_path / "secret"
    secret.write_text("password")
    with pytest.raises(BadQuery) as refused:
        asked(query.replace("{file}", str(written)).replace("{secret}", str(secret)))
    assert said.lower() in str(refused.value).lower()
    assert "\n" not in str(refused.value)
    assert refused.value.next_step
    assert "password" not in str(refused.value)
    assert not written.exists()


@each(
    ("query", "step"),
    [
        ("select los from steps", 'did you mean "loss"'),
        ("select s.los from steps s", 'did you mean "loss"'),
        ("from stepz", "did you mean `steps`"),
        ("select * from steps join rankz using (rank)", "did you mean `ranks`"),
        ("from nothing_like_it", "there are steps, ranks, objects"),
    ],
)
def test_what_was_probably_meant_is_said(query: str, step: str) -> None:
    with pytest.raises(BadQuery) as refused:
        asked(query)
    assert step in str(refused.value)


@each(
    "query",
    [
        "",
        "drop table steps",
        "from query('from steps')",
        "from stepz",
        "from nothing",
        "select los from steps",
        "selec 1",
    ],
)
def test_a_refusal_is_in_the_readers_language(query: str) -> None:
    for language, is_chinese in (("zh", True), ("en", False)):
        with speaking(language), pytest.raises(BadQuery) as refused:
            asked(query)
        assert bool(re.search("[\u3400-\u9fff]", str(refused.value))) is is_chinese


@each("query", ["select 1 from steps a, steps b where error('a' || a.rank)"])
def test_what_fails_while_it_runs_is_said_in_one_line(query: str) -> None:
    with pytest.raises(BadQuery) as refused:
        asked(query)
    assert "\n" not in str(refused.value)


# --- what it may use -------------------------------------------------------------------------------------------------


@each(
    "query",
    [
        "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
        "select count(*) from range(100000) a(x), range(100000) b(y), range(100000) c(z) where x * y + z = 7",
        "select sleep_ms(600000)",
    ],
)
def test_a_query_that_does_not_end_is_ended(query: str) -> None:
    with pytest.raises(DeadlineExceeded, match="the query is not done after"):
        asked(query, within_s=2.0)
    assert not [p for p in procfs.descendants(os.getpid()) if "duck_helper" in " ".join(procfs.command(p.pid))]


@each(
    "query",
    [
        "select length(repeat('x', 3000000000))",
        "select length(range(300000000))",
        "select list(repeat('x', 1000) || r) from range(10000000) t(r)",
        "select length(repeat('x', 3000000000) || rank) from steps",
    ],
)
def test_a_query_has_so_much_memory_and_no_more(query: str) -> None:
    """In the process that asks, one value of DuckDB's may take any amount."""
    with pytest.raises(BadQuery, match=r"1 GiB of memory|ended its helper process"):
        asked(query)


def test_a_helper_that_stands_still_does_not_hold_up_who_writes_to_it() -> None:
    rows = [[n, 0.5, "a" * 100, None, None, None] for n in range(10_000)]
    with Query("from steps", TABLES, time.monotonic() + 2.0) as one:
        assert one.needs() == ["steps"]
        os.kill(one._helper.pid, signal.SIGSTOP)
        with pytest.raises(DeadlineExceeded, match="the query is not done after"):
            one.run({"steps": rows})
    assert one._helper.returncode == -signal.SIGKILL


def test_the_helper_has_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    with Query("select 1", TABLES, time.monotonic() + PATIENT_S) as one:
        assert one.needs() == []
        assert procfs.whole_environ(one._helper.pid).keys() <= {"LD_LIBRARY_PATH"}


def test_without_duckdb_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPiece) as missing:
        asked("select 1")
    assert str(missing.value) == "SQL needs DuckDB; pip install 'jupyter-traindbg[sql]'"


def test_an_old_python_has_no_duckdb_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(duck, "OLDEST_PYTHON", (99, 0))
    with pytest.raises(MissingPiece, match=r"SQL needs DuckDB; ask from Python 3\.11 or newer"):
        asked("select 1")


def test_a_duckdb_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "duckdb").mkdir()
    old = "__version__ = '1.1.3'\n\n\nclass DuckDBPyConnection:\n    pass\n"
    (tmp_path / "duckdb" / "__init__.py").write_text(old)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingPiece, match=r"this is DuckDB 1\.1\.3, and 2\.0 or newer is needed"):
        asked("select 1")
