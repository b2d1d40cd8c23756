"""What the curves over the steps are called."""

from __future__ import annotations

from ..language import pgettext, text

__all__ = ["series_words"]


def series_words(label: str) -> str:
    """The `label` of a series, in the reader's language."""
    return pgettext("a series", "step") if label == "step" else text(label)
