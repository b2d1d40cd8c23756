"""`make demo HEADLESS=1`, and that a demo leaves no process behind however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from support import need

REPO = Path(__file__).parents[2]
NOTEBOOKS = REPO / "notebooks"
DEMO = [sys.executable, "-u", str(REPO / "scripts" / "demo.py"), "--headless"]

pytestmark = pytest.mark.timeout(600)
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start_demo(tmp_path: Path) -> Iterator[Start]:
    """Start a command with a demo directory of its own; everything it leaves behind is ended afterwards."""
    running: list[subprocess.Popen[str]] = []

    def begin(command: list[str]) -> subprocess.Popen[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TRAINDBG")}
        process = subprocess.Popen(
            command,
            cwd=NOTEBOOKS,
            env={**environment, "TRAINDBG_DEMO_DIR": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield begin
    for pid in left_behind(tmp_path):
        os.kill(pid, signal.SIGKILL)
    for process in running:
        process.communicate(timeout=10)


def left_behind(demo_directory: Path) -> list[int]:
    """The processes that were started with this demo directory in their environment: training, workers, kernel."""
    mark = f"TRAINDBG_DEMO_DIR={demo_directory}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:  # it ended meanwhile, or is another user's
                continue
    return found


def agent_directories(pid: int) -> list[Path]:
    return list(Path("/tmp").glob(f"traindbg-*/{pid}-*"))


def wait_for_training(demo: subprocess.Popen[str]) -> int:
    """The training's pid, as soon as the demo tells it."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if told := re.search(r"the training is process (\d+)", line):
            return int(told[1])
    raise AssertionError("the demo ended before its training ran")


def test_the_demo_finds_the_training_and_leaves_it_unchanged(start_demo: Start, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_an_interrupted_demo_leaves_nothing_behind(start_demo: Start, tmp_path: Path, how: signal.Signals) -> None:
    demo = start_demo(DEMO)
    training = wait_for_training(demo)
    assert training in left_behind(tmp_path)
    os.killpg(demo.pid, how)
    demo.communicate(timeout=60)
    assert demo.returncode != 0
    assert left_behind(tmp_path) == []
    assert agent_directories(training) == []


def test_the_next_demo_ends_what_a_killed_one_left(start_demo: Start, tmp_path: Path) -> None:
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
    deadline = time.monotonic() + 20  # the killed demo's kernel notices that its parent is gone
    while left_behind(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left_behind(tmp_path) == []


def test_the_notebook_starts_a_training_where_none_runs(start_demo: Start, tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOKS / "00-attach.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    (cell,) = [c.source for c in notebook.cells if c.cell_type == "code" and "demo_process.start" in c.source]
    output, _ = start_demo([sys.executable, "-c", cell]).communicate(timeout=240)
    assert re.search(r"the training is process \d+; its own log says: step \d+, loss \d", output), output
    assert left_behind(tmp_path) == []


def test_the_training_is_prepared_where_nobody_is_let_in(start_demo: Start, tmp_path: Path) -> None:
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
