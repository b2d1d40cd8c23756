"""Fixtures shared by all tests: small programs in tests/programs/ that set a scene, started as real processes."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_traindbg.outside import procfs

PROGRAMS = Path(__file__).parent / "programs"
REPO = Path(__file__).parent.parent
IN_CI = os.environ.get("CI") == "true"


def need(tool: str, present: bool) -> None:
    """Skip on a laptop, fail in CI, where `tool` is missing."""
    if not present:
        if IN_CI:
            pytest.fail(f"{tool} is missing, and CI must have it")
        pytest.skip(f"needs {tool}")


def interpreters() -> dict[str, str]:
    """One of every Python from 3.9 on that this machine has: version -> path."""
    places = [*os.environ["PATH"].split(os.pathsep), *glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin"))]
    found = {f"3.{sys.version_info.minor}": sys.executable}
    for minor in range(9, 15):
        for place in places:
            path = os.path.join(place, f"python3.{minor}")
            if "/shims" not in place and os.access(path, os.X_OK):
                found.setdefault(f"3.{minor}", path)
    return found


@pytest.fixture
def need_tool() -> Callable[[str], str]:
    """The path of a command-line tool, or skip (fail in CI)."""

    def find(name: str) -> str:
        path = shutil.which(name)
        need(name, path is not None)
        assert path is not None
        return path

    return find


@pytest.fixture
def free_port() -> str:
    """A TCP port on loopback that nobody used a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


class Program:
    """A program of tests/programs/ running as a process; its stdout goes to a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log
        self.pid = process.pid

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, timeout_s: float = 60) -> None:
        """Wait until the program has printed `text`."""
        deadline = time.monotonic() + timeout_s
        while text not in self.output():
            if self.process.poll() is not None and text not in self.output():
                raise AssertionError(f"the program ended with {self.process.returncode}:\n{self.output()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {text!r} in {timeout_s} s:\n{self.output()}")
            time.sleep(0.02)

    def wait(self, timeout_s: float = 60) -> int:
        return self.process.wait(timeout_s)

    def stop(self) -> None:
        """Kill the program and everything it started (launchers put their ranks into sessions of their own)."""
        below = procfs.descendants(self.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for child in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        self.process.wait(10)


Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start("train.py", "--steps", "100")`` runs tests/programs/train.py and waits until it prints ``ready``.

    Keywords: ``env`` (added to the environment), ``python`` (another interpreter), ``ready`` (another text, or None), ``command`` (the
    words before the program's path, instead of the interpreter: a launcher).
    """
    running: list[Program] = []

    def run(
        program: str,
        *args: str,
        env: dict[str, str] | None = None,
        python: str = sys.executable,
        ready: str | None = "ready",
        command: list[str] | None = None,
        timeout_s: float = 60,
    ) -> Program:
        log = tmp_path / f"{len(running)}-{Path(program).stem}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*(command or [python, "-u"]), str(PROGRAMS / program), *args],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
                start_new_session=True,
            )
        started = Program(process, log)
        running.append(started)
        if ready is not None:
            started.wait_for(ready, timeout_s)
        return started

    yield run
    for program in running:
        program.stop()
