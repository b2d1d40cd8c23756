"""The agent's own code in bare interpreters: on every Python from 3.9 on, and in several processes at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import PROGRAMS, REPO, interpreters

from jupyter_traindbg.agent import rendezvous

COME_AND_GO = """
import os, sys
from jupyter_traindbg.agent import rendezvous
for _ in range(1000):
    rendezvous.remove(rendezvous.create(os.getpid(), os.getuid(), root=sys.argv[1]))
"""


@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters())
def test_the_same_on_every_python(python: str, tmp_path: Path) -> None:
    """Who waits for which lock and who holds it. Bytecode differs from one to the next."""
    words = [python, "-B", str(PROGRAMS / "lock_scenes.py"), str(REPO / "jupyter_traindbg")]
    seen = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert seen.returncode == 0, seen.stderr
    for scene in map(json.loads, seen.stdout.splitlines()):
        assert scene["seen"] == scene["wanted"], scene


@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters())
def test_variables_are_told_on_every_python(python: str, tmp_path: Path) -> None:
    words = [python, "-B", str(PROGRAMS / "variable_scenes.py"), str(REPO / "jupyter_traindbg")]
    seen = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert seen.returncode == 0, seen.stderr
    told = json.loads(seen.stdout)
    reach = told.pop("reach")
    assert reach in (None, "release.wait(60)")  # an instruction knows its columns from Python 3.11 on
    assert told == {
        "function": "wait", "line": "release.wait(60)", "engine": [["micro", 4]], "pending": ["uid-17"], "items": ["queue", 0, 3],
        "release": False, "globals": 3,
    }  # fmt: skip


@pytest.mark.parametrize("signals", ["heard", "ignored"])
@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters())
def test_what_computes_or_waits_on_the_main_thread_is_interrupted(python: str, signals: str, tmp_path: Path) -> None:
    """Where SIGINT is ignored, as in a cluster that a script has started in the background, waits for locks are reached all the same."""
    words = [python, "-B", str(PROGRAMS / "interrupted.py"), str(REPO / "jupyter_traindbg"), signals]
    seen = subprocess.run(words, capture_output=True, text=True, timeout=100, cwd=tmp_path, check=False)
    assert seen.returncode == 0, seen.stderr
    answer = json.loads(seen.stdout)
    methods = {"busy", "locks", "waits"} | ({"sleeps"} if signals == "heard" else set())
    assert answer["ended"] == dict.fromkeys(methods, "KeyboardInterrupt")
    assert answer["answers"] == dict.fromkeys(methods, True)
    assert seen.stderr.count("traindbg interrupts") == len(methods), "whoever reads the log finds out why"


def test_an_agent_may_come_while_the_last_one_leaves(tmp_path: Path) -> None:
    """Who leaves as the last one removes the directory that all agents of a user share."""
    (tmp_path / "tmp").mkdir()
    agents = [subprocess.Popen([sys.executable, "-c", COME_AND_GO, str(tmp_path)]) for _ in range(3)]
    assert [agent.wait(60) for agent in agents] == [0, 0, 0]
    assert os.listdir(tmp_path / "tmp") == []
    path = rendezvous.create(os.getpid(), os.getuid(), root=str(tmp_path))
    assert os.stat(path).st_mode & 0o777 == 0o700
