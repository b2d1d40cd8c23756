"""One row of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Alike", "Status", "Variable"]

Status = Literal["real", "old name", "dead", "folklore"]
Alike = Literal["job", "host", "rank", "any"]


@dataclass(frozen=True)
class Variable:
    """One environment variable. Texts are in English and in Chinese.

    ``status``: ``folklore`` is read by nobody, ``dead`` was read up to the version in `until`, an ``old name`` still works.
    ``alike``: where it has to be the same; a ``rank`` variable differs by nature, ``any`` may.
    ``values``: what its reader understands, as a regular expression (letter case is not looked at); empty where anything goes.
    """

    name: str
    reader: str
    en: str
    zh: str
    source: str
    status: Status = "real"
    instead_en: str = ""
    instead_zh: str = ""
    alike: Alike = "any"
    values: str = ""
    default: str = ""
    """The value that is the same as not setting it."""
    until: str = ""
    """Of a dead one: the first version that does not read it, ``"2.8"``, of the package in `reader`."""
    strict: bool = False
    """Whether a value that is not understood ends the program, rather than being ignored."""
