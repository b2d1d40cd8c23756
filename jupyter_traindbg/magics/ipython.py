"""Verbs as IPython line magics: same parser, same result object, one-line errors, completion of options and targets."""

from __future__ import annotations

import argparse
import contextlib
import functools
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .. import commands
from ..errors import AmbiguousTarget, NoTarget, TraindbgError
from ..job import Job, attach
from ..language import speaking, text
from ..model import Result
from ..notebook import NOTHING
from ..render import brought
from ..render.short_commands import short_command
from . import base, hearing
from .completion import is_ours, matcher
from .parser import WIDTH, Parser

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_NAMES = (*commands.verbs(), *commands.SECOND_NAMES.values())
_SILENCED = re.compile(rf"run_line_magic\('({'|'.join(_NAMES)});+', '")
LEAST_ROOM = 24
MOST_CHOICES = 12
"""Candidates that are listed below an error."""


class NotebookSession:
    """The one job that this shell is attached to. A verb with a target of its own leaves it alone."""

    def __init__(self) -> None:
        self.current: Job | None = None
        self.named: str | None = None
        self.magics: dict[str, Callable[..., Result | None]] = {}
        """What this session has made magics of, by name."""
        self._beside: dict[str, Job] = {}
        """Jobs that are watched and are not the current one, by target."""

    @contextlib.contextmanager
    def job(self, target: str | None, timeout: float) -> Iterator[Job]:
        self._note(target)
        if target is None:
            if self.current is None:
                self._stay_with(attach(timeout=timeout))
            assert self.current is not None
            yield self.current
        elif self._is_current(target):
            assert self.current is not None
            yield self.current
        else:
            with attach(target, timeout=timeout) as job:
                yield job
        hearing.listen()

    def stay(self, target: str | None, timeout: float) -> Job:
        """The job to watch, which stays attached as long as this notebook is: the current one, or one beside it."""
        self._note(target)
        if target is None or self._is_current(target):
            with self.job(target if self.current is not None else None, timeout) as job:
                return job
        beside = self._beside.get(target)
        if beside is not None and beside.over:
            beside.close()  # another job may have that name now; what was drawn of the old one stays
            beside = None
        if beside is None:
            beside = self._beside[target] = attach(target, timeout=timeout)
            hearing.listen()
        return beside

    def _is_current(self, target: str) -> bool:
        return self.current is not None and target == self.current.name

    def _note(self, target: str | None) -> None:
        """Commands mean the current job by themselves."""
        self.named = None if target is None or self._is_current(target) else target

    def attach(self, target: str | None, timeout: float) -> Result:
        self._note(target)
        job = attach(target, timeout=timeout)
        self.close()
        self._stay_with(job)
        self.named = None
        hearing.listen()
        return job.attached()

    def _stay_with(self, job: Job) -> None:
        """Its steps are kept from now on, so that they can be shown when it has died; this very process would take them with it. Where not
        all ranks could be entered, a feed would try again and again: that is for who watches.
        """
        self.current = job
        if job.name != "self" and all(rank.agent for rank in job.ranks):
            job.keep_steps()

    def detach(self, target: str | None, timeout: float, *, force: bool = False) -> Result:
        self._note(target)
        if target is not None and not self._is_current(target):
            with attach(target, timeout=timeout) as job:
                return job.detached(force=force, timeout=timeout)
        if self.current is None:
            raise NoTarget(text("this notebook is attached to nothing"), text("name the target to detach"))
        detached = self.current.detached(force=force, timeout=timeout)
        self.current = None
        return detached

    @contextlib.contextmanager
    def live(self) -> Iterator[Callable[[Result, str], None]]:
        from IPython.display import display

        place = display(NOTHING, raw=True, display_id=True)

        def show(result: Result, line: str) -> None:
            place.update(result)

        try:
            yield show
        finally:
            place.update(NOTHING, raw=True)  # the last one is what the magic returns

    def close(self, *, everything: bool = False) -> None:
        """Leave the current job, if any; with `everything` also those that are watched beside it."""
        job, self.current = self.current, None
        beside = list(self._beside.values()) if everything else []
        if everything:
            self._beside.clear()
            hearing.stop()
        for left in ([job] if job is not None else []) + beside:
            left.close()


