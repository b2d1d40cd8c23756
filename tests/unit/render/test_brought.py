"""In a notebook one cell brings the stylesheet for all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from IPython.core.events import EventManager, available_events
from render_scenes import SMALL

from jupyter_traindbg import render
from jupyter_traindbg.render import brought

STYLE = "<style>"


class Shell:
    """What of a notebook's shell is asked: which request is being answered, and its events, which are IPython's own."""

    def __init__(self) -> None:
        self.kernel = object()
        self.events = EventManager(self, available_events)
        self.parent: dict[str, Any] = {}

    def get_parent(self) -> dict[str, Any]:
        return self.parent

    def begin(self, code: str, cell: str | None = None) -> None:
        metadata = {} if cell is None else {"cellId": cell}
        self.parent = {"header": {"msg_type": "execute_request"}, "metadata": metadata, "content": {"code": code}}
        self.events.trigger("pre_run_cell", SimpleNamespace(raw_cell=code, cell_id=cell))

    def run(self, code: str, cell: str | None = None) -> bool:
        """Run a cell that shows a view; whether its output brings the stylesheet."""
        self.begin(code, cell)
        return shows()


def shows() -> bool:
    return STYLE in render.mimebundle(SMALL["detached"])["text/html"]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    shell = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    yield shell
    brought.forget()


def test_the_first_cell_brings_it_and_no_other(shell: Shell) -> None:
    assert [shell.run("%steps", "a"), shell.run("%lr", "b"), shell.run("%grads", "c")] == [True, False, False]


def test_each_output_of_that_cell_brings_it_since_any_may_be_replaced(shell: Shell) -> None:
    assert shell.run("%steps", "a")
    assert shows()


def test_that_cell_run_again_brings_it_again(shell: Shell) -> None:
    assert [shell.run("%steps", "a"), shell.run("%lr", "b"), shell.run("%gpu", "a")] == [True, False, True]


def test_where_that_cell_shows_something_else_now_the_next_view_brings_it(shell: Shell) -> None:
    assert shell.run("%steps", "a")
    shell.begin("x = 1", "a")
    assert [shell.run("%lr", "b"), shell.run("%gpu", "c")] == [True, False]


def test_where_cells_have_no_id_their_text_stands_for_it(shell: Shell) -> None:
    assert [shell.run("%steps"), shell.run("%lr"), shell.run("%steps"), shell.run("%lr")] == [True, False, True, False]


def test_what_a_click_on_a_widget_shows_brings_it(shell: Shell) -> None:
    """Nobody can say which cell that output belongs to."""
    assert shell.run("%steps", "a")
    shell.parent = {"header": {"msg_type": "comm_msg"}, "metadata": {}, "content": {}}
    assert shows()


def test_each_output_brings_it_in_colab_and_outside_notebooks(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell.run("%steps", "a")
    with monkeypatch.context() as colab:
        colab.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
        assert shell.run("%lr", "b")
    assert not shell.run("%lr", "b")
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert shows()


def test_forgotten_nothing_stays_and_the_next_view_brings_it(shell: Shell) -> None:
    assert shell.run("%steps", "a")
    brought.forget()
    assert shell.events.callbacks["pre_run_cell"] == []
    assert shell.run("%lr", "b")
