"""`make demo` for tests, with a directory of its own by which everything that it starts is known."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import REPO

NOTEBOOKS = REPO / "notebooks"
DEMO = [sys.executable, "-u", str(REPO / "scripts" / "demo.py"), "--headless"]
StartDemo = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start_demo(tmp_path: Path) -> Iterator[StartDemo]:
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
