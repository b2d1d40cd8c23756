"""Which line adds to something, and what bounds it: read from bytecode, which differs from one Python to the next."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support import PROGRAMS, REPO, interpreters


@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters())
def test_the_same_on_every_python(python: str, tmp_path: Path) -> None:
    words = [python, "-B", str(PROGRAMS / "growth_scenes.py"), str(REPO / "jupyter_traindbg")]
    seen = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert seen.returncode == 0, seen.stderr
    for scene in map(json.loads, seen.stdout.splitlines()):
        assert scene["seen"] == scene["wanted"], scene
