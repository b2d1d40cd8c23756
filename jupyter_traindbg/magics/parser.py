"""The parser of a verb's words: help that begins with examples, and refusals of one line that say what to type instead. No verb."""

from __future__ import annotations

import argparse
import difflib
import re
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import commands
from ..errors import UsageError
from ..language import later, text

__all__ = ["ELSEWHERE", "PATH", "RAY", "TARGET", "Parser", "completed_by", "completions_of", "meant", "whole_number"]

TARGET, RAY, ELSEWHERE, PATH = "<target>", "<target of Ray>", "<other hosts>", "<path>"
"""What an argument may be completed by, besides words."""
WIDTH = 88
LONG_COMMAND = 36
"""Characters from which on what an example does stands below it."""


SAID = (
    (r"invalid int value: (?P<value>.*)", later("{value} is no whole number")),
    (r"invalid float value: (?P<value>.*)", later("{value} is no number")),
    (r"expected one argument", later("a value must follow it")),
    (r"expected at least one argument", later("at least one value must follow it")),
    (r"invalid choice: (?P<value>.*) \(choose from (?P<choices>.*)\)", later("{value} is none of {choices}")),
    (r"the following arguments are required: (?P<names>.*)", later("{names} is missing")),
    (r"not allowed with argument (?P<other>.*)", later("not allowed with argument {other}")),
)
"""What argparse says, and what is said here."""


def whole_number(words: str) -> int:
    """The `type` of an argument that counts: 0 or more."""
    if not words.isdecimal():
        raise argparse.ArgumentTypeError(text("{words!r} is no whole number from 0 on", words=words))
    return int(words)


def completed_by(action: argparse.Action, *what: str) -> None:
    """Say what stands for `action`: `TARGET`, `RAY`, `ELSEWHERE`, `PATH`, or one of some words."""
    action.completed_by = what  # type: ignore[attr-defined]


def completions_of(action: argparse.Action) -> Sequence[str]:
    """What `completed_by` said, else its choices."""
    found: Sequence[str] = getattr(action, "completed_by", ()) or [str(choice) for choice in action.choices or ()]
    return found


def meant(near: str | None, otherwise: str) -> str:
    """What to do about a word that means nothing: what it is most like, if anything, and what there is."""
    return otherwise if near is None else text("did you mean `{near}`? {otherwise}", near=near, otherwise=otherwise)


def _ours(message: str) -> str:
    """What argparse says in our words, where `SAID` has them."""
    for theirs, ours in SAID:
        if (found := re.fullmatch(theirs, message, re.DOTALL)) is not None:
            return text(ours, **found.groupdict())
    return message


class Parser(argparse.ArgumentParser):
    """Of one verb, or of ``traindbg`` itself. Options are never abbreviated: a new one would change what an old abbreviation means."""

    examples: Sequence[tuple[str, str]] = ()
    """What may follow the verb, and what that does."""
    verb = ""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`, where argparse would print its usage and exit."""
        named = re.fullmatch(r"argument (.+?): (.*)", message, re.DOTALL)
        raise UsageError(
            _ours(message) if named is None else text("{who}: {what}", who=named[1], what=_ours(named[2])),
            self._asking(),
        )

    def unrecognized(self, words: Sequence[str]) -> NoReturn:
        """Raise `UsageError` about words that mean nothing here, with the option that they are most like."""
        options = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
        near = difflib.get_close_matches(words[0].split("=")[0], options, 1) if words[0].startswith("-") else []
        raise UsageError(
            text("{words} means nothing here", words=" ".join(words)),
            meant(near[0] if near else None, self._asking()),
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but that what is unrecognized is refused by `unrecognized`."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.unrecognized(unknown)
        return found

    def _asking(self) -> str:
        if self.verb:
            return text("`%{verb} -h` shows what it takes", verb=self.verb)
        return text("`traindbg -h` shows what there is")

    def format_help(self) -> str:
        """What it does, examples, usage, then every argument."""
        described, self.description = self.description, None
        try:
            usage = super().format_help()
        finally:
            self.description = described
        if commands.magics_are_here():  # argparse would take a percent sign in a name for one of its own
            usage = usage.replace("usage: ", "usage: %", 1)
        parts = [textwrap.fill(described, WIDTH) if described else "", self._examples(), usage]
        return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"

    def _examples(self) -> str:
        if not self.verb:
            return ""
        shown = [(commands.command(f"%{self.verb} {words}".strip()), does) for words, does in self.examples]
        room = max(len(command) for command, _ in shown if len(command) <= LONG_COMMAND)
        lines = ["examples:"]
        for command, does in shown:
            if len(command) <= room:
                lines.append(f"  {command:{room}}   {does}")
            else:
                lines += [f"  {command}", f"  {'':{room}}   {does}"]
        return "\n".join(lines)
