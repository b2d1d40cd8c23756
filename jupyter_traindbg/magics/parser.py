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
from ..language import text

__all__ = ["PATH", "RAY", "TARGET", "Parser", "completed_by", "completions_of", "whole_number"]

TARGET, RAY, PATH = "<target>", "<target of Ray>", "<path>"
"""What an argument may be completed by, besides words."""
WIDTH = 88
LONG_COMMAND = 36
"""Characters from which on what an example does stands below it."""


SAID = (
    (r"^argument ", ""),
    (r"invalid int value: (.*)", r"\1 is no whole number"),
    (r"invalid float value: (.*)", r"\1 is no number"),
    (r"expected one argument", "a value must follow it"),
    (r"expected at least one argument", "at least one value must follow it"),
    (r"invalid choice: (.*) \(choose from (.*)\)", r"\1 is none of \2"),
    (r"the following arguments are required: (.*)", r"\1 is missing"),
)
"""What argparse says, and what is said here."""


def whole_number(words: str) -> int:
    """The `type` of an argument that counts: 0 or more."""
    if not words.isdecimal():
        raise argparse.ArgumentTypeError(f"{words!r} is no whole number from 0 on")
    return int(words)


def completed_by(action: argparse.Action, *what: str) -> None:
    """Say what stands for `action`: `TARGET`, `RAY`, `PATH`, or one of some words."""
    action.completed_by = what  # type: ignore[attr-defined]


def completions_of(action: argparse.Action) -> Sequence[str]:
    """What `completed_by` said, else its choices."""
    found: Sequence[str] = getattr(action, "completed_by", ()) or [str(choice) for choice in action.choices or ()]
    return found


class Parser(argparse.ArgumentParser):
    """Of one verb, or of ``traindbg`` itself. Options are never abbreviated: a new one would change what an old abbreviation means."""

    examples: Sequence[tuple[str, str]] = ()
    """What may follow the verb, and what that does."""
    verb = ""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`, where argparse would print its usage and exit."""
        for theirs, ours in SAID:
            message = re.sub(theirs, ours, message)
        raise UsageError(message, self._asking())

    def unrecognized(self, words: Sequence[str]) -> NoReturn:
        """Raise `UsageError` about words that mean nothing here, with the option that they are most like."""
        options = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
        near = difflib.get_close_matches(words[0].split("=")[0], options, 1) if words[0].startswith("-") else []
        meant = f"did you mean `{near[0]}`? " if near else ""
        raise UsageError(
            text("{words} means nothing here", words=" ".join(words)),
            text("{meant}{asking}", meant=meant, asking=self._asking()),
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but that what is unrecognized is refused by `unrecognized`."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.unrecognized(unknown)
        return found

    def _asking(self) -> str:
        return f"`%{self.verb} -h` shows what it takes" if self.verb else "`traindbg -h` shows what there is"

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
