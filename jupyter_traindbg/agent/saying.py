"""What the agent says to people. It does not know who reads it: a `Said` travels as its English message and the values in it, and whoever
asked puts it into their language (`spoken.heard`). Where nobody translates, as on a disk, it is its English.

What stays plain text is no sentence of ours: names, a class of errors with its own words, and notes on failures of the agent itself.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Tuple, Union

MARK = "$said"
"""The only key of what a `Said` is in an answer: it is `packed` there."""
PLACE = re.compile(r"\{(\w+)\}")
BETWEEN = "; "


class Said:
    """One or several sentences. Equal to its English, so that it can be compared and kept once as a text is."""

    __slots__ = ("parts",)

    def __init__(self, parts: Iterable[Tuple[str, Dict[str, Any]]]) -> None:
        self.parts = tuple(parts)

    def __str__(self) -> str:
        return BETWEEN.join(filled(message, values) for message, values in self.parts)

    def __repr__(self) -> str:
        return f"said({str(self)!r})"

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, (str, Said)) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __contains__(self, words: str) -> bool:
        return words in str(self)


Text = Union[str, Said]
NOTHING = Said(())


def said(message: str, **values: Any) -> Said:
    """`message`, in English, with `values` for its ``{places}``: numbers, texts, and other `Said`; a figure comes as it is to be read.

    ``scripts/messages`` collects the messages that stand in its calls, as those of `language.text`.
    """
    return Said([(message, values)])


def joined(texts: Iterable[Text]) -> Said:
    """All of `texts`, one behind the other; those that are empty say nothing."""
    parts: List[Tuple[str, Dict[str, Any]]] = []
    for one in texts:
        parts += one.parts if isinstance(one, Said) else [(one, {})] if one else []
    return Said(parts)


def filled(message: str, values: Dict[str, Any]) -> str:
    """`message` with `values` in its places; nothing in them is looked into, as ``str.format`` would."""
    return PLACE.sub(lambda place: str(values.get(place[1], place[0])), message) if values else message


def packed(text: Text) -> List[Any]:
    """`text` as plain data: a list of parts, each a message and its values; a value that is a list is packed in turn."""
    parts = text.parts if isinstance(text, Said) else ((text, {}),)
    return [
        [message, {k: packed(v) if isinstance(v, Said) else v for k, v in values.items()}] for message, values in parts
    ]


def unpacked(parts: Iterable[Tuple[Any, Dict[str, Any]]]) -> Said:
    """What was `packed`."""
    return Said(
        (str(message), {k: unpacked(v) if isinstance(v, list) else v for k, v in dict(values).items()})
        for message, values in parts
    )


def as_json(one: Any) -> Any:
    """For `json.dumps`: what a `Said` is there. Raises TypeError for anything else."""
    if isinstance(one, Said):
        return {MARK: packed(one)}
    raise TypeError(f"{type(one).__name__} cannot be written as JSON")


__all__ = ["MARK", "NOTHING", "Said", "Text", "as_json", "filled", "joined", "packed", "said", "unpacked"]
