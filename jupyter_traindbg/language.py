"""Which language a Finding speaks: ``TRAINDBG_LANG`` (``en`` or ``zh``), else the locale, else English."""

from __future__ import annotations

import os

__all__ = ["language", "text"]


def language() -> str:
    """``"zh"`` or ``"en"``, read at each call so that a notebook can change its mind."""
    for variable in ("TRAINDBG_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable, "").lower()
        if value:
            return "zh" if value.startswith("zh") else "en"
    return "en"


def text(en: str, zh: str) -> str:
    """The one of the two that the reader asked for."""
    return zh if language() == "zh" else en
