"""Where a name leads: a line of a file, a notebook's cell, a page of docs. Which way it goes there depends on who shows the page."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from .. import documentation, notebook
from ..frames.whose import at_place, cells_of, library_frame, shortened
from ..model import Frame
from .blocks import Link, Span
from .clean import clean

__all__ = ["attributes", "local", "placed"]


def placed(place: str) -> Span:
    """What `full_place` says, in short, as a link to it; all of it on hover."""
    short = shortened(place)
    return Span(short, "code", hover=place if short != place else "", link=at_place(place))


def local(page: str) -> str:
    """A page of ours as a file that can be opened here, ``/.../docs/logs.md:72``; any other as it is."""
    found = documentation.located(page)
    return page if found is None else f"{found[0]}:{found[1]}"


def attributes(link: Link) -> dict[str, str]:
    """Of the ``<a>`` that leads to `link`, in the notebook that this is; empty where it leads nowhere.

    JupyterLab with our extension goes by the names and opens whatever the server's machine has. What has an ``href`` opens without it, too.
    """
    if isinstance(link, str):
        return _to_page(link)
    if isinstance(link, Path):
        link = Frame(str(link), 1, "")
    if not os.path.isabs(link.file) or not notebook.in_notebook() or notebook.in_colab():
        return {}
    names = {"data-traindbg-file": clean(link.file), "data-traindbg-line": str(link.line)}
    if link.cell is not None:
        names["data-traindbg-cell"] = str(link.cell)
    if cells_of(link.file) is not None:
        return names  # no front end but JupyterLab could know where that is
    return {**names, **_href(link.file, link.line)}


def _to_page(page: str) -> dict[str, str]:
    if page.startswith("https://"):
        return {"href": page, "target": "_blank", "rel": "noopener noreferrer"}
    found = documentation.located(page)
    if found is None or not notebook.in_notebook() or notebook.in_colab():
        return {}
    return {"data-traindbg-page": page, **(_href(*found) if notebook.in_vscode() else {})}


def _href(file: str, line: int) -> dict[str, str]:
    """VS Code opens any file. JupyterLab by itself opens those below the server's directory: the user's own, as seen from the notebook."""
    if notebook.in_vscode():
        # A window on another machine has a name that only it knows, and takes a bare path for one of that machine.
        scheme = "" if "VSCODE_AGENT_FOLDER" in os.environ else "vscode://file"
        return {"href": f"{scheme}{quote(clean(file))}:{line}"}
    folder = notebook.folder()
    if folder is None or library_frame(file):
        return {}
    path = os.path.join(".", os.path.relpath(clean(file), folder))  # no name is taken for a scheme
    return {"href": f"{quote(path)}#line={max(0, line - 1)}"}  # counted from 0, see RFC 5147
