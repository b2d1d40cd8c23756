"""The wheel carries the compiled object, fit for any Python of this machine; without a compiler it is pure and says what is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
OBJECT = "jupyter_traindbg/native/boot.so"


@pytest.fixture
def checkout(tmp_path):
    """A copy of what a wheel is built from, without anything compiled."""
    copy = tmp_path / "checkout"
    for name in ("jupyter_traindbg", "traindbg", "docs"):
        shutil.copytree(REPO / name, copy / name, ignore=shutil.ignore_patterns("*.so", "__pycache__", "images"))
    for file in REPO.iterdir():
        if file.is_file():
            shutil.copy(file, copy)
    return copy


def wheel(checkout, environment):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(checkout / "out")]
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    (built,) = (checkout / "out").glob("*.whl")
    return built, done.stdout + done.stderr


def test_a_wheel_with_the_object_for_this_machine(checkout, need_tool, monkeypatch):
    need_tool("cc")
    monkeypatch.delenv("CC", raising=False)
    built, _ = wheel(checkout, None)
    assert re.search(r"-py3-none-linux_\w+\.whl$", built.name)
    with zipfile.ZipFile(built) as z:
        assert z.read(OBJECT)[:4] == b"\x7fELF"
        assert b"\n## Following\n" in z.read("jupyter_traindbg/docs/logs.md"), "what findings refer to"


def test_a_pure_wheel_where_there_is_no_compiler(checkout):
    (checkout / OBJECT).write_bytes(b"stale")
    built, said = wheel(checkout, {"PATH": "/nonexistent", "CC": "no-such-compiler"})
    assert built.name.endswith("-py3-none-any.whl")
    assert "no-such-compiler" in said
    assert "install" in said
    with zipfile.ZipFile(built) as z:
        assert OBJECT not in z.namelist()


def test_the_object_leaves_by_a_jump_and_needs_no_library_version(tmp_path, need_tool):
    need_tool("cc")
    source, output = REPO / "jupyter_traindbg/native/boot.c", tmp_path / "boot.so"
    program = "import sys; from hatch_build import compile_boot, Path; print(compile_boot(*map(Path, sys.argv[1:])))"
    command = [sys.executable, "-c", program, str(source), str(output)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "None"
    listing = subprocess.run(
        [need_tool("objdump"), "-d", str(output)], capture_output=True, text=True, check=True
    ).stdout
    symbols = subprocess.run(
        [need_tool("readelf"), "-dW", str(output)], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"\bjmp\s+\*|\bbr\s+x\d+", listing), "dlclose would return into unmapped memory"
    assert "NEEDED" not in symbols
    assert "VERNEED" not in symbols
