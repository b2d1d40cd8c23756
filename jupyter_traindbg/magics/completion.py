"""What Tab offers behind a magic: targets, options, files, and nothing else. No verb."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from .. import commands
from ..errors import TraindbgError
from ..model import host_begun, is_cluster, names_to_type
from .base import load, parser
from .parser import ELSEWHERE, PATH, RAY, TARGET, Parser, completions_of

__all__ = ["is_ours", "matcher", "offered"]

IDENTIFIER = "traindbg"

MOST_FILES = 200
SLURM_S = 1.0
_MAGIC = re.compile(r"\s*(?:[\w.,\s\[\]'\"]+=\s*)?%(\w+)[ \t](.*)", re.DOTALL)
_CELL_MAGIC = re.compile(r"\s*%%(\w+)\b(.*)", re.DOTALL)
_LAST_WORD = re.compile(r"(?:\\.|\S)*$", re.DOTALL)
_TO_ESCAPE = re.compile(r"([\s'\"\\])")

Offer = tuple[str, str]
"""A completion and its kind: ``"option"``, ``"path"``, ``"value"``, or what a target is: ``"process"``, ``"launcher"``..."""
Offers = Callable[[str, str], tuple[str, list[Offer]]]


def matcher(
    verb_of: Callable[[str], str | None] = commands.verb_of,
) -> Callable[[CompletionContext], Any]:
    """A matcher for IPython's completer that answers for our magics alone, which `verb_of` tells, and then lets nobody else answer."""

    def complete(context: CompletionContext) -> Any:
        typed = _typed(context)
        verb = None if typed is None else verb_of(typed[0])
        if typed is None or verb is None:
            return {"completions": [], "suppress": False}
        fragment, offers = offered(parser(verb), *typed[1:])
        completions = _Exclusive(SimpleCompletion(text, type=kind) for text, kind in offers)
        return {"completions": completions, "matched_fragment": fragment, "suppress": True, "ordered": True}

    found: Callable[[CompletionContext], Any] = context_matcher(identifier=IDENTIFIER, priority=100)(complete)
    return found


def _typed(context: CompletionContext) -> tuple[str, str, str] | None:
    """The verb, and what has been typed behind it, up to the cursor and after it; of a cell that is its magic's all of it."""
    behind = context.line_with_cursor[context.cursor_position :]
    if line := _MAGIC.fullmatch(context.text_until_cursor):
        return line[1], line[2], behind
    lines = context.full_text.split("\n")
    cell = _CELL_MAGIC.fullmatch("\n".join([*lines[: context.cursor_line], context.text_until_cursor]))
    below = "\n".join([behind, *lines[context.cursor_line + 1 :]])
    return None if cell is None else (cell[1], cell[2], below)


class _Exclusive(list[SimpleCompletion]):
    """Completions that suppress those of others also where there are none: IPython asks whether the list is empty by its length."""

    def __len__(self) -> int:
        return max(1, super().__len__())


def is_ours(other: Any) -> bool:
    """Whether `other` comes from `matcher`."""
    return getattr(other, "matcher_identifier", None) == IDENTIFIER


def offered(of: Parser, typed: str, behind: str = "") -> tuple[str, list[Offer]]:
    """The word that is being typed behind a verb, and what it may become; `behind` stands after it. Targets cost a look at this machine's
    processes, see `jupyter_traindbg.attach.discover.targets`.
    """
    own: Offers | None = getattr(load(of.verb), "offers", None)
    if own is not None and (offers := own(typed, behind))[1]:
        return offers
    match = _LAST_WORD.search(typed)
    fragment = match[0] if match is not None else ""
    words = typed[: len(typed) - len(fragment)].split()
    option = _waiting(of, words)
    if option is not None:
        return fragment, list(_for(option, fragment))
    if not fragment.startswith("-"):
        action = _positional(of, words)
        found = [] if action is None else list(_for(action, fragment))
        if found or fragment:
            return fragment, found
    return fragment, [(name, "option") for name in _options(of, words) if name.startswith(fragment)]


def _options(of: Parser, words: Sequence[str]) -> Iterator[str]:
    """The long ones that may still be given."""
    for action in of._actions:
        again = isinstance(action, argparse._AppendAction) or not set(action.option_strings) & set(words)
        yield from (name for name in action.option_strings if again and name.startswith("--"))


def _waiting(of: Parser, words: Sequence[str]) -> argparse.Action | None:
    """The option whose value is being typed."""
    action = of._option_string_actions.get(words[-1]) if words else None
    return action if action is not None and action.nargs != 0 else None


def _positional(of: Parser, words: Sequence[str]) -> argparse.Action | None:
    """The argument that the next word without an option is."""
    given = 0
    values = False
    for word in words:
        option = of._option_string_actions.get(word)
        if option is not None:
            values = option.nargs != 0
        elif values:
            values = False
        else:
            given += 1
    places = [action for action in of._actions if not action.option_strings]
    if places and places[-1].nargs == "*":
        return places[min(given, len(places) - 1)]
    return places[given] if given < len(places) else None


def _for(action: argparse.Action, fragment: str) -> Iterator[Offer]:
    for what in completions_of(action):
        if what in (TARGET, RAY):
            yield from (offer for offer in _targets(fragment) if what == TARGET or is_cluster(offer[0]))
        elif what == ELSEWHERE:
            typed = host_begun(fragment)
            yield from () if typed is None else _elsewhere(*typed)
        elif what == PATH:
            yield from ((path, "path") for path in _paths(fragment))
        elif what.startswith(fragment):
            yield what, "value"


def _targets(fragment: str) -> Iterator[Offer]:
    """Whole jobs; their ranks once somebody types a number."""
    from ..attach.discover import targets

    if (typed := host_begun(fragment)) is not None:
        yield from _elsewhere(*typed)
        return
    found = targets()
    names = names_to_type(found)
    seen = [(names[t.name], t.kind) for t in found if t.attachable and (t.part_of is None or fragment)]
    yield from (offer for offer in [*seen, ("self", "kernel")] if offer[0].startswith(fragment))


def _elsewhere(kind: str, before: str, begun: str) -> Iterator[Offer]:
    """The hosts of the person's configuration of ssh, behind those that are there already, or their jobs of Slurm; nobody is asked what
    runs there.
    """
    from ..hosts import slurm, ssh

    if kind == "ssh":
        names = ssh.named_in(Path.home() / ".ssh" / "config")
        yield from ((before + name, "host") for name in names if name.startswith(begun))
        return
    with contextlib.suppress(TraindbgError):  # a list of choices is no place to say why there are none
        jobs = [job.id for job in slurm.own_jobs(SLURM_S) if job.state == "RUNNING"]
        yield from ((before + job, "job") for job in jobs if job.startswith(begun))


def _paths(fragment: str) -> Iterator[str]:
    """Files and directories that begin so, directories with a slash."""
    typed = re.sub(r"\\(.)", r"\1", fragment)
    folder, begun = os.path.split(typed)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = sorted((e.name, e.is_dir()) for e in entries if e.name.startswith(begun))
    except OSError:
        return  # no such directory: nothing begins so
    for name, is_folder in found[:MOST_FILES]:
        if begun or not name.startswith("."):
            path = os.path.join(folder, name) + ("/" if is_folder else "")
            yield _TO_ESCAPE.sub(r"\\\1", path)
