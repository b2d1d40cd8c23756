"""Pictures of answers in SQL: curves where rows stand in a row, else bars; what is drawn, and what is said."""

from __future__ import annotations

import math
from typing import Any

import pytest
from cases import each
from figure_texts import labelled, overlaps, written

from jupyter_traindbg.errors import NoTarget
from jupyter_traindbg.model import SqlColumn, SqlRows

TYPES = {"int": "BIGINT", "float": "DOUBLE", "str": "VARCHAR", "NoneType": "DOUBLE"}


def rows_of(names: str, *rows: tuple[Any, ...]) -> SqlRows:
    columns = tuple(
        SqlColumn(name, TYPES[type(next((v for v in values if v is not None), None)).__name__])
        for name, values in zip(names.split(), zip(*rows, strict=True) if rows else [()] * 9, strict=False)
    )
    return SqlRows(f"select {names} from steps", columns, rows)


def test_steps_of_two_ranks_are_two_curves_for_each_measure() -> None:
    rows = [(rank, step, 2.0 / step + rank, 0.001 * step) for rank in (0, 1) for step in range(1, 9)]
    picture = rows_of("rank step loss data_wait_s", *rows).plot()
    assert picture.of == "query"
    assert picture.words == ("loss 0.25 to 3 (rank 1, step 1)",)
    figure = picture.figure
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["loss", "data_wait_s"]
    assert labelled(figure, "rank 1")[:2] == [(1.0, 3.0), (2.0, 2.0)]
    texts = written(figure)
    assert {"rank 0", "rank 1", "step"} <= set(texts)
    assert any(text.endswith(" ms") for text in texts), "in the unit that the column's name says"
    assert overlaps(figure) == []


def test_groups_are_bars_called_by_what_they_are() -> None:
    picture = rows_of("rank avg(data_wait_s)", (0, 0.0015), (1, 0.0031)).plot()
    assert picture.words == ("avg(data_wait_s) 1.5 ms to 3.1 ms (rank 1)",)
    (axes,) = picture.figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0", "rank 1"]
    assert [bar.get_width() for bar in axes.patches] == [0.0015, 0.0031]
    assert overlaps(picture.figure) == []


def test_a_number_alone_is_a_bar_and_what_is_missing_none() -> None:
    assert rows_of("count_star()", (7,)).plot().words == ("count_star() 7",)
    picture = rows_of("module forward_s", ("a", None), ("b", math.nan), ("c", 0.2)).plot()
    assert picture.words == ("forward_s 200 ms",)
    assert [bar.get_width() for bar in picture.figure.axes[0].patches] == [0.0, 0.0, 0.2]
    assert rows_of("module forward_s", ("a", math.inf)).plot().words == ("no finite forward_s",)


def test_what_has_no_room_is_said() -> None:
    many = rows_of("name a b c d e", *((f"n{i}", 1.0 * i, 2.0, 3.0, 4.0, 5.0) for i in range(40))).plot()
    assert many.details == ("not drawn: e",)
    assert "and 8 more rows" in written(many.figure)


def test_a_count_that_happens_to_rise_is_no_axis() -> None:
    rows = [(f"kind{n}", n + 1, 0.1 * n) for n in range(4)]
    picture = rows_of("kind count(*) seconds", *rows).plot()
    assert [label.get_text() for label in picture.figure.axes[0].get_yticklabels()] == [f"kind{n}" for n in range(4)]


def test_a_moment_is_an_axis_and_written_as_one() -> None:
    picture = rows_of("time_s rss_bytes", *((1.7e9 + n, 2**30 + n * 2**20) for n in range(5))).plot()
    texts = written(picture.figure)
    assert any(text.count(":") == 2 for text in texts)
    assert any(text.endswith("GiB") or text.endswith("MiB") for text in texts)


@each("result", [rows_of("rank loss"), rows_of("text", ("a",)), rows_of("rank loss", *[])])
def test_without_a_number_there_is_no_picture(result: SqlRows) -> None:
    with pytest.raises(NoTarget, match="no number in the answer"):
        result.plot()
