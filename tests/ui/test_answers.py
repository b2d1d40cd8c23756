"""What results look like in JupyterLab, in both themes: all those that the tests of rendering have."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browsers import PALE, Notebook, set_theme
from playwright.sync_api import Locator, expect
from render_scenes import LARGE, SMALL
from support import REPO

pytestmark = pytest.mark.timeout(600)

Open = Callable[..., Notebook]


def scene(group: str, name: str) -> str:
    return (
        f"import sys; sys.path.insert(0, {str(REPO / 'tests')!r})\nfrom render_scenes import {group}\n{group}[{name!r}]"
    )


def view(book: Notebook, index: int) -> Locator:
    return book.output(index).locator(".traindbg-view").first


CUT = """
view => [...view.querySelectorAll('.traindbg-scroll')].filter(t => t.checkVisibility() && t.scrollWidth > t.clientWidth + 1)
  .map(t => `${t.querySelector('caption').innerText.trim()}: ${t.scrollWidth} of ${t.clientWidth}`)
"""
"""The tables of a view that are wider than it."""


def check(shown: Locator) -> None:
    """Its first line is its answer, it is as wide as there is room for, and no mark-up is left."""
    first = shown.locator(":scope > :not(.traindbg-style)").first
    expect(first).to_have_class("traindbg-title")
    assert first.inner_text().strip()
    room, wide = shown.evaluate("v => [v.clientWidth, v.scrollWidth]")
    assert wide <= room, "nothing reaches beyond its cell"
    assert shown.evaluate(CUT) == [], "no table has to be scrolled to be seen whole"
    assert "`" not in shown.inner_text(), "what stands between backticks is shown as code"


@pytest.mark.parametrize("group", ["SMALL", "LARGE"])
def test_every_result_begins_with_its_answer_and_can_be_read_in_both_themes(open_notebook: Open, group: str) -> None:
    names = list({"SMALL": SMALL, "LARGE": LARGE}[group])
    book = open_notebook([scene(group, name) for name in names])
    for index in range(len(names)):
        book.run(index)
        check(view(book, index))
    for theme in ("light", "dark"):
        set_theme(book.page, theme)
        pale = {name: view(book, index).evaluate(PALE) for index, name in enumerate(names)}
        assert {name: texts for name, texts in pale.items() if texts} == {}, theme
