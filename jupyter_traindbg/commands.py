"""How a command is spelled where the person is: ``%lr --undo`` in a notebook, ``traindbg lr 4711 --undo`` at a terminal.

The texts of this package write a command between backticks, in either spelling; whatever shows a text passes it through `spelled`. A
command about another job than the one that it would mean by itself names that job: see `about`.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import re
import shlex
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

__all__ = [
    "SECOND_NAMES",
    "about",
    "command",
    "in_a_notebook",
    "magic_name",
    "magics_are_here",
    "spelled",
    "spelled_all",
    "verb_of",
    "verbs",
]

SECOND_NAMES = {"sql": "train_sql"}
"""What else a verb is called in a notebook, where other extensions have a magic of its first name (JupySQL, ipython-sql): theirs stays."""

_NOT_VERBS = {"base", "before_a_start", "completion", "hearing", "ipython", "parser", "questioning", "tuning"} | {
    "collectives"
}
"""What else is in the two folders that verbs are in: what verbs are made of, and a question that has a verb of another name."""
_ABOUT_NO_JOB = ("targets", "preflight")
_NEEDS_NO_JOB = {"checkpoint": ("--verify", "--inspect", "--compare"), "nccl_check": ("--preflight",)}
_TUNING = ("lr", "weight_decay", "clip")
_PLACEHOLDER = "TARGET"

_COMMAND = re.compile(r"(?:%(?P<magic>\w+)|traindbg (?P<verb>[a-z]+(?:-[a-z]+)*))(?:\s+(?P<words>.*))?", re.DOTALL)
_QUOTED = re.compile("`([^`]+)`")
_VALUE = re.compile(r"VALUE|NORM|\d*\.\d+|\d*\.?\d+e[+-]?\d+")

_magics = False
_taken: frozenset[str] = frozenset()
_target: ContextVar[str | None] = ContextVar("traindbg_target", default=None)


@cache
def verbs() -> tuple[str, ...]:
    """All verbs, as the magics spell them (with underscores): a module of `jupyter_traindbg.magics` each, or a question to a job that needs
    none. Imports none of them.
    """
    here = os.path.dirname(__file__)
    found = pkgutil.iter_modules([os.path.join(here, "magics"), os.path.join(here, "questions")])
    return tuple(sorted({m.name for m in found if not m.ispkg} - _NOT_VERBS))


def verb_of(magic: str) -> str | None:
    """The verb that a magic of ours is called for; None of another's."""
    if magic in verbs():
        return magic
    return next((verb for verb, second in SECOND_NAMES.items() if second == magic), None)


def magic_name(verb: str) -> str:
    """What the magic of `verb` is called here."""
    return SECOND_NAMES[verb] if verb in _taken else verb


def in_a_notebook(here: bool, taken: Iterable[str] = ()) -> None:
    """Say whether this process has our magics, and which go by their second names alone. Until it is said, commands are a terminal's."""
    global _magics, _taken
    _magics, _taken = here, frozenset(taken)


def magics_are_here() -> bool:
    """Whether commands are spelled as magics."""
    return _magics


@contextlib.contextmanager
def about(target: str | None) -> Iterator[None]:
    """Meanwhile commands name `target`, where they name none. With None it stays as it is: without a target around it, they mean the right
    job by themselves.
    """
    token = _target.set(_target.get() if target is None else target)
    try:
        yield
    finally:
        _target.reset(token)


def spelled(text: str) -> str:
    """`text` with every command between backticks as it is typed here."""
    return _QUOTED.sub(lambda match: f"`{command(match[1])}`", text) if "`" in text else text


def spelled_all(document: Any) -> Any:
    """Plain data (of dicts, lists and strings), its texts `spelled`."""
    if isinstance(document, str):
        return spelled(document)
    if isinstance(document, list):
        return [spelled_all(one) for one in document]
    return {key: spelled_all(value) for key, value in document.items()} if isinstance(document, dict) else document


def command(words: str) -> str:
    """One command of ours as it is typed here; anything else as it is."""
    match = _COMMAND.fullmatch(words)
    verb = None if match is None else verb_of(match["magic"] or match["verb"].replace("-", "_"))
    if match is None or verb is None:
        return words
    name = f"%{magic_name(verb)}" if _magics else f"traindbg {verb.replace('_', '-')}"
    rest = _with_target(verb, (match["words"] or "").strip())
    return f"{name} {rest}" if rest else name


def _with_target(verb: str, words: str) -> str:
    """`words` with the target that was asked about, where one belongs there and none is."""
    target = _target.get()
    named = "" if target is None else shlex.quote(target)
    each = words.split(" ")
    if _PLACEHOLDER in each[:2]:
        return " ".join(filter(None, (named if word == _PLACEHOLDER else word for word in each)))
    return words if not named or _names_its_own(verb, words) else f"{named} {words}".strip()


def _names_its_own(verb: str, words: str) -> bool:
    """Whether a command has a target already, or is about none."""
    if verb in _ABOUT_NO_JOB or words.startswith(_NEEDS_NO_JOB.get(verb, ())):
        return True
    first, _, rest = words.partition(" ")
    if not first or first.startswith("-"):
        return False
    if verb in _TUNING:
        return _VALUE.fullmatch(first) is None
    return verb != "checkpoint" or (bool(rest) and not rest.startswith("-"))
