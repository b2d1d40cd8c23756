"""The families that are known: read from knowledge/failures/CODE.toml beside this package, once, and checked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from . import facts, signs
from .family import Family
from .schema import BadKnowledge, family

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["BadKnowledge", "anchors", "families", "parse"]

FOLDER = "failures"


@cache
def families() -> Mapping[str, Family]:
    """All of them by code. Raises `BadKnowledge`, which names file and key, where one is not as the schema wants it.

    Reads some forty files, 60 ms; once per process.
    """
    folder = files(f"{__package__.rpartition('.')[0]}.knowledge").joinpath(FOLDER)
    known, wrong = {}, []
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            try:
                made = parse(file.read_text(encoding="utf-8"), file.name)
            except BadKnowledge as error:
                wrong.append(str(error))
            else:
                known[made.code] = made
    if wrong:
        raise BadKnowledge("\n".join(wrong))
    return MappingProxyType(known)


def parse(text: str, name: str) -> Family:
    """The family in `text`, the content of the file `name`. Raises `BadKnowledge`."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadKnowledge(f"{name}: this is no TOML: {error}") from None
    return family(raw, name)


@cache
def anchors() -> tuple[str, ...]:
    """All literals that the rules look for: what a reader has to keep of a log. Case does not matter."""
    signals = (s for known in families().values() for s in (*known.signals, *known.refutes))
    return tuple(sorted({a.lower() for s in signals for a in s.anchors} | set(signs.ANCHORS) | facts.anchors()))
