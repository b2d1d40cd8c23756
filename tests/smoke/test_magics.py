"""The magics in a real kernel, as a person types them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support import Program
from traces import footprint, settled

NOTHING_OF_OURS_RUNS = """
import threading, time
ends = time.monotonic() + 10
while (names := [t.name for t in threading.enumerate() if "traindbg" in t.name]) and time.monotonic() < ends:
    time.sleep(0.02)  # a thread ends a moment after its last word
print(names)
"""


class Notebook:
    """A real kernel to which cells are given one by one."""

    def __init__(self) -> None:
        self.client = NotebookClient(nbformat.v4.new_notebook(), timeout=90, kernel_name="python3", allow_errors=True)

    def run(self, source: str) -> list[Any]:
        cell = nbformat.v4.new_code_cell(source)
        self.client.nb.cells.append(cell)
        self.client.execute_cell(cell, len(self.client.nb.cells) - 1)
        return list(cell.outputs)

    def text(self, source: str) -> str:
        """Everything that the cell shows, as plain text."""
        return "".join(
            o.get("text", "") + o.get("data", {}).get("text/plain", "") + o.get("evalue", "") for o in self.run(source)
        )

    def data(self, source: str) -> dict[str, str]:
        """The mimebundle of the cell's result."""
        return dict(next(o["data"] for o in self.run(source) if o.output_type == "execute_result"))


@pytest.fixture(scope="module")
def kernel() -> Iterator[Notebook]:
    it = Notebook()
    with it.client.setup_kernel():
        yield it


@pytest.fixture
def notebook(kernel: Notebook) -> Iterator[Notebook]:
    """The one kernel of these tests, with the extension loaded anew and nothing attached."""
    assert kernel.run("%load_ext traindbg") == []
    yield kernel
    kernel.run("%unload_ext traindbg")


def test_a_log_is_followed_in_one_place(notebook: Notebook, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("Collecting trajectories...\n")
    shown = notebook.run(f"%diagnose --follow {log} --every 0.1 --for 0.5")
    assert [o.output_type for o in shown] == ["display_data", "execute_result"]
    live, result = shown
    assert live["data"] == {"text/plain": ""}, "it was cleared: the result says the same"
    assert "rollout" in result["data"]["text/html"]
    assert "the time given is over" in notebook.text("print(_.over)")


def test_a_session_from_load_to_detach(notebook: Notebook, trainee: Program) -> None:
    before = footprint(trainee.pid)
    for magic, wanted in {
        "%targets": str(trainee.pid),
        f"%attach {trainee.pid}": "2.13",
        "%stacks": "train.py",
        "%steps": "loss",
        "%grads": "3.weight",
        "%lr": "CosineAnnealingLR",
        "%memory": "MiB",
    }.items():
        data = notebook.data(magic)
        assert wanted in data["text/plain"], magic
        assert wanted in data["text/html"], magic
    assert notebook.text("x = %grads\nprint(type(x).__name__, len(x.ranks[0].grads))") == "Grads 6\n"
    assert "rank" in notebook.text(f"job = __import__('traindbg').attach({trainee.pid}); job")
    notebook.run("job.close()")
    notebook.run("%detach")
    assert settled(trainee.pid, before) == before


RUN = """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _ in range(20):
    optimizer.zero_grad(); model(torch.randn(4, 8)).pow(2).mean().backward(); optimizer.step()
"""


def test_a_cell_that_is_run_again_trains_under_what_was_said(notebook: Notebook) -> None:
    notebook.run("%attach self")
    assert notebook.text(RUN) == ""
    assert "the schedule x 0.1" in notebook.text("%lr --scale 0.1")
    assert notebook.text(RUN).startswith("traindbg: lr (0.01 → 1e-3) went over to the new SGD"), "said in the cell"
    assert notebook.text("s = %steps --last 0\nprint({tuple(step.lr) for step in s.ranks[0].steps})") == "{(0.001,)}\n"
    assert notebook.text("r = %lr\nprint(len(r.ranks[0].optimizers), len(r.ranks[0].in_force))") == "1 1\n"
    notebook.run("%detach")


def test_bad_input_and_what_is_missing_get_one_line(notebook: Notebook) -> None:
    for typed, wanted in {
        "%gpu": "NVIDIA",
        "%attach nonsense": "UsageError: 'nonsense' is not a target",
        "%attach 4194000": "UsageError: there is no process 4194000",
        "%stacks --nonsense": "unrecognized arguments: --nonsense",
        "%grads --timeout x": "--timeout",
        "%detach": "attached to nothing",
    }.items():
        shown = notebook.text(typed)
        assert wanted in shown, typed
        assert "Traceback" not in shown, typed


def test_loading_twice_under_both_names_and_unloading(notebook: Notebook) -> None:
    notebook.run("%load_ext jupyter_traindbg\n%load_ext traindbg\n%reload_ext traindbg")
    magics = "ip = get_ipython(); print(sorted(n for n in ('stacks', 'grads', 'lr') if n in ip.magics_manager.magics['line']))"
    assert notebook.text(magics) == "['grads', 'lr', 'stacks']\n"
    notebook.run("%unload_ext traindbg\n%unload_ext jupyter_traindbg")
    assert notebook.text(magics) == "[]\n"
    assert "not found" in notebook.text("%stacks")


def test_help_and_completion(notebook: Notebook, trainee: Program) -> None:
    assert "first module" in notebook.text("print(get_ipython().find_line_magic('grads').__doc__)")
    complete = "print(sorted(get_ipython().complete(None, {0!r}, {1})[1]))"
    line = "%grads --f"
    assert "--first-nan" in notebook.text(complete.format(line, len(line)))
    line = "%attach "
    assert str(trainee.pid) in notebook.text(complete.format(line, len(line)))


def test_the_kernel_that_trains_attaches_itself(notebook: Notebook) -> None:
    notebook.run(
        "import torch\nmodel = torch.nn.Linear(3, 1)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model(torch.ones(1, 3)).sum().backward(); opt.step()"
    )
    assert "this process" in notebook.text("%attach self")
    assert "weight" in notebook.text("%grads --timeout 2")
    assert "SGD" in notebook.text("%lr")
    notebook.run("%detach")
    assert notebook.text(NOTHING_OF_OURS_RUNS) == "[]\n"
