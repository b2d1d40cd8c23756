"""A picture as a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ..complete_file import completed, need_folder
from ..errors import UsageError
from ..language import text
from ..model import Picture
from .canvas import FILE_DPI, drawing

__all__ = ["check", "write"]

ENDINGS = (".svg", ".png", ".pdf")


def check(path: str) -> None:
    """Raises `UsageError` for an ending that says no format, or a directory that is not there, before anything is asked or drawn."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise UsageError(
            text("{path} has no ending that says what to write", path=path), text("use loss.svg, loss.png or loss.pdf")
        )
    need_folder(path)


def write(picture: Picture, path: str) -> Picture:
    """`picture`, written to `path`, on white: complete or not at all; a file of that name is replaced. Raises `UsageError`."""
    check(path)
    with completed(path) as (partial, where), drawing():
        picture.figure.savefig(partial, format=Path(path).suffix[1:].lower(), dpi=FILE_DPI)
    return dataclasses.replace(picture, path=where).about(picture.asked_about)
