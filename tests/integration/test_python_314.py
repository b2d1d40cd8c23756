"""A real Python 3.14 (or what Debian's sid has after it) is attached to as every other: in a container, where this machine has none.

What is tested on every Python of this machine is run once more by a pytest of its own, which finds that one on its path.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from containers import INSTALLING_S, python_of_debian
from support import REPO, interpreters

EVERYWHERE = {  # each has tests with the versions of this machine as parameters
    "the agent": [
        "integration/test_agent_pythons.py",
        "integration/test_attach.py",
        "integration/test_harmless.py",
        "integration/test_reachable.py",
    ],
    "injection": ["stress/test_injection.py", "stress/test_injection_busy.py"],
}
pytestmark = [
    pytest.mark.skipif(
        "3.14" in interpreters(), reason="this machine has a Python 3.14: it is among those of all other tests"
    ),
    pytest.mark.timeout(INSTALLING_S + 300),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with python_of_debian("sid", tmp_path_factory.mktemp("debian")) as command:
        yield command


@pytest.mark.parametrize("what", EVERYWHERE)
def test_what_is_tested_on_every_python(python: Path, what: str, tmp_path: Path) -> None:
    version = python.name.removeprefix("python")
    files = [str(REPO / "tests" / file) for file in EVERYWHERE[what]]
    command = [sys.executable, "-m", "pytest", "-q", "-k", version, "--basetemp", str(tmp_path / "inner"), *files]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=REPO, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= len(files), "each of them has at least one"
