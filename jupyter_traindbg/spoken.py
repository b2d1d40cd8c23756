"""What agents say to people, in the reader's language: where an answer is read, and where a file is that they have written."""

from __future__ import annotations

import json
from typing import Any

from .agent.saying import MARK, Said, filled, unpacked
from .language import text

__all__ = ["heard", "spoken"]


def heard(answer: bytes) -> Any:
    """An agent's `answer`, JSON, as plain data: what it says is plain text for all others. Raises ValueError where it is no JSON."""
    if MARK.encode() not in answer:
        return json.loads(answer)
    return json.loads(answer, object_hook=_text_of)


def spoken(said: Said) -> str:
    """`said` in the reader's language. Its message is looked up and filled in; it is never a format that could do more."""
    return text("; ").join(_one(message, values) for message, values in said.parts)


def _one(message: str, values: dict[str, Any]) -> str:
    return filled(text(message), {name: spoken(v) if isinstance(v, Said) else v for name, v in values.items()})


def _text_of(told: dict[str, Any]) -> Any:
    if len(told) != 1 or not isinstance(told.get(MARK), list):
        return told
    return spoken(unpacked(told[MARK]))
