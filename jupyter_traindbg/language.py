"""Which language a Finding speaks: ``TRAINDBG_LANG`` (``en`` or ``zh``), else the locale, else English."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

__all__ = ["language", "speaking", "text"]

_spoken: ContextVar[str | None] = ContextVar("spoken", default=None)


def language() -> str:
    """``"zh"`` or ``"en"``, read at each call so that a notebook can change its mind."""
    if (spoken := _spoken.get()) is not None:
        return spoken
    for variable in ("TRAINDBG_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable, "").lower()
        if value:
            return "zh" if value.startswith("zh") else "en"
    return "en"


@contextlib.contextmanager
def speaking(language: str) -> Iterator[None]:
    """Within it, `text` gives `language`, whatever the reader asked for."""
    before = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(before)


def text(en: str, zh: str) -> str:
    """The one of the two that the reader asked for."""
    return zh if language() == "zh" else en
