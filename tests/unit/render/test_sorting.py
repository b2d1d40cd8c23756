"""By what the rows of a table are sorted."""

from __future__ import annotations

import math
import re

from cases import each

from jupyter_traindbg.language import speaking
from jupyter_traindbg.render import as_html
from jupyter_traindbg.render.blocks import Column, Inline, Span, Table
from jupyter_traindbg.render.common import DASH
from jupyter_traindbg.render.sorting import places, sorting


@each(
    "cells, expected",
    [
        (["1,200", "90", "-3"], [2, 1, 0]),
        (["3.2e-5", "0.13", "1e+4"], [0, 1, 2]),
        (["rank 10", "rank 9", "Rank 1"], [2, 1, 0]),
        (["b", "a", "b"], [1, 0, 1]),
        ([Span("2 KiB", value=2048), Span("1 GiB", value=2**30), Span("700 B", value=700)], [1, 2, 0]),
        ([Span("NaN", value=math.nan), Span("0.5", value=0.5), Span("Inf", value=math.inf)], [2, 0, 1]),
        ([DASH, "7", "", "3"], [None, 1, None, 0]),
        ([["rank ", Span("2", "strong")], "rank 1"], [1, 0]),
    ],
)
def test_where_each_cell_stands(cells: list[Inline], expected: list[int | None]) -> None:
    assert places(cells) == expected


def table(rows: list[list[Inline]], **more: bool) -> Table:
    return Table("losses", [Column("rank"), Column("loss", right=True), Column("dtype")], rows, **more)


ROWS: list[list[Inline]] = [["rank 0", "0.5", "float32"], ["rank 1", DASH, "float32"], ["rank 2", "2.5", "float32"]]


def test_names_are_sorted_from_the_first_and_numbers_from_the_largest() -> None:
    how = sorting(table(ROWS))
    assert how is not None
    assert [by and by.first for by in how.by] == ["up", "down", None], "nobody sorts by what is the same everywhere"
    assert [how.style(row) for row in range(3)] == ["--by-1:0;--by-2:0", "--by-1:1", "--by-1:2;--by-2:1"]


@each(
    "one",
    [
        table(ROWS[:2]),
        table([["rank 0", "1", "a"]] * 5),
        table(ROWS, nested=True),
    ],
)
def test_a_table_that_is_not_worth_sorting_or_must_not_be_is_not(one: Table) -> None:
    assert sorting(one) is None


def test_rows_that_stand_out_can_be_chosen_where_that_leaves_something_out() -> None:
    bad: list[Inline] = ["rank 9", Span("NaN", "bad"), "float32"]
    many = [*ROWS, *ROWS, bad, *ROWS]
    how = sorting(table(many))
    assert how is not None
    assert (how.marked, how.only) == (1, "only the one that stands out")
    with speaking("zh"):
        assert how.only == "只看突出的 1 行"
    assert [row for row, mark in enumerate(how.marks) if mark] == [6]
    few, none = sorting(table([*ROWS, bad])), sorting(table([*ROWS] * 4))
    assert few is not None
    assert none is not None
    assert (few.marked, none.marked) == (0, 0)
    every = sorting(table([[f"rank {n}", Span("NaN", "bad"), "float32"] for n in range(9)]))
    assert every is not None
    assert every.marked == 0


def drawn(one: Table) -> str:
    return as_html.draw([one], styled=False)


def test_the_buttons_of_each_table_are_one_group() -> None:
    names = re.findall(r'name="(by-\w+)"', drawn(table(ROWS)) + drawn(table(ROWS)))
    assert len(set(names)) == 2
    assert len(names) == 2 * (1 + 2 * 2), "the order given, and two for each of two columns"


def test_where_our_style_is_missing_nothing_of_the_buttons_is_seen() -> None:
    assert all(" hidden " in button for button in re.findall("<input[^>]*>", drawn(table(ROWS))))


def test_behind_the_fold_are_all_rows_since_whoever_sorts_means_the_whole() -> None:
    rows: list[list[Inline]] = [[f"rank {n}", str(n), "float32"] for n in range(25)]
    excerpt, fold = drawn(table(rows)).split("<details")
    assert excerpt.count("<tr") == 1 + 20
    assert "<input" not in excerpt
    assert fold.count("<tr") == 1 + 25
    assert "and 5 more rows" in fold


def test_what_is_left_out_of_a_very_long_table_is_said() -> None:
    rows: list[list[Inline]] = [[f"rank {n}", str(n), "float32"] for n in range(as_html.MOST_ROWS + 12)]
    assert "12 more rows" in drawn(table(rows))


def test_no_line_is_empty_since_html_in_markdown_ends_there() -> None:
    assert not [line for line in drawn(table(ROWS)).splitlines() if not line.strip()]
