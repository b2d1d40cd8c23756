"""What a link of a result opens in this server's pages: a file of its directory, a notebook, a source to be read, a page of docs."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from typing import Any

from .. import documentation
from ..attach.discover import targets
from ..errors import UnknownTarget, UsageError
from ..frames.whose import cells_of
from ..language import text
from ..outside.sources import whole

__all__ = ["page", "place"]

READABLE = ".py"
"""All that is read outside of the server's directory: what frames of Python name."""


def place(root: str, file: str) -> dict[str, Any]:
    """How `file`, as a frame names it, is opened: as a path below the directory `root`, as a notebook there, or as text.

    Looks at processes (20 ms) only for a notebook's cell. Raises `UnknownTarget` where it is not on this machine, and `UsageError` for
    what is no source.
    """
    kernel = cells_of(file)
    if kernel is not None:
        return {"opens": "notebook", "path": _of_kernel(root, int(re.findall(r"\d+", kernel)[-1]))}
    if not os.path.isabs(file):
        raise UsageError(text("{file!r} is no absolute path", file=file), text("open it from the directory of the job"))
    below = _below(root, file)
    if below is not None and os.path.isfile(file):
        return {"opens": "file", "path": below}
    if not file.endswith(READABLE):
        raise UsageError(
            text("{file} is not in this server's directory", file=file),
            text("only Python files (*{ending}) are shown from elsewhere", ending=READABLE),
        )
    source = whole(file)
    if source is None:
        raise UnknownTarget(
            text("{file} cannot be read on this server's machine", file=file),
            text("it may be on the machine, or in the container, of the job"),
        )
    return {"opens": "text", "name": os.path.basename(file), "text": source}


def page(reference: str) -> dict[str, Any]:
    """A section of the docs that come with the package. Raises `UnknownTarget`."""
    found = documentation.section(reference)
    if found is None:
        raise UnknownTarget(
            text("there is no page {reference}", reference=reference), text("docs/ of this version may have another")
        )
    title, markdown = found
    return {"title": title, "markdown": markdown}


def _below(root: str, path: str) -> str | None:
    """`path` as the server's contents API has it; None of what is not below `root`, or hidden, which it does not serve."""
    real, top = os.path.realpath(path), os.path.realpath(root)
    if os.path.commonpath([real, top]) != top:
        return None
    parts = PurePath(os.path.relpath(real, top)).parts
    return None if any(part.startswith(".") for part in parts) else "/".join(parts)


def _of_kernel(root: str, pid: int) -> str:
    notebook = next((t.notebook for t in targets() if t.pid == pid), None)
    if notebook is None:
        raise UnknownTarget(
            text("it is a cell of the kernel with the pid {pid}, which runs here no more, or has no notebook", pid=pid),
            text("look for it where the job was started"),
        )
    below = _below(root, os.path.join(root, notebook))  # some servers tell no more than that
    if below is None:
        raise UsageError(
            text("{notebook} is not in this server's directory", notebook=notebook),
            text("open it in the JupyterLab that its kernel belongs to"),
        )
    return below
