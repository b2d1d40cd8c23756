"""Which output brings the stylesheet of our views: in a notebook those of one cell, the first that shows one, for all others."""

from __future__ import annotations

from typing import Any

from ..notebook import in_colab, in_notebook, shell

__all__ = ["forget", "wanted"]

_cell: str | None = None
"""The cell that brings it, by its id; where the front end tells none, by its text."""


def wanted() -> bool:
    """Whether the output that is being made has to bring the stylesheet.

    All outputs of the cell that does so bring it, since any of them may be replaced by the next; run again, that cell may show something
    else, and the next view will bring it. Where each output is a page of its own (Colab), or nobody knows of pages, each brings it.
    """
    global _cell
    if not in_notebook() or in_colab():
        return True
    here = shell()
    cell = _running(here)
    if cell is None:
        return True
    if _cell is None:
        _cell = cell
        if _begins not in here.events.callbacks["pre_run_cell"]:
            here.events.register("pre_run_cell", _begins)
    return cell == _cell


def forget() -> None:
    """The next view brings it again, and nothing of this stays in the shell."""
    global _cell
    _cell = None
    here = shell()
    if here is not None and _begins in here.events.callbacks["pre_run_cell"]:
        here.events.unregister("pre_run_cell", _begins)


def _begins(info: Any) -> None:
    global _cell
    if _cell in (info.cell_id, info.raw_cell):
        _cell = None


def _running(here: Any) -> str | None:
    """The cell to which an output goes that is made here and now; None where that cannot be known, as on a thread of our own."""
    try:
        parent = here.get_parent() or {}
    except LookupError:
        return None
    if parent.get("header", {}).get("msg_type") != "execute_request":
        return None
    cell: str = parent.get("metadata", {}).get("cellId") or parent["content"]["code"]
    return cell
