"""The magics in a real kernel, as a person types them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from support import Program
from traces import footprint, settled

from jupyter_traindbg.notebook import NOTHING

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
            o.get("text", "")
            + o.get("data", {}).get("text/plain", "")
            + re.sub(r"\n +", " ", re.sub(r"\x1b\[[0-9;]*m", "", "".join(o.get("traceback", []))))
            for o in self.run(source)
        )

    def completions(self, source: str) -> list[str]:
        """What Tab offers at the end of `source`."""
        client = self.client.kc
        asked = client.complete(source, len(source))
        ends = time.monotonic() + 60
        ask = run_sync(client.get_shell_msg)
        while (reply := ask(timeout=60))["parent_header"].get("msg_id") != asked:
            assert time.monotonic() < ends
        return list(reply["content"]["matches"])

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
    assert live["data"] == NOTHING, "it was cleared: the result says the same"
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
        "%attach nonsense": "UnknownTarget: 'nonsense' is not a target; `%targets` shows what there is",
        "%attach 4194000": "TargetGone: there is no process 4194000",
        "%stacks --no-child": "UsageError: --no-child means nothing here; did you mean `--no-children`? `%stacks -h` shows",
        "%grads --timeout x": "UsageError: --timeout",
        "%detach": "NoTarget: this notebook is attached to nothing",
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


def test_tab_offers_what_belongs_there_and_nothing_else(notebook: Notebook, trainee: Program) -> None:
    assert notebook.completions("%grads --") == ["--help", "--detail", "--first-nan", "--timeout", "--verbose"]
    assert notebook.completions("x = 1\ny = %grads --f") == ["--first-nan"]
    targets = notebook.completions("%attach ")
    assert {str(trainee.pid), "self"} <= set(targets)
    assert all(re.fullmatch(r"\d+|self|(kernel|torchrun|ray):.+", target) for target in targets)
    assert notebook.completions("%lr --scale ") == []
    assert "%grads" in notebook.completions("%gr"), "the names of magics are IPython's to offer"
    notebook.run("%unload_ext traindbg")
    assert "--first-nan" not in notebook.completions("%grads --")


def test_help_is_printed_and_a_semicolon_keeps_quiet(notebook: Notebook, trainee: Program) -> None:
    for asked in ("%lr -h", "%lr --help", "print(get_ipython().find_line_magic('lr').__doc__)"):
        shown = notebook.text(asked)
        assert "examples:\n  %lr  " in shown
        assert "usage: %lr [-h]" in shown
    for silenced in (f"%stacks {trainee.pid};", f"%stacks {trainee.pid} ;", "%targets;"):
        assert notebook.run(silenced) == []
    assert notebook.text('x = """\n%targets;\n"""\nprint(repr(x))') == "'\\n%targets;\\n'\n", "text is no command"


def test_what_to_do_next_names_the_job_that_was_asked(notebook: Notebook, trainee: Program) -> None:
    notebook.run("%attach self")
    assert f"`%lr {trainee.pid} --undo`" in notebook.text(f"%lr {trainee.pid} --scale 0.5")
    assert notebook.text(f"%lr {trainee.pid} --undo")
    notebook.run(f"%attach {trainee.pid}")
    assert "`%lr --undo`" in notebook.text("%lr --scale 0.5")
    notebook.run("%lr --undo")
    notebook.run("%detach")


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
