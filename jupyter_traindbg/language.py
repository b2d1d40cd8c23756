"""The reader's language: English, or one of which ``locale/`` has a catalogue (``TRAINDBG_LANG``, else the locale, decides).

A text is written once, in English, where it is said: ``text("rank {rank} waits", rank=3)``. What it is in another language is in
``locale/LANGUAGE/LC_MESSAGES/traindbg.po``, by GNU gettext; ``scripts/messages`` brings that file up to date.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from gettext import NullTranslations, translation
from pathlib import Path

__all__ = ["counted", "either", "language", "later", "later_counted", "named", "pgettext", "speaking", "text"]

LOCALE = Path(__file__).parent / "locale"
DOMAIN = "traindbg"

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
    """Within it, texts are in `language`, whatever the reader asked for."""
    before = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(before)


def text(message: str, /, **values: object) -> str:
    """`message` in the reader's language, with `values` in its ``{places}``; in English, where the language has no words for it."""
    return _filled(_catalogue(language()).gettext(message), values) if message else ""


def counted(one: str, many: str, n: int, /, **values: object) -> str:
    """`text`, in the number that goes with `n`, which is the value of ``{n}``: ``counted("{n:,} file", "{n:,} files", 3)``."""
    return _filled(_catalogue(language()).ngettext(one, many, n), {"n": n, **values})


def pgettext(context: str, message: str, /, **values: object) -> str:
    """`text`, where one English word is several in another language: `context` tells them apart. By the name that gettext has for it."""
    return _filled(_catalogue(language()).pgettext(context, message), values)


def later(message: str) -> str:
    """`message`, which a table keeps until `text` says it."""
    return message


def later_counted(one: str, many: str) -> tuple[str, str]:
    """Both, which are kept until `counted` says them."""
    return one, many


def named(names: Mapping[str, str], name: str) -> str:
    """What `name` is called by a table of messages; a name that is not in it, as it is: whatever it is, it is no message."""
    return text(names[name]) if name in names else name


def either(en: str, zh: str) -> str:
    """The one of the two that the reader asked for: of data that have both side by side."""
    return zh if language() == "zh" else en


def _filled(said: str, values: dict[str, object]) -> str:
    return said.format(**values) if values else said


@lru_cache
def _catalogue(language: str) -> NullTranslations:
    return translation(DOMAIN, str(LOCALE), [language], fallback=True)
