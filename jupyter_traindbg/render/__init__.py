"""How results look: as text at a terminal, as HTML in a notebook.

Data goes one way: a result -> `document` (a view of it, in blocks) -> `as_text` or `as_html`. The view of a result class ``LearningRates``
is the generator ``view(result)`` in ``views/learning_rates.py``; adding one is one new file. Only what is used is imported: text costs
rich (20 ms), HTML costs Jinja2 (25 ms) once.
"""

from __future__ import annotations

import base64
from typing import Any

from .. import commands
from ..model import Picture, Result

__all__ = ["html", "mimebundle", "text"]

FALLBACK_WIDTH = 100


def mimebundle(result: Result) -> dict[str, Any]:
    """`result` as ``text/plain`` (no colours, since it is saved in notebooks) and ``text/html``; a picture also as ``image/png``."""
    from .brought import wanted

    bundle = {"text/plain": text(result), "text/html": html(result, styled=wanted())}
    if isinstance(result, Picture) and result._drawn is not None:
        bundle["image/png"] = base64.b64encode(result.drawn.png()).decode()
    return bundle


def text(result: Result, width: int | None = None, colour: bool = False, *, full: bool = False) -> str:
    """`result` as lines of at most `width` characters (default: the terminal's, else 100).

    `colour` adds ANSI colours, which the words never depend on. `full` opens every fold: all library frames, all rows.
    """
    import shutil

    from .as_text import draw
    from .document import document

    if width is None:
        width = shutil.get_terminal_size((FALLBACK_WIDTH, 24)).columns
    with commands.about(result.asked_about):
        return draw(document(result), width=width, colour=colour, full=full)


def html(result: Result, *, styled: bool = True) -> str:
    """`result` as a fragment of HTML: no scripts, no handlers, nothing loaded from elsewhere.

    With its style, 15 kB, unless that is on the page already (`styled`).
    """
    from .as_html import draw
    from .document import document

    with commands.about(result.asked_about):
        return draw(document(result), styled=styled)
