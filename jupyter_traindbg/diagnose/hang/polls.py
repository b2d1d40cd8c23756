"""What a rank goes by that sleeps and looks again, in words."""

from __future__ import annotations

from ...language import text
from ...words.values import variable_words
from .ranks import View

__all__ = ["looks_at"]


def looks_at(view: View) -> list[str]:
    """What decides when the line goes on: the variables in it, and the files that they name."""
    variables, missing = view.evidence.looks_at, [file.path for file in view.evidence.polled if not file.there]
    told = (
        [text("rank {rank} goes by {variables} there", rank=view.rank, variables=variable_words(variables))]
        if variables
        else []
    )
    return told + [
        text("{path} does not exist, as rank {rank} sees it", path=path, rank=view.rank) for path in missing[:1]
    ]
