"""%sql, %%sql and `traindbg sql`: which words are the job and which the query, what is printed, what Tab offers. The job is not there."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from cases import each
from IPython.core.completer import CompletionContext
from IPython.core.interactiveshell import InteractiveShell
from render_scenes_sql import query_rows

from jupyter_traindbg import cli, commands, language
from jupyter_traindbg.errors import BadQuery, UsageError
from jupyter_traindbg.magics import base, completion, ipython
from jupyter_traindbg.magics import sql as verb
from jupyter_traindbg.model import Result, SqlRows, SqlTables

QUERY = "select rank, 'it''s' as x from steps where loss > 2"


class Job:
    """A session whose job gives these rows, and notes what it was asked."""

    current = None
    named: str | None = None

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, str, float]] = []

    @contextlib.contextmanager
    def job(self, target: str | None, timeout: float) -> Iterator[Any]:
        self.named = target
        yield self

    def sql(self, query: str, *, timeout: float) -> SqlRows:
        self.asked.append((self.named, query, timeout))
        return query_rows(3)


def run(words: list[str], job: Job | None = None) -> Result:
    return base.run("sql", base.parser("sql").parse_args(words), job or Job())  # type: ignore[arg-type]


# --- words


@each(
    ("line", "target", "query"),
    [
        (QUERY, None, QUERY),
        (f"torchrun:4711 {QUERY}", "torchrun:4711", QUERY),
        (f"4711 {QUERY};", "4711", f"{QUERY};"),
        (f"--timeout 3 self {QUERY}", "self", QUERY),
        (f"-v 4711 {QUERY}", "4711", QUERY),
        (f"--verbose {QUERY}", None, QUERY),
        ("--verbosely a comment\nselect 1", None, "--verbosely a comment\nselect 1"),
        ("\n  select 1,\n  2\n", None, "select 1,\n  2"),
        ("kernel:train.ipynb\nfrom steps", "kernel:train.ipynb", "from steps"),
        ("'select 1'", None, "select 1"),
        ("4711 \"select 1 as 'a b'\"", "4711", "select 1 as 'a b'"),
        ("(select 1)", None, "(select 1)"),
        ("from ranks", None, "from ranks"),
        ("select rss_bytes / 1e6 from steps", None, "select rss_bytes / 1e6 from steps"),
        ("4711 select 6/2", "4711", "select 6/2"),
        ("-- a comment\nselect 1", None, "-- a comment\nselect 1"),
        (
            "with a as (select {'x': 1} as b) select b.x from a",
            None,
            "with a as (select {'x': 1} as b) select b.x from a",
        ),
    ],
)
def test_the_rest_of_a_line_is_the_query_as_it_is(line: str, target: str | None, query: str) -> None:
    job = Job()
    run(verb.split(line), job)
    assert job.asked == [(target, query, 3.0 if "--timeout" in line else 10.0)]


@each("words", [["4711", QUERY], ["4711", *QUERY.split(" ")]])
def test_at_a_terminal_the_query_is_one_word_or_several(words: list[str]) -> None:
    job = Job()
    run(words, job)
    assert job.asked == [("4711", QUERY, 10.0)]


@each("words", [["select 6 / 2"], ["/run/a.sock", "select 6 / 2"], ["/run/my jobs/a.sock", "select 6 / 2"]])
def test_a_division_is_no_path(words: list[str]) -> None:
    job = Job()
    run(words, job)
    assert job.asked == [(words[0] if words[1:] else None, "select 6 / 2", 10.0)]


@each("line", ["", "  ", ";", "torchrun:4711", "4711;"[:4]])
def test_without_a_query_the_tables_are_listed_and_nobody_is_asked(line: str) -> None:
    job = Job()
    assert isinstance(run(verb.split(line), job), SqlTables)
    assert job.asked == []


def test_one_word_that_is_neither_is_refused() -> None:
    with pytest.raises(UsageError, match="'stepz' is neither a target nor a query"):
        run(["stepz"])


# --- magics


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    yield InteractiveShell()
    commands.in_a_notebook(False)


def theirs(line: str, cell: str = "") -> str:
    """Another extension's magic, as JupySQL has one."""
    return f"theirs: {line}{cell}"


