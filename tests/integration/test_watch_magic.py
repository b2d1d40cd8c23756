"""`%watch` in a real kernel: the widget, one frame where there can be none, and jobs that stay attached as long as they are watched."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support import Start

pytestmark = pytest.mark.timeout(300)


def run(*cells: str) -> list[str]:
    """The cells in a fresh kernel; what each shows, as plain text. An error fails the test."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=110, kernel_name="python3").execute()
    return ["".join(_words(output) for output in cell.outputs) for cell in notebook.cells]


def _words(output: Any) -> str:
    return str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))


WAIT = """
import time
ends = time.monotonic() + 60
while not ({}) and time.monotonic() < ends:
    time.sleep(0.05)
print({})
"""


def test_the_widget_of_another_job_keeps_that_job_beside_the_current_one(start: Start) -> None:
    one, two = start("train.py", "--sleep", "0.01"), start("train.py", "--sleep", "0.01")
    *_, kind, moving, once, current, left = run(
        "%load_ext traindbg",
        f"%attach {one.pid}",
        f"w = %watch {two.pid} --rate 5",
        "print(type(w).__name__)",
        WAIT.format("w.feed.last_step > 10", "w.feed.last_step > 10, w.feed.job.name"),
        f"f = %watch {two.pid} --once\nprint(f.state, f.step > 3, f.target)",
        "s = %steps\nprint(s.ranks[0].pid)",
        "feed = w.feed\n%unload_ext traindbg\n" + WAIT.format("not feed.running", "feed.running, feed.state.code"),
    )
    assert kind.strip() == "WatchWidget"
    assert moving.strip() == f"True {two.pid}"
    assert once.strip().endswith(f"True {two.pid}")
    assert current.strip() == str(one.pid), "what is watched beside it is not attached to"
    assert left.strip().startswith("False")


def test_without_anywidget_one_line_says_so_and_a_frame_is_shown(start: Start) -> None:
    program = start("train.py", "--sleep", "0.01")
    *_, said, kind = run(
        "import sys\nsys.modules['anywidget'] = None\n%load_ext traindbg",
        f"f = %watch {program.pid}",
        "print(type(f).__name__, f.state)",
    )
    assert said.strip() == "the live view needs anywidget: pip install anywidget; this is one frame of it"
    assert kind.split()[0] == "Watched"


def test_an_argument_that_makes_no_sense_is_one_line(start: Start) -> None:
    program = start("train.py", "--sleep", "0.01")
    *_, said = run(
        "%load_ext traindbg",
        f"""
from jupyter_traindbg.errors import UsageError
ip = get_ipython()
try:
    ip.run_line_magic("watch", "{program.pid} --view nonsense")
except UsageError as e:
    print(e)
""",
    )
    assert said.strip() == (
        "there is no view 'nonsense' here; there are curves, gradients, learning_rate, checkpoint, diagnosis"
    )
