"""What the readers of knowledge have in common: files of TOML are parsed and checked, and all that is wrong with one is told at once."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeVar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["BadKnowledge", "Checker", "each_file", "parsed"]

T = TypeVar("T")


class BadKnowledge(ValueError):
    """A file of knowledge is not as it should be; one line for each thing to mend."""


def parsed(text: str, name: str) -> dict[str, Any]:
    """The TOML in `text`, the content of the file `name`. Raises `BadKnowledge`."""
    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadKnowledge(f"{name}: this is no TOML: {error}") from None
    return raw


def each_file(folder: str, read: Callable[[str, str], T]) -> dict[str, T]:
    """What `read` makes of the text and the name of every ``*.toml`` in a folder here, by name, without its ending.

    Raises `BadKnowledge` with all that is wrong in any of them.
    """
    made, wrong = {}, []
    for file in sorted(files(__package__).joinpath(folder).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            try:
                made[file.name.removesuffix(".toml")] = read(file.read_text(encoding="utf-8"), file.name)
            except BadKnowledge as error:
                wrong.append(str(error))
    if wrong:
        raise BadKnowledge("\n".join(wrong))
    return made


class Checker:
    """Collects what is wrong in one file, so that its author sees all of it at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wrong: list[str] = []

    def say(self, key: str, problem: str) -> None:
        self.wrong.append(f"{self.name}: {key}: {problem}" if key else f"{self.name}: {problem}")

    def finish(self) -> None:
        """Raises `BadKnowledge` if something was wrong."""
        if self.wrong:
            raise BadKnowledge("\n".join(dict.fromkeys(self.wrong)))

    def known(self, keys: Collection[str], known: Sequence[str], at: str) -> None:
        for key in sorted(set(keys) - set(known)):
            close = difflib.get_close_matches(key, known, n=1)
            meant = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            self.say(at, f"unknown key {key!r}; {meant}")

    def required(self, keys: Collection[str], required: Sequence[str], at: str) -> None:
        for key in required:
            if key not in keys:
                self.say(at, f"{key!r} is missing")

    def one_of(self, value: Any, choices: Sequence[str], at: str) -> str:
        if value not in choices:
            self.say(at, f"{value!r} is none of {', '.join(choices)}")
            return choices[0]
        return str(value)

    def string(self, table: Mapping[str, Any], key: str, at: str, default: str = "") -> str:
        value = table.get(key, default)
        if not isinstance(value, str):
            self.say(f"{at}{key}", f"has to be a text, not {type(value).__name__}")
            return default
        return value

    def strings(self, value: Any, at: str) -> tuple[str, ...]:
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            self.say(at, 'has to be a list of texts: ["...", "..."]')
            return ()
        return tuple(value)

    def pair(self, value: Any, at: str) -> tuple[str, str]:
        """A text in both languages."""
        if (
            not isinstance(value, Mapping)
            or set(value) != {"en", "zh"}
            or not all(isinstance(v, str) and v.strip() for v in value.values())
        ):
            self.say(at, 'has to be {en = "...", zh = "..."}, both filled in')
            return "", ""
        return value["en"], value["zh"]
