"""`make demo HEADLESS=1`, and that a demo leaves no process behind however it ends."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from demos import DEMO, NOTEBOOKS, StartDemo, agent_directories, left_behind, wait_for_training
from support import need

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_an_interrupted_demo_leaves_nothing_behind(start_demo: StartDemo, tmp_path: Path, how: signal.Signals) -> None:
    demo = start_demo(DEMO)
    training = wait_for_training(demo)
    assert training in left_behind(tmp_path)
    os.killpg(demo.pid, how)
    demo.communicate(timeout=60)
    assert demo.returncode != 0
    assert left_behind(tmp_path) == []
    assert agent_directories(training) == []


def test_the_next_demo_ends_what_a_killed_one_left(start_demo: StartDemo, tmp_path: Path) -> None:
    killed = start_demo(DEMO)
    orphan = wait_for_training(killed)
    killed.kill()
    killed.wait(10)
    assert orphan in left_behind(tmp_path)
    following = start_demo(DEMO)
    assert wait_for_training(following) != orphan
    assert orphan not in left_behind(tmp_path)
    os.killpg(following.pid, signal.SIGTERM)
    following.communicate(timeout=60)
    deadline = time.monotonic() + 60  # the killed demo's kernel notices that its parent is gone
    while left_behind(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left_behind(tmp_path) == []


def test_the_notebook_starts_a_training_where_none_runs(start_demo: StartDemo, tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOKS / "00-attach.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    (cell,) = [c.source for c in notebook.cells if c.cell_type == "code" and "demo_process.start" in c.source]
    output, _ = start_demo([sys.executable, "-c", cell]).communicate(timeout=240)
    assert re.search(r"the training is process \d+; its own log says: step \d+, loss \d", output), output
    assert left_behind(tmp_path) == []


def test_the_training_is_prepared_where_nobody_is_let_in(start_demo: StartDemo, tmp_path: Path) -> None:
    need("jupyter-traindbg installed, since TRAINDBG=1 works by a file in site-packages", is_installed())
    ask = (
        "import demo_process, traindbg\n"
        "demo_process._why_not = lambda pid: 'Yama says no'\n"
        "process = demo_process.start(5)\n"
        "print('agent:', [t.agent for t in traindbg.targets() if t.pid == process.pid])\n"
    )
    output, _ = start_demo([sys.executable, "-c", ask]).communicate(timeout=240)
    assert "(Yama says no); starting it with TRAINDBG=1" in output
    assert "agent: [True]" in output
    assert left_behind(tmp_path) == []


def is_installed() -> bool:
    try:
        metadata.version("jupyter-traindbg")
    except metadata.PackageNotFoundError:
        return False
    return True
