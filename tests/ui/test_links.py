"""Links of results in JupyterLab: a place opens at its line, a page at its section, by mouse and by keyboard, or it is told why not.

How a notebook's cell is found when it was changed since, and what a link may have in it: the specs of labextension/src.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import Lab, Notebook, watched_page
from panels import opened
from playwright.sync_api import Browser, Locator, Page, expect
from support import PROGRAMS, REPO, Start

pytestmark = pytest.mark.timeout(600)

Open = Callable[..., Notebook]

SETUP = f"""\
import pathlib, sys, threading, time; sys.path.insert(0, {str(REPO / "tests")!r})
from dataclasses import replace
from render_scenes_checkpoints import FINDING, verified
from render_scenes_stacks import process, thread
from jupyter_traindbg.agent.notebook import cells
from jupyter_traindbg.frames.whose import library_frame
from jupyter_traindbg.model import Frame, Stacks

def show(*places):
    frames = [Frame(file, line, "step", library_frame(file), cells().get(file)) for file, line in places]
    display(Stacks([process(rank, [thread([frame])]) for rank, frame in enumerate(frames)]))"""
STEPS = """\
def step():
    # more than one line
    return step.__code__.co_filename
file = step()"""
FILLER = "\n".join(f"# line {n}" for n in range(40))
HANGS = """\
frame = sys._getframe()
threading.Thread(target=lambda: show((frame.f_code.co_filename, 4))).start()
while not pathlib.Path("go-on").exists():
    time.sleep(0.05)
pathlib.Path("go-on").unlink()"""
SOURCE = [f"value_{n} = {n}" for n in range(1, 301)]
"""Of a file that is opened: its lines say which they are."""

SEEN = """
() => {
  const { title, content } = window.jupyterapp.shell.currentWidget;
  const editor = content.activeCell ? content.activeCell.editor : content.editor;
  if (!editor) return null;
  const { start, end } = editor.getSelection();
  const at = editor.getCoordinateForPosition(start);
  if (!at || at.top < 0 || at.bottom > window.innerHeight) return [title.label, 'scrolled away'];
  return [title.label, start.line + 1, editor.getLine(start.line).slice(start.column, end.column)];
}
"""
"""The tab in front, and the line that is selected in it and seen: its number, and what of it is."""
REFUSAL = r"status of 404 .*/jupyter-traindbg/place"


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """As elsewhere, but that a refusal of our server's is no error: the browser calls it one."""
    yield from watched_page(chromium, but=REFUSAL)


def link(output: Locator, file: str, line: int) -> Locator:
    found = output.locator(f'a.traindbg-link[data-traindbg-file="{file}"][data-traindbg-line="{line}"]')
    return found.first


def shows(page: Page, *seen: Any) -> None:
    """Wait until this tab is in front, with this line selected, and that text of it."""
    page.wait_for_function(f"seen => JSON.stringify(({SEEN})()) === JSON.stringify(seen)", arg=list(seen))


def back(book: Notebook) -> None:
    """Bring the notebook to the front again."""
    book.page.locator(f".lm-TabBar-tab:has-text('{book.name}')").first.click()
    book.page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden)")


def tabs(page: Page) -> set[str]:
    """What is open, each once."""
    labels = page.evaluate("() => [...window.jupyterapp.shell.widgets('main')].map(tab => tab.title.label)")
    assert len(set(labels)) == len(labels)
    return set(labels)


def active(page: Page) -> int:
    index: int = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex")
    return index


