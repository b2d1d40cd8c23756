"""The zip that travels: with bytecode where the import system has left some, right in any Python, never stale."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support import REPO, interpreters

WRITE = "import sys; from jupyter_traindbg.attach.payload import archive; open(sys.argv[1], 'wb').write(archive())"
LOAD = "import sys; sys.path.insert(0, sys.argv[1]); import _traindbg_agent.core as core; print(core.__file__)"


def run(words: list[str], **environ: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | environ
    return subprocess.run(
        words, check=True, capture_output=True, text=True, timeout=60, env=env, cwd="/"
    ).stdout.strip()


def packed(tree: Path, to: Path) -> Path:
    run([sys.executable, "-B", "-c", WRITE, str(to)], PYTHONPATH=str(tree))
    return to


def test_bytecode_travels_where_there_is_some_and_every_python_takes_its_own(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(REPO / "jupyter_traindbg", tree / "jupyter_traindbg", ignore=shutil.ignore_patterns("__pycache__"))
    source_only = packed(tree, tmp_path / "source.zip")
    assert run([sys.executable, "-c", LOAD, str(source_only)]).endswith("core.py")
    run([sys.executable, "-m", "compileall", "-q", str(tree)])
    both = packed(tree, tmp_path / "both.zip")
    for version, python in interpreters().items():
        same = version == f"3.{sys.version_info.minor}"
        assert run([python, "-c", LOAD, str(both)]).endswith("core.pyc" if same else "core.py"), version


def test_bytecode_of_another_source_stays_here(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(REPO / "jupyter_traindbg", tree / "jupyter_traindbg", ignore=shutil.ignore_patterns("__pycache__"))
    run([sys.executable, "-m", "compileall", "-q", str(tree)])
    core = tree / "jupyter_traindbg" / "agent" / "core.py"
    core.write_text(core.read_text() + "\nEDITED = True\n")
    archive = packed(tree, tmp_path / "agent.zip")
    assert run([sys.executable, "-c", LOAD + "; print(core.EDITED)", str(archive)]).split()[-1] == "True"
