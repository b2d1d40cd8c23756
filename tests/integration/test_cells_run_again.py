"""The ordinary life of a notebook: a training cell is run, something is changed, and the cell is run again. In a real kernel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from kernels import TRAINING, Kernel, ipykernel6_python, kernel  # noqa: F401 - fixtures
from nbclient import NotebookClient

import traindbg
from jupyter_traindbg.model import NotAvailable

pytestmark = pytest.mark.timeout(300)

CELL = """
import gc, json, time, weakref, torch
model = torch.nn.Sequential(torch.nn.Linear(8, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10_000)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(320, 8)), batch_size=4)
for x, in data:
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean() * factor
    optimizer.zero_grad(); loss.backward(); optimizer.step(); scheduler.step()
"""
STEPS = 80
FUNCTION = "def train(factor=1.0, stop=None):\n" + "".join(f"    {line}\n" for line in CELL.strip().splitlines())
FUNCTION += "        if stop: raise RuntimeError(stop)\n    return model, optimizer\n"


class Notebook:
    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run(self, source: str) -> str:
        """All that the cell shows, as plain text; errors by their words."""
        cell = nbformat.v4.new_code_cell(source)
        self._client.nb.cells.append(cell)
        self._client.execute_cell(cell, len(self._client.nb.cells) - 1)
        shown = (
            o.get("text", "") + o.get("data", {}).get("text/plain", "") + o.get("evalue", "") for o in cell.outputs
        )
        return "".join(shown)

    def json(self, source: str) -> Any:
        return json.loads(self.run(f"print(json.dumps({source}))"))

    def asked(self, magic: str) -> Any:
        """The result of a magic, as JSON has it."""
        return json.loads(
            self.run(
                f"asked = get_ipython().run_line_magic(*{magic.split(' ', 1)!r})\nprint(json.dumps(asked.to_dict()))"
            )
        )


@pytest.fixture
def notebook() -> Any:
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=90, kernel_name="python3", allow_errors=True)
    with client.setup_kernel():
        notebook = Notebook(client)
        notebook.run("import json\n%load_ext traindbg\n%attach self\nfactor = 1.0")
        yield notebook


def used(notebook: Notebook) -> list[float]:
    """The learning rates that the steps of this run used, each once."""
    (rank,) = notebook.asked("steps --last 0")["ranks"]
    return sorted({lr for step in rank["steps"] for lr in step["lr"]})


def test_the_second_run_trains_under_what_was_said(notebook: Notebook) -> None:
    assert notebook.run(CELL) == ""
    assert "the schedule x 0.1" in notebook.run("%lr --scale 0.1")
    said = notebook.run(CELL)
    assert said == (
        "traindbg: lr (0.01 → 1e-3) went over to the new SGD, which takes the place of the one before; `%lr --release` ends it\n"
    )
    assert used(notebook) == [pytest.approx(1e-3)]
    assert notebook.run(CELL).startswith("traindbg: lr (0.01 → 1e-3)"), "and the third"
    notebook.run("%lr --release")
    assert notebook.run(CELL) == ""
    assert used(notebook) == [0.01]


LEAVES: dict[str, Callable[[Notebook], None]] = {
    "replaced": lambda notebook: (
        notebook.run("gc.collect()") and None
    ),  # torch's first step keeps its optimizer until then
    "shown": lambda notebook: notebook.run("optimizer") and None,
    "kept": lambda notebook: notebook.run("runs = globals().get('runs', []) + [(model, optimizer, loss)]") and None,
    "in a cycle": lambda notebook: notebook.run("gc.collect(); gc.disable(); optimizer.itself = optimizer") and None,
}


@pytest.mark.parametrize("way", LEAVES)
def test_what_the_first_run_left_is_no_part_of_the_second(notebook: Notebook, way: str, tmp_path: Path) -> None:
    notebook.run(CELL)
    LEAVES[way](notebook)
    notebook.run("old = [weakref.ref(one) for one in (model, optimizer)]")
    notebook.run(CELL)
    alive = notebook.json("[one() is not None for one in old]")
    assert alive[1] == (way != "replaced")
    (rank,) = notebook.asked("lr ")["ranks"]
    assert [(o["optimizer"], o["scheduler"]) for o in rank["optimizers"]] == [("SGD", "StepLR")]
    (rank,) = notebook.asked("grads ")["ranks"]
    assert sorted(g["name"] for g in rank["grads"]) == ["0.bias", "0.weight", "2.bias", "2.weight"]
    (rank,) = notebook.asked("memory ")["ranks"]
    (share,) = rank["shares"]
    parameters = 4 * (8 * 512 + 512 + 512 + 1)
    assert share["parameters_bytes"] == share["optimizer_bytes"] == parameters
    assert share["earlier_bytes"] == (0 if way == "replaced" else 2 * parameters)
    assert len(rank["curve"]) == STEPS
    (rank,) = notebook.asked("steps --last 0")["ranks"]
    assert (len(rank["steps"]), rank["run_began"]) == (STEPS, STEPS + 1)
    (rank,) = notebook.asked("steps --last 0 --since 0")["ranks"]
    assert len(rank["steps"]) == 2 * STEPS
    saved = notebook.asked(f"checkpoint {tmp_path / 'saved'}")
    assert [f["name"] for f in saved["files"] if f["name"].startswith("opt")] == ["optimizer.pt"]
    assert any("left out: an optimizer of an earlier run (SGD)" in why for why in saved["inexact"]) == (way == "kept")


def test_a_first_run_that_was_broken_off_says_nothing_of_the_second(notebook: Notebook) -> None:
    """Its loss was NaN, and its traceback holds all of its objects."""
    notebook.run(FUNCTION)
    assert "stopped" in notebook.run("train(float('nan'), 'stopped')")
    assert "NaN" in notebook.run("%diagnose")
    notebook.run("%lr --scale 0.1")
    assert "went over" in notebook.run("kept = train()")
    assert used(notebook) == [pytest.approx(1e-3)]
    diagnosed = notebook.asked("diagnose ")
    assert diagnosed["findings"] == [], diagnosed
    (rank,) = notebook.asked("grads ")["ranks"]
    assert len(rank["grads"]) == 4


def test_memory_of_runs_that_are_kept_is_no_leak_of_this_one(notebook: Notebook) -> None:
    notebook.run("runs = []\nfactor = 1.0\n" + FUNCTION.replace("512", "100_000"))
    for _ in range(6):
        notebook.run("runs.append(train())")
    memory = notebook.asked("memory ")
    assert memory["findings"] == []
    (rank,) = memory["ranks"]
    assert rank["shares"][0]["earlier_bytes"] > 5 * 2 * 4 * 9 * 100_000
    assert "too early" in rank["growth"]


def test_a_busy_kernel_that_another_notebook_looks_at(kernel: Kernel) -> None:  # noqa: F811
    assert kernel.run(TRAINING).finish()["status"] == "ok"
    cell = kernel.run("print(train(100_000))")
    cell.wait_for("training")
    with traindbg.attach(f"kernel:{kernel.file}") as job:
        job.set_lr(scale=0.1)
        kernel.interrupt()
        assert cell.finish()["status"] == "error"
        cell = kernel.run("print(train(50))")  # what was broken off lives on in its traceback
        assert cell.finish()["status"] == "ok"
        assert "traindbg" not in cell.text(), "it is not our notebook"
        steps = job.steps(this_run=True).ranks[0].steps
        assert len(steps) == 50
        assert [lr for step in steps for lr in step.lr] == pytest.approx([1e-3] * 50)
        (rank,) = job.lr().ranks
        assert [entry.change for entry in rank.log] == [
            "learning rate: the schedule x 0.1",
            "went over to the new AdamW, which takes the place of the one before",
        ]
        assert not rank.optimizers, (
            "that of the second run ended with its function; the first one's is no training's any more"
        )
        assert not job.grads().ranks[0].grads
        (waits,) = rank.in_force
        assert waits.note == "its optimizer is gone: it goes over to the AdamW that takes its place"
        assert waits.scheduled == NotAvailable("its optimizer is gone")
        job.release()
        assert kernel.run("_ = train(20)").finish()["status"] == "ok"
        assert [lr for step in job.steps(this_run=True).ranks[0].steps for lr in step.lr] == [1e-2] * 20


def test_nothing_of_ours_keeps_a_run_alive(notebook: Notebook, tmp_path: Path) -> None:
    """With the garbage collector off, a run goes as it does without us: at once."""
    notebook.run(CELL)  # what torch keeps of its first step
    notebook.run("%lr --scale 0.1")
    notebook.run("%clip 1.0")
    notebook.run(CELL)
    notebook.run("w = %watch --rate 4")
    for magic in (
        "lr ",
        "grads ",
        "grads --first-nan",
        "steps ",
        "memory ",
        "diagnose ",
        f"checkpoint {tmp_path / 'saved'}",
    ):
        notebook.asked(magic)
    notebook.run(
        "gc.collect(); gc.disable()\nold = [weakref.ref(o) for o in (model, optimizer, scheduler, data, loss)]"
    )
    assert "went over" in notebook.run(CELL)
    assert notebook.json("[o() is not None for o in old]") == [False] * 5
