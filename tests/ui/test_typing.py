"""What a person who types sees: Tab behind a magic, the help, and errors of one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browsers import Notebook
from playwright.sync_api import Page, expect
from support import REPO, Start

pytestmark = pytest.mark.timeout(600)

Open = Callable[..., Notebook]
Shot = Callable[..., None]


def offered(book: Notebook, index: int, typed: str) -> list[str]:
    """What Tab shows behind `typed` in a cell: what the kernel offers, then words of the cell, which JupyterLab adds. It stays open."""
    page: Page = book.page
    page.keyboard.press("Escape")
    expect(page.locator(".jp-Completer:visible")).to_have_count(0)
    book.cell(index).locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(typed)
    page.keyboard.press("Tab")
    items = page.locator(".jp-Completer-item .jp-Completer-match")
    items.first.wait_for()
    return [words.strip() for words in items.all_inner_texts()]


def test_tab_offers_targets_then_options(open_notebook: Open, start: Start, screenshot: Shot) -> None:
    one = start(str(REPO / "notebooks" / "demo_train.py"), "--minutes", "15", ready="step 20 ", timeout_s=180)
    two = start("train.py", "--sleep", "0.05")
    book = open_notebook(["%load_ext traindbg", *[""] * 8])
    book.run(0)
    cells = book.page.locator(".jp-WindowedPanel-viewport")
    targets = offered(book, 1, "%attach ")
    assert {str(one.pid), str(two.pid), "self"} <= set(targets)
    screenshot("typing-targets", cells)
    names = ("help", "scale", "hold", "release", "undo", "group", "optimizer", "force", "timeout", "verbose")
    assert set(offered(book, 1, "%lr --")) == {f"--{name}" for name in names}
    screenshot("typing-options", cells)
    book.page.keyboard.press("Escape")


def test_errors_are_one_line_and_help_begins_with_examples(open_notebook: Open, start: Start, screenshot: Shot) -> None:
    one = start(str(REPO / "notebooks" / "demo_train.py"), "--minutes", "15", ready="step 20 ", timeout_s=180)
    two = start("train.py", "--sleep", "0.05")
    wrong = ["%lr --scale 0.1", "%attach nonsense", "%lr --scal 0.1", "%detach", f"%stacks {one.pid} --no-child"]
    book = open_notebook(["%load_ext traindbg", *wrong, "%lr -h"])
    book.run(0)
    for index in range(1, len(wrong) + 2):
        book.run(index)
    for pid in (one.pid, two.pid):
        expect(book.output(1)).to_contain_text(f"%lr {pid} --scale 0.1")
    expect(book.output(1)).to_contain_text("AmbiguousTarget")
    expect(book.output(2)).to_contain_text("UnknownTarget: 'nonsense' is not a target; `%targets` shows what there is")
    expect(book.output(3)).to_contain_text("did you mean `--scale`?")
    expect(book.output(4)).to_contain_text("NoTarget")
    expect(book.output(6)).to_contain_text("examples:")
    for index in range(1, len(wrong) + 1):
        assert "Traceback" not in book.output(index).inner_text()
    screenshot("typing-errors", book.page.locator(".jp-WindowedPanel-viewport"))


def test_targets_are_named_as_people_know_them(open_notebook: Open, start: Start, screenshot: Shot) -> None:
    training = start(str(REPO / "notebooks" / "demo_train.py"), "--minutes", "15", ready="step 20 ", timeout_s=180)
    other = open_notebook(["import torch"])
    other.run(0)
    book = open_notebook(["%load_ext traindbg", "%targets", f"%attach kernel:{other.name}"])
    for index in range(3):
        book.run(index)
    expect(book.output(1)).to_contain_text(f"kernel:{other.name}")
    expect(book.output(1)).to_contain_text(f"{training.pid}")
    expect(book.output(2)).to_contain_text("attached to")
    screenshot("view-targets", book.page.locator(".jp-WindowedPanel-viewport"))
