"""Tables of results in JupyterLab: in order in the document, filtered, and arranged as before when their view is drawn anew."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browsers import PALE, Notebook, set_theme
from playwright.sync_api import Locator, expect
from support import REPO

pytestmark = pytest.mark.timeout(600)

Open = Callable[..., Notebook]
Shot = Callable[..., None]

SHOWN = f"""\
import sys; sys.path.insert(0, {str(REPO / "tests")!r})
from render_scenes import LARGE
result = LARGE["grads, one rank not finite"]
shown = display(result, display_id=True)"""
ANEW = "shown.update(LARGE['grads']); shown.update(result)"
WHEN_TOLD = """\
import pathlib, threading, time
def when_told():
    while not pathlib.Path("draw-it-anew").exists():
        time.sleep(0.05)
    pathlib.Path("draw-it-anew").unlink()
    shown.update(result)
threading.Thread(target=when_told).start()"""
ROWS = """
table => [...table.tBodies[0].rows].filter(row => row.checkVisibility())
  .map(row => [row.cells[0].innerText, row.getBoundingClientRect().y])
"""
"""Those of a table that are seen, as they follow each other in the document: the name, and where it is on the page."""


class Table:
    """The table of all gradients; in its view it is folded."""

    def __init__(self, book: Notebook, index: int = 0) -> None:
        self.book = book
        self.output = book.output(index)
        self.node = self.output.locator("table.traindbg-sorts")
        self.filter = self.node.get_by_role("searchbox")
        self.told = self.node.get_by_role("status")

    def unfold(self) -> Table:
        self.output.locator("details.traindbg-fold > summary").click()
        expect(self.filter).to_be_visible()
        return self

    def heading(self, name: str) -> Locator:
        return self.node.locator("thead th", has_text=name)

    def names(self) -> list[str]:
        """Of the rows that are seen, each below the one before it in the document."""
        rows = self.node.evaluate(ROWS)
        assert rows == sorted(rows, key=lambda row: row[1])
        return [name for name, _ in rows]

    def arranged(self) -> tuple[list[str], str, str]:
        return self.names(), self.filter.input_value(), self.told.inner_text()


def by_numbers(name: str) -> list[tuple[int, str]]:
    """For sorting names as people do: weight_9 before weight_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def cells(book: Notebook) -> tuple[int, int]:
    """How many cells there are, and which is selected."""
    count, active = book.page.evaluate(
        "() => { const book = window.jupyterapp.shell.currentWidget.content; return [book.widgets.length, book.activeCellIndex]; }"
    )
    return count, active


def mark(book: Notebook) -> None:
    """Mark the table that is there now, to know it from one that is drawn anew."""
    book.page.evaluate("() => document.querySelector('table.traindbg-sorts').dataset.old = 'yes'")


def test_a_table_is_sorted_and_filtered_by_mouse_and_by_keyboard(open_notebook: Open) -> None:
    book = open_notebook([SHOWN, "1", "2"])
    book.run(0)
    table = Table(book).unfold()
    given = table.names()
    parameter, norm, keyboard = table.heading("parameter"), table.heading("norm"), book.page.keyboard

    parameter.get_by_text("parameter").click()
    expect(parameter).to_have_attribute("aria-sort", "ascending")
    assert given != sorted(given, key=by_numbers)
    assert table.names() == sorted(given, key=by_numbers)
    assert table.node.evaluate("table => getComputedStyle(table).display") == "table"
    before = cells(book)
    keyboard.press("ArrowRight")
    expect(parameter).to_have_attribute("aria-sort", "descending")
    assert table.names() == sorted(given, key=by_numbers, reverse=True)
    keyboard.press("ArrowDown")
    expect(norm).to_have_attribute("aria-sort", "descending")
    expect(parameter).not_to_have_attribute("aria-sort", "descending")
    keyboard.press("ArrowUp")
    keyboard.press("ArrowLeft")
    keyboard.press("ArrowLeft")
    expect(parameter).not_to_have_attribute("aria-sort", "ascending")
    assert table.names() == given, "before the first heading comes the order given"
    assert cells(book) == before

    table.filter.click()
    keyboard.type("dd")
    assert cells(book) == before
    expect(table.filter).to_have_value("dd")
    expect(table.told).to_have_text(f"0 of {len(given)} rows")
    keyboard.press("Escape")
    expect(table.filter).to_have_value("")
    assert table.names() == given
    keyboard.type("MLP layers.3.")
    fitting = [name for name in given if "mlp" in name and "layers.3." in name]
    assert fitting
    assert table.names() == fitting
    expect(table.told).to_have_text(f"{len(fitting)} of {len(given)} rows")
    keyboard.press("Escape")

    table.node.locator(".traindbg-only").click()
    few = table.names()
    assert 0 < len(few) < len(given)
    table.filter.click()
    keyboard.type("decoder")
    expect(table.told).to_have_text(f"{len(few)} of {len(few)} rows")
    keyboard.press("Enter")
    assert cells(book) == before


def test_a_view_that_is_drawn_anew_is_arranged_as_before(open_notebook: Open) -> None:
    book = open_notebook([SHOWN, ANEW, WHEN_TOLD])
    book.run(0)
    table = Table(book).unfold()
    table.heading("parameter").get_by_text("parameter").click()
    table.filter.fill("mlp")
    expect(table.told).to_be_visible()
    arranged = table.arranged()

    for again in (1, 0):
        mark(book)
        book.run(again)
        expect(table.node).not_to_have_attribute("data-old", "yes")
        expect(table.told).to_be_visible()
        assert table.arranged() == arranged
        expect(table.heading("parameter")).to_have_attribute("aria-sort", "ascending")

    book.run(2)
    before = cells(book)
    table.filter.fill("")
    table.filter.click()
    mark(book)
    book.page.keyboard.type("layers ")
    (book.lab.root / "draw-it-anew").touch()
    expect(table.node).not_to_have_attribute("data-old", "yes")
    expect(table.filter).to_be_focused()
    book.page.keyboard.type("dd")
    expect(table.filter).to_have_value("layers dd")
    assert cells(book) == (before[0], 0)


def test_a_second_view_of_an_output_is_arranged_by_itself(open_notebook: Open) -> None:
    book = open_notebook([SHOWN])
    book.run(0)
    table = Table(book).unfold()
    table.heading("parameter").get_by_text("parameter").click()
    book.page.evaluate("() => window.jupyterapp.commands.execute('notebook:create-output-view')")
    mirror = book.page.locator(".jp-LinkedOutputView")
    mirror.locator("details.traindbg-fold > summary").click()
    second = mirror.locator("table.traindbg-sorts")
    expect(second.get_by_role("searchbox")).to_be_visible()
    second.locator("thead th", has_text="norm").get_by_text("norm").click()
    expect(second.locator("thead th", has_text="norm")).to_have_attribute("aria-sort", "descending")
    expect(table.heading("parameter")).to_have_attribute("aria-sort", "ascending")


def test_the_filter_can_be_read_in_both_themes(open_notebook: Open, screenshot: Shot) -> None:
    book = open_notebook([SHOWN])
    book.run(0)
    table = Table(book).unfold()
    table.heading("parameter").get_by_text("parameter").click()
    table.filter.fill("mlp layers.1.")
    for theme in ("light", "dark"):
        set_theme(book.page, theme)
        assert table.node.evaluate(PALE) == [], theme
    screenshot("table-filtered", table.node)
