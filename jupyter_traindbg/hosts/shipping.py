"""What travels to a helper: this package's source, and py-spy where the node has none."""

from __future__ import annotations

import io
import os
import platform
import zipfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from ..errors import TraindbgError
from ..outside import stacks

__all__ = ["PACKAGE", "archive", "py_spy"]

PACKAGE = __name__.split(".", maxsplit=1)[0]
_STAYS_HERE = {"__pycache__", "magics", "render", "templates", "preflight", "failures"}
"""Folders that no helper needs: what is shown, and what judges configurations and logs."""
_GOES = {".py", ".c", ".so", ".mo", ".toml"}


@lru_cache(maxsize=1)
def archive() -> bytes:
    """The package as a zip, with the bytecode that is there: it runs under the Python that made it, the broker's. About 1 MB, 0.1 s."""
    root = Path(__file__).parents[1]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        for folder, below, files in os.walk(root):
            below[:] = sorted(set(below) - _STAYS_HERE)
            for name in sorted(files):
                path = Path(folder, name)
                if path.suffix in _GOES:
                    z.write(path, f"{PACKAGE}/{path.relative_to(root)}")
        for path in _modules_beside():
            z.write(path, path.name)
    return buffer.getvalue()


def _modules_beside() -> list[Path]:
    """The modules of others that travel with ours, since they are one file of Python: pynvml, where we have it."""
    found = find_spec("pynvml")
    return (
        [Path(found.origin)] if found is not None and found.origin is not None and found.origin.endswith(".py") else []
    )


@lru_cache(maxsize=1)
def py_spy(machine: str) -> bytes | None:
    """Our own py-spy program, for a node of the same kind of machine; None where it would not run there, or we have none either."""
    if machine != platform.machine():
        return None
    try:
        return Path(stacks.py_spy()).read_bytes()
    except (OSError, TraindbgError):
        return None
