"""What to look at in each stage of a training: knowledge/stages.toml, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, get_args

from ...model.logs import LogStageName
from ..knowledge.checking import BadKnowledge, parsed
from .family import Text

__all__ = ["Advice", "BadKnowledge", "parse", "stage_advice"]

NAME = "stages.toml"


@dataclass(frozen=True)
class Advice:
    """`lines` are literals in lower case, one of which is in the line with which the stage began; none: whatever the line."""

    name: LogStageName
    lines: tuple[str, ...]
    means: Text
    look: tuple[Text, ...]


@cache
def stage_advice() -> tuple[Advice, ...]:
    """In the order of the file: the first that fits counts. Raises `BadKnowledge`. One millisecond, once per process."""
    return parse(files(f"{__package__.rpartition('.')[0]}.knowledge").joinpath(NAME).read_text(encoding="utf-8"))


def parse(text: str) -> tuple[Advice, ...]:
    """The advice in `text`, the content of such a file. Raises `BadKnowledge`, which says what to mend."""
    return tuple(_advice(i, table) for i, table in enumerate(parsed(text, NAME).get("stage", ()), 1))


def _advice(place: int, table: Mapping[str, Any]) -> Advice:
    at = f"{NAME}: stage {place}"
    if unknown := table.keys() - {"name", "line", "means", "look"}:
        raise BadKnowledge(f"{at}: unknown key {min(unknown)!r}")
    known: tuple[LogStageName, ...] = get_args(LogStageName)
    name = next((k for k in known if k == table.get("name")), None)
    if name is None:
        raise BadKnowledge(f"{at}: name {table.get('name')!r} is none of {', '.join(known)}")
    lines = table.get("line", [])
    if not all(isinstance(line, str) and line == line.lower() for line in lines):
        raise BadKnowledge(f"{at}: line has to be a list of texts in lower case")
    look = table.get("look") or []
    if not look:
        raise BadKnowledge(f"{at}: look, the next steps, is missing")
    return Advice(
        name, tuple(lines), _both(table.get("means"), f"{at}: means"), tuple(_both(x, f"{at}: look") for x in look)
    )


def _both(words: Any, at: str) -> Text:
    if not isinstance(words, dict) or not words.get("en") or not words.get("zh"):
        raise BadKnowledge(f'{at}: has to be {{ en = "...", zh = "..." }}')
    return Text(words["en"], words["zh"])
