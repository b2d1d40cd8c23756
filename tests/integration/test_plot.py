"""`%plot` on real jobs: in a kernel, at a terminal, of ranks, and of what is left of a job that has died."""

from __future__ import annotations

import base64
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support import Start, torchrun

import traindbg
from jupyter_traindbg.cli import main
from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.pictures import OF_JOBS

pytestmark = pytest.mark.timeout(300)


def run(*cells: str) -> list[dict[str, Any]]:
    """The cells in a fresh kernel; the data that each shows last. An error fails the test."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=110, kernel_name="python3").execute()
    return [next((dict(o["data"]) for o in reversed(cell.outputs) if "data" in o), {}) for cell in notebook.cells]


def svg_of(data: dict[str, Any]) -> str:
    html = str(data["text/html"])
    svg = html[html.index("<svg") : html.index("</svg>") + len("</svg>")]
    ET.fromstring(svg)
    return svg


WAIT = """
import time
ends = time.monotonic() + 60
while ({}) and time.monotonic() < ends:
    time.sleep(0.05)
"""


def test_what_was_done_stands_in_the_picture(start: Start) -> None:
    program = start("train.py", "--sleep", "0.01")
    *_, lr, loss = run(
        "%load_ext traindbg",
        f"%attach {program.pid}",
        "%lr --scale 0.5;",
        f"import traindbg\njob = traindbg.attach({program.pid})\n"
        + WAIT.format("job.steps(last=1).ranks[0].steps[-1].step < 40"),
        "%plot lr",
        "%plot",
    )
    assert "0.5 x what the schedule says" in lr["text/plain"]
    assert "1 · step" in lr["text/plain"]
    assert "the schedule x 0.5" in str(lr["text/html"])
    svg_of(lr)
    assert base64.b64decode(loss["image/png"]).startswith(b"\x89PNG")
    assert "the schedule x 0.5" in svg_of(loss), "a screen reader is told"
    assert " · loss of rank 0 · steps " in " ".join(loss["text/plain"].split())


def test_a_job_that_has_died_is_still_drawn_where_it_was_attached_to(start: Start) -> None:
    program = start("train.py", "--sleep", "0.01")
    *_, loss = run(
        "%load_ext traindbg",
        f"%attach {program.pid}",
        f"import os, psutil, signal, traindbg\njob = traindbg.attach({program.pid})\n"
        + WAIT.format("job.steps(last=1).ranks[0].steps[-1].step < 30"),
        "%plot;",
        f"os.kill({program.pid}, signal.SIGKILL)\n"
        + WAIT.format(f"psutil.Process({program.pid}).status() != 'zombie'"),
        "%plot",
    )
    assert " · loss of rank 0 · steps " in " ".join(loss["text/plain"].split())
    assert "the process has ended" in loss["text/plain"], "and that is its last mark"
    svg_of(loss)


def test_pictures_of_ranks(start: Start, free_port: str) -> None:
    launcher = start("sharded.py", "--sleep", "0.02", command=torchrun(2, free_port), timeout_s=90)
    with traindbg.attach(f"torchrun:{launcher.pid}") as job:
        for of in OF_JOBS:
            picture = job.plot(of)
            assert picture.of == of
            assert "ranks 0, 1" in picture.title or of == "lr"
            assert picture.words
            ET.fromstring(picture.drawn.svg(picture.words[0]))
            assert picture.drawn.png().startswith(b"\x89PNG")
        with pytest.raises(UsageError, match="there is no picture of 'losses'; there are loss, lr, grads"):
            job.plot("losses")


def test_at_a_terminal_it_is_a_sketch_and_a_file(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = start("train.py", "--sleep", "0.01")
    path = tmp_path / "loss.svg"
    assert main(["plot", "loss", str(program.pid), "-o", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"written to {path}" in said
    assert any(block in said for block in "▁▂▃▄▅▆▇█")
    ET.parse(path)
    assert main(["plot", "memory", str(program.pid), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["of"] == "memory"
    assert answer["title"].startswith("memory of rank 0")