def test_a_place_opens_at_its_line(open_notebook: Open, lab: Lab) -> None:
    """In a file of the server's directory, in the standard library, and not twice."""
    own, standard = lab.root / "proj" / "train.py", Path(threading.__file__)
    own.parent.mkdir(exist_ok=True)
    own.write_text("\n".join(SOURCE))
    library = standard.read_text().split("\n")
    read = [next(n for n in range(first, len(library)) if library[n - 1].strip()) for first in (300, 600)]
    places = [(str(own), 150), (str(own), 299), *((str(standard), line) for line in read)]
    book = open_notebook([SETUP, f"show(*{places!r})"])
    page = book.page
    book.run(0)
    book.run(1)

    for file, line in ((own, 150), (own, 299), (own, 150)):
        link(book.output(1), str(file), line).click()
        shows(page, "train.py", line, SOURCE[line - 1])
        back(book)
    assert own.read_text() == "\n".join(SOURCE)

    for line in read:
        there = link(book.output(1), str(standard), line)
        expect(there).to_have_attribute("role", "link")
        there.focus()
        page.keyboard.press("Enter")
        shows(page, "threading.py (read only)", line, library[line - 1])
        page.keyboard.type("not")
        page.keyboard.press("Control+z")
        shows(page, "threading.py (read only)", line, library[line - 1])
        back(book)
    link(book.output(1), str(standard), read[0]).dblclick()
    shows(page, "threading.py (read only)", read[0], library[read[0] - 1])
    assert tabs(page) == {book.name, "train.py", "threading.py (read only)"}


def test_a_cell_is_found_when_it_has_run_and_while_it_runs(open_notebook: Open, lab: Lab) -> None:
    book = open_notebook([SETUP, STEPS, *[FILLER] * 4, HANGS, "show((file, 3))"])
    page = book.page
    book.run(0)
    book.run(1)
    book.run(7)
    there = book.output(7).locator("[data-traindbg-cell='2']").first
    expect(there).to_contain_text("In [2], line 3")
    there.click()
    shows(page, book.name, 3, "    return step.__code__.co_filename")
    assert active(page) == 1

    book.run(6, wait=False)
    running = book.output(6).locator("[data-traindbg-cell]").first
    expect(running).to_contain_text("In [4], line 4")
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    running.click()
    shows(page, book.name, 4, "    time.sleep(0.05)")
    assert active(page) == 6
    assert book.running(6)
    (lab.root / "go-on").touch()
    book.wait_for(6)
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    running.click()
    shows(page, book.name, 4, "    time.sleep(0.05)")
    assert (active(page), tabs(page)) == (6, {book.name})


def test_what_cannot_be_opened_is_told(open_notebook: Open, lab: Lab) -> None:
    gone = lab.root / "gone.py"
    places = [(str(gone), 1), ("/tmp/ipykernel_999999999/1.py", 1)]
    book = open_notebook([SETUP, STEPS, f"show(*{places!r}, (file, 3))"])
    for index in range(3):
        book.run(index)
    page = book.page
    told = page.locator(".Toastify")
    link(book.output(2), str(gone), 1).click()
    expect(told).to_contain_text("gone.py")
    link(book.output(2), "/tmp/ipykernel_999999999/1.py", 1).click()
    expect(told).to_contain_text("it is a cell of the kernel with the pid 999999999")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.deleteCell(1)")
    book.output(1).locator("[data-traindbg-cell='2']").first.click()
    expect(told).to_contain_text(f"In [2] is not in {book.name} any more; ")
    assert tabs(page) == {book.name}


def test_a_reference_opens_its_section(open_notebook: Open) -> None:
    shown = "replace(verified(1), verdict=(replace(FINDING, reference='docs/failures.md#cuda_oom'),))"
    book = open_notebook([SETUP, shown])
    page = book.page
    book.run(0)
    book.run(1)
    for _ in range(2):
        book.output(1).get_by_role("link", name="docs/failures.md#cuda_oom").click()
        section = page.get_by_role("document", name="cuda_oom")
        expect(section.get_by_role("heading").first).to_have_text(re.compile("^cuda_oom"))
        expect(section).to_contain_text("An allocation on the GPU failed")
        expect(section).not_to_contain_text("nccl_timeout is")
        back(book)
    assert tabs(page) == {book.name, "cuda_oom"}


def test_a_finding_in_the_panel_opens_its_line(page: Page, lab: Lab, start: Start) -> None:
    script = lab.root / "finetune.py"
    script.write_text((PROGRAMS / "hung_after_steps.py").read_text())
    hung = start(str(script))
    panel = opened(page, lab)
    panel.button(hung.pid, "diagnose").click()
    page.locator(".jp-traindbg-result a.traindbg-link[data-traindbg-file]").first.click()
    (line,) = [n for n, text in enumerate(script.read_text().split("\n"), 1) if text == "    lock.acquire()"][1:]
    shows(page, "finetune.py", line, "    lock.acquire()")
