"""Fixtures shared by all tests: small programs in tests/programs/ that set a scene, started as real processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import PROGRAMS, Program, Start, need


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
