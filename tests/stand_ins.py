"""Scripts that stand in for tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_traindbg.outside import stacks

Put = Callable[[str], Path]

THREAD = {
    "pid": 1,
    "thread_id": 1,
    "thread_name": "MainThread",
    "os_thread_id": None,
    "owns_gil": False,
    "frames": [
        {"name": "main", "filename": "/home/ann/train.py", "line": 7},
        {"name": "<module>", "filename": "/home/ann/train.py", "line": 9},
    ],
}


def for_py_spy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Puts a shell script, written to `folder`, in py-spy's place."""

    def put(script: str) -> Path:
        path = folder / "py-spy"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(stacks, "py_spy", lambda: str(path))
        return path

    return put
