"""What tests share beside fixtures: running programs, requirements, interpreters."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from jupyter_traindbg.outside import procfs

PROGRAMS = Path(__file__).parent / "programs"
REPO = Path(__file__).parent.parent
IN_CI = os.environ.get("CI") == "true"


HAS_DUCKDB = sys.version_info >= (3, 11)
needs_duckdb = pytest.mark.skipif(not HAS_DUCKDB, reason="there is no DuckDB 2 for this Python")


def torchrun(ranks: int, port: str) -> list[str]:
    """In front of a program: so many ranks of it, which meet at `port`."""
    return [sys.executable, "-u", "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", port]


def need(tool: str, present: bool) -> None:
    """Skip on a laptop, fail in CI, where `tool` is missing."""
    if not present:
        if IN_CI:
            pytest.fail(f"{tool} is missing, and CI must have it")
        pytest.skip(f"needs {tool}")


def until(true: Callable[[], object], what: str = "it did not come about", timeout_s: float = 60) -> None:
    """Wait until something is true; fail, with what it is, where it does not become so."""
    ends = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < ends, what
        time.sleep(0.02)


def interpreters() -> dict[str, str]:
    """One of every Python from 3.9 on that this machine has: version -> path."""
    places = [*os.environ["PATH"].split(os.pathsep), *glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin"))]
    found = {f"3.{sys.version_info.minor}": sys.executable}
    for minor in range(9, 20):
        for place in places:
            path = os.path.join(place, f"python3.{minor}")
            if "/shims" not in place and os.access(path, os.X_OK):
                found.setdefault(f"3.{minor}", path)
    return found


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


def launch(
    folder: Path,
    program: str,
    *args: str,
    env: Mapping[str, str] | None = None,
    python: str = sys.executable,
    command: Sequence[str] | None = None,
) -> Program:
    """Start tests/programs/PROGRAM, its log in `folder`; the caller stops it. The keywords are those of the fixture `start`."""
    log = folder / f"{Path(program).stem}-{uuid.uuid4().hex[:8]}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*(command or [python, "-u"]), str(PROGRAMS / program), *args],
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
            start_new_session=True,
        )
    return Program(process, log)


@contextlib.contextmanager
def running(folder: Path, program: str, *args: str, ready: str = "ready", timeout_s: float = 90) -> Iterator[Program]:
    """tests/programs/PROGRAM from the moment it prints `ready` on, for fixtures of which several tests make use."""
    started = launch(folder, program, *args)
    try:
        started.wait_for(ready, timeout_s)
        yield started
    finally:
        started.stop()


@contextlib.contextmanager
def jupyter_server(
    command: Sequence[str], directory: Path, env: Mapping[str, str]
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Jupyter server with its runtime and server.log in `directory`: its address and process. It and its kernels are gone afterwards."""
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield _jupyter_url(process, directory), process
    finally:
        below = procfs.descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        for pid in [process.pid, *(child.pid for child in below)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(10)


def _jupyter_url(process: subprocess.Popen[bytes], directory: Path) -> str:
    """The address of the Jupyter server `process`, whose runtime and server.log are in `directory`, once it answers: it tells it before."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for file in (directory / "runtime").glob("jpserver-*.json"):
            with contextlib.suppress(json.JSONDecodeError, OSError):  # being written; not listening yet
                told = json.loads(file.read_text())
                socket.create_connection(("127.0.0.1", told["port"]), 1).close()
                return str(told["url"])
        time.sleep(0.05)
    raise AssertionError(f"no server: {(directory / 'server.log').read_text(errors='replace')[-3000:]}")
