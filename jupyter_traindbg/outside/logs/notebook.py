"""A notebook as a log: what its cells have printed, and their tracebacks, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...errors import BadLog
from ...language import text
from .opening import Opened

__all__ = ["is_notebook", "outputs"]

_LARGEST_BYTES = 2**25


def is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def outputs(opened: Opened) -> tuple[list[bytes], str]:
    """The outputs as one block per cell, and how lines are counted. Raises `BadLog` where this is no notebook, or one above 32 MiB."""
    if opened.size_bytes > _LARGEST_BYTES:
        raise BadLog(
            text("{name} is too large to be read as a notebook", name=opened.name),
            text("save the output of its cells to a file of text"),
        )
    data = b"".join(opened.blocks())
    if not data:
        return [], ""
    try:
        cells = json.loads(data)["cells"]
        blocks = [b"".join(_printed(cell)) for cell in cells]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadLog(
            text("{name} is not a notebook, or a damaged one", name=opened.name),
            text("open it in Jupyter and save it again"),
        ) from None
    return [block for block in blocks if block], "lines are counted over the outputs of its cells"


def _printed(cell: Any) -> Iterator[bytes]:
    for output in cell.get("outputs", ()):
        kind = output.get("output_type")
        if kind == "stream":
            yield _joined(output.get("text", ""))
        elif kind == "error":
            yield _joined("\n".join(output.get("traceback") or [f"{output.get('ename')}: {output.get('evalue')}"]))
        elif kind in ("execute_result", "display_data"):
            yield _joined(output.get("data", {}).get("text/plain", ""))


def _joined(said: str | list[str]) -> bytes:
    whole = said if isinstance(said, str) else "".join(said)
    return whole.encode("utf-8", "replace") + (b"" if whole.endswith("\n") or not whole else b"\n")