def load(shell: InteractiveShell) -> NotebookSession:
    """Register every verb as a magic. Returns the session to give to `unload`.

    A magic that another extension has of a name for which we have a second one stays, and a line says how ours is called.
    """
    session = NotebookSession()
    taken = [verb for verb in commands.SECOND_NAMES if _is_taken(shell, verb)]
    commands.in_a_notebook(True, taken)
    shell.events.register("pre_run_cell", hearing.begin)
    shell.input_transformers_post.append(_semicolon_as_argument)
    for verb in commands.verbs():
        kind = "line_cell" if getattr(base.load(verb), "CELL", False) else "line"
        names = [*([] if verb in taken else [verb]), *([second] if (second := commands.SECOND_NAMES.get(verb)) else [])]
        for name in names:
            session.magics[name] = _magic(verb, session)
            shell.register_magic_function(session.magics[name], kind, name)
    completer = getattr(shell, "Completer", None)
    if completer is not None:
        completer.custom_matchers.append(
            matcher(lambda name: commands.verb_of(name) if _is_ours(shell, session, name) else None)
        )
    for verb in taken:
        ours = commands.SECOND_NAMES[verb]
        print(text("`%{verb}` is another extension's here and stays so; ours is `%{ours}`", verb=verb, ours=ours))
    return session


def _is_taken(shell: InteractiveShell, name: str) -> bool:
    """Whether there is such a magic already, or one that IPython loads an extension for when it is used."""
    manager = shell.magics_manager
    return name in getattr(manager, "lazy_magics", {}) or any(name in magics for magics in manager.magics.values())


def _is_ours(shell: InteractiveShell, session: NotebookSession, name: str) -> bool:
    """An extension that was loaded later may have taken it."""
    return name in session.magics and shell.magics_manager.magics["line"].get(name) is session.magics[name]


def unload(shell: InteractiveShell, session: NotebookSession) -> None:
    """Take the magics out again and leave the jobs."""
    session.close(everything=True)
    commands.in_a_notebook(False)
    brought.forget()
    shell.events.unregister("pre_run_cell", hearing.begin)
    shell.input_transformers_post.remove(_semicolon_as_argument)
    for name, ours in session.magics.items():
        for magics in shell.magics_manager.magics.values():
            if magics.get(name) is ours:
                del magics[name]
    session.magics.clear()
    completer = getattr(shell, "Completer", None)
    if completer is not None:
        completer.custom_matchers[:] = [m for m in completer.custom_matchers if not is_ours(m)]


def _semicolon_as_argument(lines: list[str]) -> list[str]:
    """The call that IPython makes of ``%grads;``, with the semicolon as its argument: it would look for a magic of that name."""
    return [_SILENCED.sub(r"run_line_magic('\1', ';", line) if ";'" in line else line for line in lines]


def _magic(name: str, session: NotebookSession) -> Callable[..., Result | None]:
    parser, own_split = base.parser(name), getattr(base.load(name), "split", None)

    def magic(line: str, cell: str = "") -> Result | None:
        typed = f"{line}\n{cell}".strip()
        silent = own_split is None and typed.endswith(";")  # as IPython has it; a query may well end so
        typed = typed if own_split else typed.rstrip("; ")
        try:
            args = _parsed(parser, (own_split or base.split)(typed))
            result = None if args is None else base.run(name, args, session, typed)
        except TraindbgError as e:
            e._render_traceback_ = functools.partial(error_lines, e)  # type: ignore[attr-defined]
            raise e from None
        return None if silent else result

    magic.__name__ = name
    magic.__doc__ = parser.format_help()
    return magic


def _parsed(parser: Parser, words: list[str]) -> argparse.Namespace | None:
    """The arguments; None where the help was asked for, which is printed then."""
    try:
        args: argparse.Namespace = parser.parse_args(words)
    except SystemExit:
        return None
    return args


def _choice_lines(error: AmbiguousTarget) -> list[str]:
    """What to type for each candidate, and what that runs."""
    typed = error.choices()
    room = max(map(len, typed), default=0)
    runs = [short_command(words, max(LEAST_ROOM, WIDTH - room - 5)) for words in error.candidates.values()]
    return [f"{command:{room}}   {words}".rstrip() for command, words in zip(typed, runs, strict=True)]


def error_lines(error: TraindbgError) -> list[str]:
    """What a cell shows of `error` in place of a traceback: its name, what happened, what to do. Lines end between words, since a notebook
    breaks long ones anywhere; commands are not broken.
    """
    cause, _ = error.parts()
    choices = _choice_lines(error) if isinstance(error, AmbiguousTarget) else []
    with speaking(error.language):
        words = text("{cause}; {step}:", cause=cause, step=error.next_step) if choices else str(error)
        more = text(
            "... and {more} more: {command}",
            more=len(choices) - MOST_CHOICES,
            command=commands.command("%targets"),
        )
    name = type(error).__name__
    whole = re.sub("`[^`]*`", lambda match: match[0].replace(" ", "\xa0"), f"{name}: {words}")
    lines = textwrap.wrap(whole, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    lines += [f"  {choice}" for choice in choices[:MOST_CHOICES]]
    if len(choices) > MOST_CHOICES:
        lines.append(f"  {more}")
    shown = "\n".join(lines).replace("\xa0", " ")
    return [f"\x1b[1m{name}\x1b[0m{shown.removeprefix(name)}"]
