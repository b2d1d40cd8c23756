"""What a variable holds, in few words: as Python writes it where it is small, else what it is."""

from __future__ import annotations

from collections.abc import Iterable

from ..language import counted, text
from ..model import Value, Variable

__all__ = ["value_words", "variable_words"]

MOST_PARTS = 4
LONGEST = 60


def variable_words(variables: Iterable[Variable]) -> str:
    """``pending = {'uid-17'}, timeout = None``."""
    return ", ".join(f"{one.name} = {value_words(one.value)}" for one in variables)


def value_words(value: Value) -> str:
    """``None``, ``'uid-17'``, ``[3, 4, … 7 more]``, ``Queue, empty``."""
    match value.kind:
        case "plain":
            words = _short(repr(value.plain))
        case "text":
            words = _text(value)
        case "items" | "pairs":
            words = _collection(value)
        case "queue":
            words = _queue(value)
        case "event" if value.plain is not None:
            words = f"{value.type}, " + (text("set") if value.plain else text("not set"))
        case "hidden":
            words = text("a secret, not shown")
        case "work" | "exchange":
            words = f"{value.type} ({value.op.lower()})"
        case _:
            words = _short(value.words or value.type)
    return words


def _text(value: Value) -> str:
    whole = value.size is None and len(value.words) <= LONGEST
    return repr(value.words) if whole else f"{value.words[:LONGEST]!r}"[:-1] + "…'"


_BRACKETS = {"tuple": "()", "set": "{}", "frozenset": "{}"}


def _collection(value: Value) -> str:
    brackets = "{}" if value.kind == "pairs" else _BRACKETS.get(value.type, "[]")
    if not value.size and value.type in ("set", "frozenset"):
        return f"{value.type}()"
    shown = list(value.parts.items())[:MOST_PARTS]
    words = [f"{key!r}: {value_words(part)}" if value.kind == "pairs" else value_words(part) for key, part in shown]
    left = (value.size or 0) - len(shown)
    if left > 0 and not shown:
        return text("{type} of {size}", type=value.type, size=value.size)
    more = [text("… {left} more", left=left)] if left > 0 else []
    comma = "," if value.type == "tuple" and len(words) == 1 and not more else ""
    return brackets[0] + ", ".join([*words, *more]) + comma + brackets[1]


def _queue(value: Value) -> str:
    if value.size is None:
        return value.type
    if value.size == 0:
        return text("{type}, empty", type=value.type)
    room = text(", of {most} at most", most=value.most) if value.most else ""
    return counted("{type}, one item{room}", "{type}, {n} items{room}", value.size, type=value.type, room=room)


def _short(words: str) -> str:
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
