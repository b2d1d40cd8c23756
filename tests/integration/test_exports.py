"""What is left in a notebook's file, and in what nbconvert makes of it."""

from __future__ import annotations

import re

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter, MarkdownExporter
from support import REPO

BAR = """\
from jupyter_traindbg.progress import PartsBar
with PartsBar("copying", 2) as bar:
    bar("the first")
    bar("the second")"""
VIEW = f"""\
import sys; sys.path.insert(0, {str(REPO / "tests")!r})
from render_scenes import LARGE
LARGE["grads"]"""


def run(*cells: str) -> nbformat.NotebookNode:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return notebook


def exported(notebook: nbformat.NotebookNode) -> tuple[str, str]:
    page, _ = HTMLExporter().from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    text, _ = MarkdownExporter().from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    return page, text


def test_a_progress_bar_leaves_no_line() -> None:
    notebook = run(BAR)
    assert [output.data for output in notebook.cells[0].outputs] == [{"text/plain": "", "text/html": ""}]
    page, text = exported(notebook)
    assert "2/2" not in page
    assert text.replace(BAR, "").split() == ["```python", "```"]


def test_in_markdown_each_view_is_one_piece_of_html_and_the_first_has_the_stylesheet() -> None:
    _, text = exported(
        run(*(f"{VIEW}  # {n}" for n in range(3)))
    )  # nbclient tells no ids: the same text would be the same cell
    views = re.findall(r"(?sm)^<div class=\"traindbg-view\">.*?\n\n", text)
    assert len(views) == 3
    assert [view.count("<style>") for view in views] == [1, 0, 0]
    assert all(view.rstrip().endswith("</div>") for view in views)
    assert [view.count("<tr") for view in views] == [views[0].count("<tr")] * 3


def test_a_magic_loaded_again_brings_the_stylesheet_again() -> None:
    notebook = run("%load_ext traindbg", VIEW, "%reload_ext traindbg", VIEW)
    brought = ["<style>" in cell.outputs[0].data["text/html"] for cell in notebook.cells if cell.outputs]
    assert brought == [True, True]