def offered_in(shell: InteractiveShell, text: str) -> list[str]:
    (ours,) = (m for m in shell.Completer.custom_matchers if completion.is_ours(m))
    context = CompletionContext(token="", full_text=text, cursor_position=len(text), cursor_line=0, limit=None)
    return [one.text for one in ours(context)["completions"]]


def test_where_nobody_else_has_it_the_magic_has_both_names(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    session = ipython.load(shell)
    for name in ("sql", "train_sql"):
        assert isinstance(shell.run_line_magic(name, ""), SqlTables)
        assert name in shell.magics_manager.magics["cell"]
        assert offered_in(shell, f"%{name} from ste") == ["steps"]
    assert commands.command("%train_sql") == "%sql"
    ipython.unload(shell, session)
    assert not {"sql", "train_sql"} & set(shell.magics_manager.magics["line"])
    assert capsys.readouterr().out == ""


def test_another_extensions_magic_stays_and_ours_has_its_second_name(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.register_magic_function(theirs, "line_cell", "sql")
    session = ipython.load(shell)
    assert capsys.readouterr().out == "`%sql` is another extension's here and stays so; ours is `%train_sql`\n"
    assert shell.run_line_magic("sql", "a") == "theirs: a"
    assert shell.run_cell_magic("sql", "a", "b") == "theirs: ab"
    assert offered_in(shell, "%sql from ste") == [], "theirs to complete"
    assert isinstance(shell.run_line_magic("train_sql", ""), SqlTables)
    assert offered_in(shell, "%train_sql from ste") == ["steps"]
    assert shell.run_line_magic("train_sql", "--help") is None
    assert "usage: %train_sql [-h]" in capsys.readouterr().out
    with pytest.raises(UsageError, match="`%train_sql` lists tables and columns"):
        shell.run_line_magic("train_sql", "stepz")
    ipython.unload(shell, session)
    assert shell.run_line_magic("sql", "a") == "theirs: a"
    assert commands.command("%sql") == "traindbg sql"


def test_one_that_ipython_would_load_when_it_is_used_counts_as_anothers(shell: InteractiveShell) -> None:
    shell.magics_manager.lazy_magics = {"sql": "nowhere"}
    session = ipython.load(shell)
    assert "sql" not in shell.magics_manager.magics["line"]
    ipython.unload(shell, session)


def test_one_that_comes_later_has_the_name_and_keeps_it(shell: InteractiveShell) -> None:
    session = ipython.load(shell)
    shell.register_magic_function(theirs, "line_cell", "sql")
    assert offered_in(shell, "%sql from ste") == []
    assert isinstance(shell.run_line_magic("train_sql", ""), SqlTables)
    ipython.unload(shell, session)
    assert shell.run_line_magic("sql", "a") == "theirs: a"
    assert "train_sql" not in shell.magics_manager.magics["line"]


def test_a_cell_is_a_query_too_and_its_semicolon_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    magic = ipython._magic("sql", job)  # type: ignore[arg-type]
    assert magic("", "select 1\nfrom steps;") is not None
    assert magic("4711 ", "from ranks") is not None
    assert magic("from ranks;") is not None, "it is shown"
    assert [(target, query) for target, query, _ in job.asked] == [
        (None, "select 1\nfrom steps;"),
        ("4711", "from ranks"),
        (None, "from ranks;"),
    ]
    assert verb.CELL


# --- a terminal


class Terminal(Job):
    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "TerminalSession", Terminal)


def test_json_has_records(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sql", "4711", QUERY, "--json"]) == cli.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["rows"][0]["rank"] == 0
    assert told["rows"][0]["data_wait_s"] is None
    assert told["columns"][0] == {"name": "rank", "type": "BIGINT", "meaning": ""}
    assert (told["tables"], told["findings"]) == (["steps"], [])


@each("form", ["--json", "--csv"])
def test_what_programs_read_is_english(
    form: str, terminal: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    seen: list[str] = []
    monkeypatch.setattr(Terminal, "sql", lambda *_, **__: seen.append(language.language()) or query_rows(3))
    assert cli.main(["sql", "4711", QUERY, form]) == cli.DONE
    assert cli.main(["sql", "--json"]) == cli.DONE
    assert not re.search("[\u3400-\u9fff]", capsys.readouterr().out)
    assert cli.main(["sql", "4711", QUERY]) == cli.DONE
    assert seen == ["en", "zh"]
    assert "3 行" in capsys.readouterr().out


def test_csv_has_the_rows_alone(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sql", "4711", QUERY, "--csv"]) == cli.DONE
    head, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head[:4] == ["rank", "step", "loss", "data_wait_s"]
    assert [row[head.index("data_wait_s")] for row in rows] == ["", "0.003", "0.0045000000000000005"]
    assert rows[0][head.index("lr_by_group")] == "[0.001, null]"
    with pytest.raises(SystemExit):
        cli.main(["sql", "-h"])
    assert "--csv" in capsys.readouterr().out
    assert cli.main(["steps", "--csv"]) == cli.BAD_USAGE


def test_a_wrong_query_is_bad_usage_in_one_line(
    terminal: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Job, query: str, *, timeout: float) -> SqlRows:
        raise BadQuery("COPY is not run here", "ask `%sql`")

    monkeypatch.setattr(Terminal, "sql", refuse)
    assert cli.main(["sql", "4711", "copy steps to 'x'"]) == cli.BAD_USAGE
    assert capsys.readouterr().err == "traindbg: COPY is not run here; ask `traindbg sql 4711`\n"


# --- completion


def offered(typed: str) -> list[str]:
    fragment, found = completion.offered(base.parser("sql"), typed)
    assert typed.endswith(fragment)
    return [text for text, _ in found]


def test_behind_from_and_join_there_are_tables_elsewhere_columns_of_those_that_are_named() -> None:
    assert offered("select * from st") == ["stacks", "steps"]
    assert offered("select * from steps s join par") == ["param_groups", "parameters"]
    assert offered("select * from ranks, st") == ["stacks", "steps"]
    assert offered("from steps select data_") == ["data_wait_s"]
    assert offered("from steps s select s.optimizer_st") == ["optimizer_step"]
    assert "grad_nan_count" in offered("select grad_n")
    assert "grad_nan_count" not in offered("from steps select grad_n"), "which has no such column"
    assert offered("from steps select nothing_like") == []
    assert offered("select 1 --t") == ["--timeout"]


def test_the_first_word_may_be_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_traindbg.attach import discover

    monkeypatch.setattr(discover, "targets", list)
    assert offered("se") == ["self"]


@each(
    ("text", "cursor", "expected"),
    [
        ("%sql from ste", (0, 13), ["steps"]),
        ("x = %sql from ste", (0, 17), ["steps"]),
        ("%%sql\nselect rank,\n  back\nfrom steps", (2, 6), ["backward_s"]),
        ("%%sql 4711\nfrom gp", (1, 7), ["gpus"]),
    ],
)
def test_tab_offers_names_in_lines_and_in_cells(text: str, cursor: tuple[int, int], expected: list[str]) -> None:
    line, column = cursor
    context = CompletionContext(token="", full_text=text, cursor_position=column, cursor_line=line, limit=None)
    answer = completion.matcher()(context)
    offered = [one.text for one in answer["completions"]]
    assert offered[: len(expected)] == expected
    assert answer["suppress"] is True


def test_another_cell_is_left_to_others() -> None:
    context = CompletionContext(token="", full_text="%%time\nfro", cursor_position=3, cursor_line=1, limit=None)
    assert completion.matcher()(context) == {"completions": [], "suppress": False}
