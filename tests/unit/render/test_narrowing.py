"""Which columns leave a table on a page that is too narrow for it."""

from __future__ import annotations

from jupyter_traindbg.render import as_html
from jupyter_traindbg.render.blocks import Column, Table
from jupyter_traindbg.render.narrowing import WIDTHS, leaving

NAMES = Column("name")


def test_spare_columns_leave_one_after_another_the_last_first() -> None:
    columns = [NAMES, Column("first", spare=True), Column("value"), Column("last", spare=True)]
    below = leaving(columns, [["a" * 30, "b" * 10, "1", "c" * 10]])
    assert below[0] == below[2] == 0
    assert 0 < below[1] < below[3]
    assert set(below) <= {0, *WIDTHS}


def test_what_may_be_broken_into_lines_needs_the_room_of_its_longest_word() -> None:
    long, spare = "five words that are short", Column("x", spare=True)
    whole = leaving([NAMES, Column("says"), spare], [["a" * 30, long, "c" * 10]])
    broken = leaving([NAMES, Column("says", wrap=True), spare], [["a" * 30, long, "c" * 10]])
    assert broken[2] < whole[2]


def test_capitals_are_wider() -> None:
    small, large = (leaving([NAMES, Column("x", spare=True)], [[name * 30, "1"]])[1] for name in ("ab", "AB"))
    assert small < large


def test_a_table_without_spare_columns_and_one_of_no_rows_stay() -> None:
    assert leaving([NAMES, Column("value")], [["a" * 900, "1"]]) == [0, 0]
    assert leaving([NAMES, Column("x", spare=True)], []) == [0, WIDTHS[0]]


def test_the_caption_says_what_is_left_out() -> None:
    drawn = as_html.draw([Table("t", [NAMES, Column("age", spare=True)], [["a" * 60, "1"]])])
    assert '<th scope="col" class="traindbg-below-44">age</th>' in drawn
    assert '<td class="traindbg-below-44">1</td>' in drawn
    assert '<span hidden class="traindbg-without-44"> · without age</span></caption>' in drawn
    assert ".traindbg-without-44 { display: inline; }" in drawn
