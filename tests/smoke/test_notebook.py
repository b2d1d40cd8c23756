"""In a notebook: a training in another kernel's busy cell, the demo, and the live view of a training in a real browser."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from browsers import Notebook
from demos import DEMO, StartDemo, agent_directories, left_behind
from kernels import TRAINING, Kernel
from nbconvert import HTMLExporter, MarkdownExporter
from playwright.sync_api import expect
from support import Program
from traces import gone

import traindbg


def test_a_training_in_a_busy_cell_answers_everything_and_its_result_is_the_same(tmp_path: Path) -> None:
    kernel = Kernel(sys.executable, tmp_path, uuid.uuid4().hex)
    try:
        assert kernel.run(TRAINING).finish()["status"] == "ok"
        undisturbed = kernel.value("torch.manual_seed(1); print(train(400))")
        cell = kernel.run("torch.manual_seed(1); print(train(400))")
        cell.wait_for("training")
        with traindbg.attach(f"kernel:{kernel.file}") as job:
            assert [(rank.pid, rank.way) for rank in job.ranks] == [(kernel.pid, "kernel")]
            threads = job.stacks().processes[0].threads
            assert threads[0].training
            assert any(f.function == "train" and not f.library for f in threads[0].frames)
            assert [g.name for g in job.grads().ranks[0].grads] == ["0.weight", "0.bias", "2.weight", "2.bias"]
            assert job.lr().ranks[0].optimizers[0].scheduler == "StepLR"
            assert len(job.steps(last=3).ranks[0].steps) == 3
        assert cell.finish()["status"] == "ok"
        assert cell.text() == undisturbed
        after = gone(kernel.pid)
        assert (after.ours_mapped, after.directory) == ((), False)
    finally:
        kernel.close()


@pytest.mark.timeout(300)
def test_the_demo_finds_the_training_and_leaves_it_unchanged(start_demo: StartDemo, tmp_path: Path) -> None:
    demo = start_demo(DEMO)
    output, _ = demo.communicate(timeout=500)
    assert demo.returncode == 0, output
    assert "blocks.0.qkv.weight" in output
    assert "CosineAnnealingWarmRestarts" in output
    assert "demo_train.py" in output
    assert "identical to the last bit" in output
    assert left_behind(tmp_path) == []
    assert not (tmp_path / "train.pid").exists()
    told = re.search(r"the training is process (\d+)", output)
    assert told is not None
    assert agent_directories(int(told[1])) == []
    executed = nbformat.read(tmp_path / "00-attach.executed.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code")
    check_exports(executed)


def check_exports(notebook: nbformat.NotebookNode) -> None:
    """One stylesheet for all views; in Markdown tables that are whole, since HTML ends there at an empty line."""
    page, _ = HTMLExporter().from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    text, _ = MarkdownExporter().from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    for exported in (page, text):
        assert exported.count('<details class="traindbg-style">') == 1
        assert exported.count("</table>") > 5
    views = re.findall(r'(?s)<div class="traindbg-view">.*?\n\n', text)
    assert len(views) == text.count('<div class="traindbg-view">')
    assert all(view.rstrip().endswith("</div>") and view.count("<table") == view.count("</table>") for view in views)


@pytest.mark.timeout(300)
def test_the_curves_of_a_training_move_and_the_buttons_work(
    open_notebook: Callable[[list[str]], Notebook], trainee: Program
) -> None:
    book = open_notebook(
        [f"%load_ext traindbg\n%attach {trainee.pid}", "%watch", "%lr --scale 0.5", "%lr --release", "%detach"]
    )
    book.run(0)
    book.run(1)
    watch = book.output(1).locator(".tdb-watch")
    loss = watch.locator(".tdb-chart[data-group=loss]")
    expect(loss.locator("canvas")).to_be_visible()
    expect(watch.get_by_role("status").first).to_contain_text("training")
    expect(loss).to_have_attribute("data-points", re.compile(r"\d\d+"))
    book.run(2)
    expect(watch.get_by_role("button", name=re.compile("step .*learning rate")).first).to_be_visible()
    watch.get_by_role("button", name="Pause").click()
    expect(watch.get_by_role("button", name="Resume")).to_be_visible()
    book.run(3)
    book.run(4)
